/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>

/*
 * URLs of workers, and paths with their queries. Text that the caller gives is percent-encoded whole, so that no id or
 * label can name another resource or add a parameter. Pure; any thread.
 */

enum { URL_MAX = 16384 }; /* bytes; room for the ids of the longest ferry_wait_operations() */

/* The base has a host only because HTTP wants one. Returns 0; -EINVAL: no path; -ENOMEM. */
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

/* Whether a URL has that part, or none, where part is NULL. */
static bool url_has(CURLU *url, CURLUPart which, const char *part)
{
        char *found = NULL;
        CURLUcode code = curl_url_get(url, which, &found, 0);
        bool has = code == CURLUE_OK ? part && strcmp(found, part) == 0 : !part;
        curl_free(found);
        return has;
}

/*
 * The text of a URL that can be a worker's, without the final slash. Returns 0; -EINVAL: another scheme, or a query or
 * a fragment; -ENOMEM.
 */
static int url_get_base(CURLU *url, char **ret_base)
{
        char *text;
        if (!(url_has(url, CURLUPART_SCHEME, "http") || url_has(url, CURLUPART_SCHEME, "https")) ||
            !url_has(url, CURLUPART_QUERY, NULL) || !url_has(url, CURLUPART_FRAGMENT, NULL))
                return -EINVAL;
        if (curl_url_get(url, CURLUPART_URL, &text, 0) != CURLUE_OK)
                return -ENOMEM;
        size_t length = strlen(text);
        while (text[length - 1] == '/')
                length--;
        *ret_base = strndup(text, length);
        curl_free(text);
        return *ret_base ? 0 : -ENOMEM;
}

int url_parse(const char *url, char **ret_base, char **ret_socket)
{
        if (!url || strlen(url) > URL_MAX)
                return -EINVAL;
        if (strncmp(url, "unix:", 5) == 0)
                return url_parse_unix(url + 5, ret_base, ret_socket);
        const char *host = strstr(url, "://"); /* libcurl takes any number of slashes from one to three */
        if (!host || host[3] == '/')
                return -EINVAL;
        CURLU *parsed = curl_url();
        if (!parsed)
                return -ENOMEM;
        CURLUcode code = curl_url_set(parsed, CURLUPART_URL, url, CURLU_DISALLOW_USER | CURLU_PATH_AS_IS);
        int r = code == CURLUE_OUT_OF_MEMORY ? -ENOMEM : code != CURLUE_OK ? -EINVAL : url_get_base(parsed, ret_base);
        curl_url_cleanup(parsed);
        if (r == 0)
                *ret_socket = NULL;
        return r;
}

const char *path_wait(const char *path, uint64_t *ret_wait_ms)
{
        static const char name[] = "wait_ms=";
        const char *at = strchr(path, '?');
        *ret_wait_ms = 0;
        while (at && strncmp(at + 1, name, strlen(name)) != 0)
                at = strchr(at + 1, '&');
        if (!at || !ferry_uint_read(at + 1 + strlen(name), ret_wait_ms))
                return NULL;
        return at + 1 + strlen(name);
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
