/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "fuzz_text.h"
#include "serve_internal.h"

/*
 * What stands before every handler. The first byte chooses a route's need and which tokens there are, the rest is
 * lines: Authorization, Host, Origin, Content-Length, Transfer-Encoding. A line that is missing is a header that is
 * missing.
 */

enum { LINES = 5 };

static const char full[] = "full-token", peer[] = "peer-token", metrics[] = "metrics-token";

/* In other words than the guard's. */
static bool says(const char *authorization, const char *token)
{
        size_t n;

        if (!authorization || !token || strlen(authorization) < 7 || strncasecmp(authorization, "bearer", 6) != 0)
                return false;
        n = strspn(authorization + 6, " ");
        return n > 0 && strcmp(authorization + 6 + n, token) == 0;
}

static bool has_form_of_key(const char *authorization)
{
        const char *token = guard_bearer(authorization);
        uint8_t key[FERRY_KEY_SIZE];

        return token && ferry_key_parse(token, key);
}

static void check_authorization(const char *authorization, unsigned choice)
{
        const struct guard_tokens tokens = { .full = choice & 8 ? full : NULL,
                                             .peer = choice & 16 ? peer : NULL,
                                             .metrics = choice & 32 ? metrics : NULL };
        enum http_auth need = (enum http_auth)(choice % (HTTP_AUTH_FULL + 1));
        int error = guard_authorize(authorization, &tokens, need);
        bool may = need == HTTP_AUTH_NONE || (!tokens.full && need != HTTP_AUTH_KEY) ||
                   says(authorization, tokens.full) || (need == HTTP_AUTH_PEER && says(authorization, tokens.peer)) ||
                   (need == HTTP_AUTH_METRICS && says(authorization, tokens.metrics)) ||
                   ((need == HTTP_AUTH_KEY || need == HTTP_AUTH_FULL_OR_KEY) && has_form_of_key(authorization));

        FUZZ_CHECK((error == 0) == may);
        FUZZ_CHECK(error == 0 || error == FERRY_E_UNAUTHENTICATED || error == FERRY_E_FORBIDDEN);
}

/* A name that passes is the worker's own, or none that could be looked up. */
static void check_host(const char *host)
{
        static const char *const names[] = { "worker.example", NULL };

        if (!host || !guard_host_allowed(host, names, 2))
                return;
        FUZZ_CHECK(host[0] && strcspn(host, " \t@/\\?#") == strlen(host));
        if (strncasecmp(host, "localhost", 9) != 0 && strncasecmp(host, "worker.example", 14) != 0)
                FUZZ_CHECK(strspn(host, "0123456789.:[]abcdefABCDEF%") == strlen(host) || host[0] == '[');
        if (!strncasecmp(host, "localhost", 9))
                FUZZ_CHECK(strspn(host + 9, ".:0123456789") == strlen(host + 9));
}

static void check_origin(const char *origin)
{
        static const char *const allowed[] = { "https://ui.example", "http://127.0.0.1:8080" };

        if (origin && guard_origin_allowed(origin, allowed, 2))
                FUZZ_CHECK(!strcasecmp(origin, allowed[0]) || !strcasecmp(origin, allowed[1]));
}

static void check_framing(const char *length, const char *coding, bool old)
{
        const struct http_headers headers = { .content_length = length, .transfer_encoding = coding };

        if (guard_framing_fault(&headers, old ? "HTTP/1.0" : "HTTP/1.1"))
                return;
        FUZZ_CHECK(!length || !coding);
        FUZZ_CHECK(!length || (length[0] && strspn(length, "0123456789") == strlen(length)));
        FUZZ_CHECK(!coding || (!old && !strcasecmp(coding, "chunked")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned choice = size > 0 ? data[0] : 0;
        char *lines[LINES] = { NULL };
        size_t at = 1;

        for (size_t i = 0; i < LINES && at <= size; i++) {
                size_t n = fuzz_until(data + at, size - at, '\n');

                if (size > 0)
                        lines[i] = fuzz_text(data + at, n);
                at += n + 1;
        }
        check_authorization(lines[0], choice);
        check_host(lines[1]);
        check_origin(lines[2]);
        check_framing(lines[3], lines[4], choice & 64);
        for (size_t i = 0; i < LINES; i++)
                free(lines[i]);
        return 0;
}
