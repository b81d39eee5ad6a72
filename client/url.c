/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_MAX = 16384 }; /* bytes; room for the ids of the longest ferry_wait_operations() */

static bool url_text_is_plain(const char *text)
{
        for (const char *p = text; *p; p++) {
                if ((unsigned char)*p <= ' ' || *p == 0x7f)
                        return false;
        }
        return true;
}

static int url_parse_unix(const char *path, char **ret_base, char **ret_socket)
{
        if (*path == '\0')
                return -EINVAL;
        char *base = strdup("http://localhost"), *socket = strdup(path);
        if (!base || !socket) {
                free(base);
                free(socket);
                return -ENOMEM;
        }
        *ret_base = base;
        *ret_socket = socket;
        return 0;
}

int url_parse(const char *url, char **ret_base, char **ret_socket)
{
        if (!url || strlen(url) > URL_MAX)
                return -EINVAL;
        if (strncmp(url, "unix:", 5) == 0)
                return url_parse_unix(url + 5, ret_base, ret_socket);
        const char *host = strstr(url, "://");
        bool http = strncasecmp(url, "http://", 7) == 0, https = strncasecmp(url, "https://", 8) == 0;
        if (!host || !(http || https) || !url_text_is_plain(url) || strpbrk(url, "@?#"))
                return -EINVAL;
        host += 3;
        if (*host == '\0' || *host == '/' || *host == ':')
                return -EINVAL;
        size_t length = strlen(url);
        while (url[length - 1] == '/')
                length--;
        char *base = strndup(url, length);
        if (!base)
                return -ENOMEM;
        *ret_base = base;
        *ret_socket = NULL;
        return 0;
}

static void path_append(struct path *p, const char *text, size_t size)
{
        if (!p->error)
                p->error = ferry_buffer_append(&p->text, text, size, URL_MAX);
        if (p->error == -EMSGSIZE)
                p->error = -EINVAL;
}

void path_add(struct path *p, const char *text)
{
        path_append(p, text, strlen(text));
}

static void path_encode(struct path *p, const char *text)
{
        static const char digits[] = "0123456789ABCDEF";
        static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
        for (;;) {
                size_t n = strspn(text, unreserved);
                path_append(p, text, n);
                if (!text[n])
                        return;
                unsigned char c = (unsigned char)text[n];
                path_append(p, (char[]){ '%', digits[c >> 4], digits[c & 15] }, 3);
                text += n + 1;
        }
}

void path_add_segment(struct path *p, const char *segment)
{
        if (!segment || !*segment) {
                if (!p->error)
                        p->error = -EINVAL;
                return;
        }
        path_encode(p, segment);
}

void path_query(struct path *p, const char *name, const char *value)
{
        if (!value)
                return;
        path_add(p, p->queried ? "&" : "?");
        p->queried = true;
        path_add(p, name);
        path_add(p, "=");
        path_encode(p, value);
}

void path_query_number(struct path *p, const char *name, uint64_t value)
{
        char text[24];
        snprintf(text, sizeof(text), "%" PRIu64, value);
        path_query(p, name, value ? text : NULL);
}

void path_clear(struct path *p)
{
        ferry_buffer_clear(&p->text, 0);
        *p = (struct path){ 0 };
}
