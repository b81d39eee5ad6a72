/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/util.h>

struct error_entry {
        int number;
        const char *code;
        int http;
        int retryable;
        const char *title;
};

static const struct error_entry entries[] = {
#define X(name, number, code, http, retryable, title) { (number), (code), (http), (retryable), (title) },
        FERRY_ERRORS(X)
#undef X
};

/* A number that two rows share would make two equal case labels, which does not compile. */
static const struct error_entry *find(int error)
{
        enum {
#define X(name, number, code, http, retryable, title) ROW_##name,
                FERRY_ERRORS(X)
#undef X
        };

        switch (error) {
#define X(name, number, code, http, retryable, title)                                                                  \
        case number:                                                                                                   \
                return &entries[ROW_##name];
                FERRY_ERRORS(X)
#undef X
        default:
                return NULL;
        }
}

const char *ferry_error_code(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->code : "internal";
}

const char *ferry_error_title(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->title : "The worker failed";
}

int ferry_error_http(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->http : 500;
}

int ferry_error_retryable(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->retryable : 0;
}

int ferry_error_from_code(const char *code, int http)
{
        int found = -1;

        for (size_t i = 0; code && i < FERRY_ARRAY_SIZE(entries); i++) {
                if (strcmp(entries[i].code, code) != 0)
                        continue;
                if (http == 0 || entries[i].http == http)
                        return entries[i].number;
                if (found < 0)
                        found = entries[i].number;
        }
        return found;
}
