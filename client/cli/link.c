/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* How resources of any worker are named on the command line; cli.h has the forms. Pure. */

#define LINK_ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static int link_make(const char *worker, size_t worker_size, const char *id, size_t id_size, struct link *ret_link)
{
        struct link made = { .worker = worker ? strndup(worker, worker_size) : NULL, .id = strndup(id, id_size) };
        if (!made.id || (worker && !made.worker)) {
                link_clear(&made);
                return -ENOMEM;
        }
        *ret_link = made;
        return 0;
}

/* The id may be followed by "/metadata", as an offer prints it. */
static int link_take_id(const char *worker, size_t worker_size, const char *id, const char *prefix,
                        struct link *ret_link)
{
        size_t size = strspn(id, LINK_ID_CHARACTERS);
        if (strncmp(id, prefix, strlen(prefix)) != 0 || size == strlen(prefix))
                return -EINVAL;
        if (id[size] && strcmp(id + size, "/metadata") != 0)
                return -EINVAL;
        return link_make(worker, worker_size, id, size, ret_link);
}

int link_parse(const char *text, const char *collection, const char *prefix, struct link *ret_link)
{
        char path[64];
        const char *slash = strchr(text, '/');
        if (*text == '@' && slash && slash > text + 1)
                return link_take_id(text, (size_t)(slash - text), slash + 1, prefix, ret_link);
        snprintf(path, sizeof(path), "/v1/%s/", collection);
        const char *at = strstr(text, path);
        if (!at && strncmp(text, "ferry://", 8) == 0 && (slash = strchr(text + 8, '/')))
                return link_take_id(text, (size_t)(slash - text), slash + 1, prefix, ret_link);
        if (!at)
                return link_take_id(NULL, 0, text, prefix, ret_link);
        size_t base = (size_t)(at - text);
        if (strncmp(text, "unix:", 5) == 0) {
                if (base < 7 || text[base - 1] != ':')
                        return -EINVAL;
                return link_take_id(text, base - 1, at + strlen(path), prefix, ret_link);
        }
        if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0 && strncmp(text, "ferry://", 8) != 0)
                return -EINVAL;
        return link_take_id(text, base, at + strlen(path), prefix, ret_link);
}

void link_clear(struct link *link)
{
        free(link->worker);
        free(link->id);
        *link = (struct link){ 0 };
}

char *link_metadata(const char *worker_url, const char *id)
{
        char *url = NULL;
        const char *colon = strncmp(worker_url, "unix:", 5) == 0 ? ":" : "";
        return asprintf(&url, "%s%s/v1/operations/%s/metadata", worker_url, colon, id) < 0 ? NULL : url;
}

bool cli_host_port(const char *text, char *host, size_t host_size, char *port, size_t port_size)
{
        const char *scheme = strstr(text, "://"), *start = scheme ? scheme + 3 : text;
        const char *end = start + strcspn(start, "/"), *colon = memrchr(start, ':', (size_t)(end - start));
        if (strncmp(text, "unix:", 5) == 0 || (!scheme && !colon))
                return false;
        if (colon && memchr(colon, ']', (size_t)(end - colon)))
                colon = NULL; /* within an IPv6 address */
        if (colon)
                snprintf(port, port_size, "%.*s", (int)(end - colon - 1), colon + 1);
        else
                snprintf(port, port_size, "%s", strncasecmp(text, "https", 5) == 0 ? "443" : "80");
        snprintf(host, host_size, "%.*s", (int)((colon ? colon : end) - start), start);
        return true;
}
