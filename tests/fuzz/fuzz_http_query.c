/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json.h>
#include <ferry/status.h>

#include "fuzz_text.h"
#include "serve/fields.h"

/* One byte that says which parameters the route has, then a query: name=value&name=value… */

#define ALL ((1u << HTTP_PARAMETER_COUNT) - 1)

static void check_values(const struct http_query *query)
{
        for (int i = 0; i < HTTP_PARAMETER_COUNT; i++) {
                uint64_t value = query_value(query, (enum http_parameter)i);

                if (!query_has(query, (enum http_parameter)i))
                        continue;
                if (i == HTTP_PARAMETER_KIND)
                        FUZZ_CHECK(value < FERRY_KIND_COUNT);
                else if (i == HTTP_PARAMETER_STATUS)
                        FUZZ_CHECK(value < FERRY_STATUS_COUNT);
                else if (i == HTTP_PARAMETER_IDS)
                        FUZZ_CHECK(value != 0); /* the text, which is gone by now */
                else if (i == HTTP_PARAMETER_AFTER || i == HTTP_PARAMETER_LIMIT)
                        FUZZ_CHECK(value > 0);
                else if (i != HTTP_PARAMETER_WAIT_MS) /* a cap is for any number */
                        FUZZ_CHECK(value <= FERRY_JSON_INTEGER_MAX);
        }
}

static void add(struct http_query *query, unsigned allowed, const uint8_t *data, size_t size)
{
        size_t n = fuzz_until(data, size, '=');
        char *name = fuzz_text(data, n), *value = n < size ? fuzz_text(data + n + 1, size - n - 1) : NULL;
        char detail[QUERY_DETAIL_SIZE] = "", cursor[QUERY_CURSOR_SIZE];
        unsigned before = query->present;

        if (query_add(query, allowed, name, value, value ? size - n - 1 : 0, detail)) {
                unsigned bit = query->present ^ before;

                if (!*name && !value) { /* behind a '&' */
                        FUZZ_CHECK(!bit);
                        free(name);
                        return;
                }
                /* Exactly one more, one of those that the route has, and what it holds is what was written. */
                FUZZ_CHECK(bit && (bit & (bit - 1)) == 0 && (bit & allowed) && (query->present & before) == before);
                FUZZ_CHECK(value && strlen(value) == size - n - 1);
                if (bit == 1u << HTTP_PARAMETER_IDS)
                        FUZZ_CHECK(query_text(query, HTTP_PARAMETER_IDS) == value);
                if (bit == 1u << HTTP_PARAMETER_AFTER) {
                        query_format_cursor(query_value(query, HTTP_PARAMETER_AFTER), cursor);
                        FUZZ_CHECK(strcmp(cursor, value) == 0);
                }
        } else {
                FUZZ_CHECK(detail[0] && strnlen(detail, sizeof(detail)) < sizeof(detail) - 1);
                FUZZ_CHECK(query->present == before);
        }
        free(name);
        free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct http_query query = { 0 };
        unsigned allowed = size ? data[0] & ALL : 0;

        for (size_t at = 1; at < size;) {
                size_t n = fuzz_until(data + at, size - at, '&');

                add(&query, allowed, data + at, n);
                at += n + 1;
        }
        check_values(&query);
        return 0;
}
