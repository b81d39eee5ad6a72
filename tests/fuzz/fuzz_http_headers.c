/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>

#include "fuzz_text.h"
#include "serve/fields.h"

/* Lines of "Name: value", as the header of a request; and each value as what it could be of any header. */

enum { LINES_MAX = 64 };

static void check_value(const char *value)
{
        uint64_t number;
        size_t n = strlen(value);
        bool name;

        if (headers_prefer_wait(value, &number))
                FUZZ_CHECK(strpbrk(value, "0123456789"));
        if (headers_parse_length(value, &number)) {
                FUZZ_CHECK(number <= INT64_MAX && n > 0 && strspn(value, "0123456789") == n);
                FUZZ_CHECK(number == strtoull(value, NULL, 10));
        }
        if (headers_etag_matches(value, "\"r2\"", true))
                FUZZ_CHECK(strchr(value, '*') || strstr(value, "\"r2\""));
        if (headers_etag_matches(value, "\"r2\"", false))
                FUZZ_CHECK(headers_etag_matches(value, "\"r2\"", true));
        if (headers_media_type_is(value, "application/json"))
                FUZZ_CHECK(strcasestr(value, "application/json"));
        if (headers_request_id_valid(value))
                FUZZ_CHECK(n >= 1 && n <= 64);
        name = headers_idempotency_key_valid(value);
        if (name)
                FUZZ_CHECK(n >= 1 && n <= 255);
        for (size_t i = 0; name && i < n; i++)
                FUZZ_CHECK(isgraph((unsigned char)value[i]));
}

/* name and value must outlive headers, as they do in a connection. */
static void add(struct http_headers *headers, char *name, char *value, size_t size)
{
        check_value(value);
        headers_add(headers, name, value, size);
        /* A value that is cut by a NUL must not pass for what stands before it. */
        if (strlen(value) != size && strcasecmp(name, "Range") == 0)
                FUZZ_CHECK(headers->fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct http_headers headers = { 0 };
        char *texts[2 * LINES_MAX];
        size_t n = 0;

        for (size_t at = 0; at < size && n < 2 * LINES_MAX;) {
                size_t line = fuzz_until(data + at, size - at, '\n'), colon = fuzz_until(data + at, line, ':');
                size_t value = colon + 1 < line ? colon + 1 : line;

                while (value < line && data[at + value] == ' ')
                        value++;
                texts[n] = fuzz_text(data + at, colon);
                texts[n + 1] = fuzz_text(data + at + value, line - value);
                add(&headers, texts[n], texts[n + 1], line - value);
                n += 2;
                at += line + 1;
        }
        headers_clear(&headers);
        while (n > 0)
                free(texts[--n]);
        return 0;
}
