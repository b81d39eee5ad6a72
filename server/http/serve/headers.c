/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/fields.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>

#include "base/util.h"

/*
 * Headers and their grammars (RFC 9110, 7240, 8941). Values are bytes of strangers: a parser reads a whole value, or
 * takes the header for absent; none allocates, but for lists that come in several lines. Pure; any thread.
 */

static const struct {
        const char *name;
        size_t offset;
        enum header_repeat repeat;
} table[] = {
#define X(field, name, repeat) { name, offsetof(struct http_headers, field), repeat },
        HTTP_HEADERS(X)
#undef X
};

/* RFC 9110, section 5.6.2. */
static bool is_token_character(char c)
{
        return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

size_t headers_token_length(const char *text)
{
        size_t n = 0;

        while (is_token_character(text[n]))
                n++;
        return n;
}

/* Adds one more line to a list. */
static void join(struct http_headers *headers, size_t i, const char **slot, const char *value)
{
        char *joined;

        if (!headers->joined)
                headers->joined = calloc(FERRY_ARRAY_SIZE(table), sizeof(*headers->joined));
        if (!headers->joined || asprintf(&joined, "%s, %s", *slot, value) < 0) {
                headers->fault = "Memory is short for a header in several lines";
                return;
        }
        free(headers->joined[i]);
        *slot = headers->joined[i] = joined;
}

/*
 * A fault stays, and guard_framing_fault() refuses the request for it: two headers of one name, a NUL or a carriage
 * return may mean one thing here and another at a proxy.
 */
void headers_add(struct http_headers *headers, const char *name, const char *value, size_t size)
{
        size_t length = headers_token_length(name);

        if (!length || name[length])
                headers->fault = "The name of a header is not a token";
        if (strchr(value, '\r'))
                headers->fault = "A header holds a carriage return";
        if (!strcasecmp(name, "Prefer")) {
                if (!headers->prefer_wait)
                        headers->prefer_wait = headers_prefer_wait(value, &headers->prefer_wait_s);
                headers->prefer_async |= headers_prefer_async(value);
                return;
        }
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(table); i++) {
                if ((*name | ' ') != (*table[i].name | ' ') || strcasecmp(name, table[i].name))
                        continue;
                const char **slot = (const char **)(void *)((char *)headers + table[i].offset);
                if (*slot && table[i].repeat == HEADER_ONCE)
                        headers->fault = "A header that may come only once is given twice";
                if (strlen(value) != size)
                        headers->fault = "A header holds a NUL";
                if (!*slot)
                        *slot = value;
                else if (table[i].repeat == HEADER_LIST)
                        join(headers, i, slot, value);
                return;
        }
}

void headers_clear(struct http_headers *headers)
{
        for (size_t i = 0; headers->joined && i < FERRY_ARRAY_SIZE(table); i++)
                free(headers->joined[i]);
        free(headers->joined);
}

const char *headers_skip_blanks(const char *text)
{
        while (*text == ' ' || *text == '\t')
                text++;
        return text;
}

/* The text after the comma that ends a preference; a comma inside quotes, where a backslash escapes, does not. */
static const char *next_preference(const char *value)
{
        for (bool quoted = false; *value && (quoted || *value != ','); value++) {
                if (quoted && *value == '\\' && value[1])
                        value++;
                else if (*value == '"')
                        quoted = !quoted;
        }
        return *value ? value + 1 : value;
}

bool headers_prefer_wait(const char *value, uint64_t *ret_seconds)
{
        while (*(value = headers_skip_blanks(value))) {
                const char *name = value;
                value += headers_token_length(value);
                bool wait = value - name == 4 && !strncasecmp(name, "wait", 4);
                value = headers_skip_blanks(value);
                if (wait && *value == '=') {
                        uint64_t seconds;
                        const char *digit = headers_skip_blanks(value + 1);
                        bool quoted = *digit == '"';
                        digit = ferry_uint_read(digit + quoted, &seconds);
                        if (!digit || (quoted && *digit++ != '"'))
                                return false;
                        digit = headers_skip_blanks(digit);
                        if (*digit && *digit != ',' && *digit != ';')
                                return false;
                        *ret_seconds = seconds;
                        return true;
                }
                value = next_preference(value);
        }
        return false;
}

bool headers_prefer_async(const char *value)
{
        static const char name[] = "respond-async";

        for (; *(value = headers_skip_blanks(value)); value = next_preference(value))
                if (!strncasecmp(value, name, strlen(name)) && !is_token_character(value[strlen(name)]))
                        return true;
        return false;
}

bool headers_etag_matches(const char *value, const char *etag, bool weak)
{
        size_t length = strlen(etag);

        value = headers_skip_blanks(value);
        if (*value == '*')
                return !*headers_skip_blanks(value + 1);
        while (*value) {
                bool tag_is_weak = !strncmp(value, "W/", 2);
                if (tag_is_weak)
                        value += 2;
                if (*value != '"')
                        return false;
                const char *end = strchr(value + 1, '"');
                if (!end)
                        return false;
                if ((weak || !tag_is_weak) && (size_t)(end + 1 - value) == length && !memcmp(value, etag, length))
                        return true;
                value = headers_skip_blanks(end + 1);
                if (*value != ',')
                        return false;
                value = headers_skip_blanks(value + 1);
        }
        return false;
}

const char *headers_dictionary_find(const char *value, const char *key)
{
        size_t length = strlen(key);

        for (; *(value = headers_skip_blanks(value)); value = next_preference(value))
                if (!strncmp(value, key, length) && value[length] == '=')
                        return value + length + 1;
        return NULL;
}

bool headers_prefer(const char *value, const char *key)
{
        const char *preference = value ? headers_dictionary_find(value, key) : NULL;

        return preference && *preference >= '1' && *preference <= '9';
}

/* The q of a media range, in thousandths; 1000 where it has none. end: of the range with its parameters. */
static unsigned quality(const char *range, const char *end)
{
        for (const char *at = range; at < end; at++) {
                if (*at != ';')
                        continue;
                const char *name = headers_skip_blanks(at + 1);
                if ((*name | ' ') != 'q' || name[1] != '=')
                        continue;
                unsigned value = name[2] == '1' ? 1000 : 0;
                if (name[2] == '0' && name[3] == '.')
                        for (unsigned i = 4, part = 100; part && isdigit((unsigned char)name[i]); i++, part /= 10)
                                value += part * (unsigned)(name[i] - '0');
                return value;
        }
        return 1000;
}

unsigned headers_accept(const char *value, const char *type)
{
        size_t length = strlen(type);

        while (value && *(value = headers_skip_blanks(value))) {
                const char *end = value + strcspn(value, ",");
                if (!strncasecmp(value, type, length) && strchr(" \t;,", value[length]))
                        return quality(value, end);
                value = *end ? end + 1 : end;
        }
        return 0;
}

bool headers_media_type_is(const char *value, const char *type)
{
        size_t length = strlen(type);

        if (!value)
                return false;
        value = headers_skip_blanks(value);
        if (strncasecmp(value, type, length))
                return false;
        value = headers_skip_blanks(value + length);
        return *value == '\0' || *value == ';';
}

bool headers_parse_length(const char *value, uint64_t *ret_length)
{
        return ferry_uint_parse(value, INT64_MAX, ret_length);
}

bool headers_request_id_valid(const char *value)
{
        size_t length = strlen(value);

        return length >= 1 && length <= 64 &&
               strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

bool headers_traceparent_valid(const char *value)
{
        enum { LENGTH = 55 }; /* of version 00; later ones may be longer */
        size_t length = strlen(value);

        return length >= LENGTH && length < HEADERS_TRACEPARENT_SIZE && strspn(value, "0123456789abcdef-") == length;
}

bool headers_idempotency_key_valid(const char *value)
{
        size_t length = 0;

        for (; value[length]; length++)
                if (value[length] < 0x21 || value[length] > 0x7e)
                        return false;
        return length >= 1 && length <= 255;
}
