/* SPDX-License-Identifier: Apache-2.0 */
#include "json_keys.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for n elements of size bytes; grows twofold. NULL when memory is short, and the old block stays. */
static void *reserve(void *block, size_t *room, size_t n, size_t size)
{
        size_t wanted = *room ? *room : 64, bytes;

        if (n <= *room)
                return block;
        while (wanted < n)
                if (__builtin_mul_overflow(wanted, 2, &wanted))
                        return NULL;
        if (__builtin_mul_overflow(wanted, size, &bytes))
                return NULL;
        block = realloc(block, bytes);
        if (block)
                *room = wanted;
        return block;
}

static uint32_t hex4(const unsigned char *at)
{
        uint32_t value = 0;

        for (int i = 0; i < 4; i++)
                value = value << 4 | (uint32_t)(at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
        return value;
}

static size_t put_utf8(uint32_t c, char *bytes)
{
        if (c < 0x80) {
                bytes[0] = (char)c;
                return 1;
        }
        if (c < 0x800) {
                bytes[0] = (char)(0xc0 | c >> 6);
                bytes[1] = (char)(0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                bytes[0] = (char)(0xe0 | c >> 12);
                bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
                bytes[2] = (char)(0x80 | (c & 0x3f));
                return 3;
        }
        bytes[0] = (char)(0xf0 | c >> 18);
        bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[3] = (char)(0x80 | (c & 0x3f));
        return 4;
}

/* at stands on the u of \uXXXX; returns where it ends. */
static const unsigned char *unescape_unicode(const unsigned char *at, char *bytes, size_t *n)
{
        uint32_t c = hex4(at + 1);

        at += 5;
        if (c >= 0xd800 && c <= 0xdbff) {
                c = 0x10000 + ((c - 0xd800) << 10) + (hex4(at + 2) - 0xdc00);
                at += 6;
        }
        *n += put_utf8(c, bytes + *n);
        return at;
}

size_t json_unescape(const unsigned char *at, const unsigned char *end, char *bytes)
{
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        size_t n = 0;

        while (at < end) {
                const char *simple;

                if (*at != '\\') {
                        bytes[n++] = (char)*at++;
                        continue;
                }
                at++;
                if (*at == 'u') {
                        at = unescape_unicode(at, bytes, &n);
                        continue;
                }
                simple = memchr(from, *at, sizeof(from) - 1);
                bytes[n++] = simple ? to[simple - from] : (char)*at;
                at++;
        }
        return n;
}

bool json_keys_push(struct json_keys *keys, const unsigned char *quote, const unsigned char *end)
{
        size_t most = (size_t)(end - quote);
        char *bytes = reserve(keys->bytes, &keys->room_bytes, keys->n_bytes + most, 1);
        struct json_key *list;

        if (!bytes)
                return false;
        keys->bytes = bytes;
        list = reserve(keys->keys, &keys->room, keys->n + 1, sizeof(*list));
        if (!list)
                return false;
        keys->keys = list;
        list[keys->n] = (struct json_key){ .start = keys->n_bytes, .at = quote };
        list[keys->n].length = json_unescape(quote + 1, end - 1, bytes + keys->n_bytes);
        keys->n_bytes += list[keys->n].length;
        keys->n++;
        return true;
}

/* Equal keys stand next to each other, in the order of the text. */
static int compare(const void *left, const void *right, void *bytes)
{
        const struct json_key *a = left, *b = right;
        int order;

        if (a->length != b->length)
                return a->length < b->length ? -1 : 1;
        order = memcmp((char *)bytes + a->start, (char *)bytes + b->start, a->length);
        if (order)
                return order;
        return a->at < b->at ? -1 : a->at > b->at;
}

const unsigned char *json_keys_pop(struct json_keys *keys, size_t mark)
{
        const unsigned char *first = NULL;

        if (keys->n == mark)
                return NULL;
        keys->n_bytes = keys->keys[mark].start;
        qsort_r(keys->keys + mark, keys->n - mark, sizeof(keys->keys[0]), compare, keys->bytes);
        for (size_t i = mark + 1; i < keys->n; i++) {
                const struct json_key *a = &keys->keys[i - 1], *b = &keys->keys[i];

                if (a->length == b->length && memcmp(keys->bytes + a->start, keys->bytes + b->start, a->length) == 0 &&
                    (!first || b->at < first))
                        first = b->at;
        }
        keys->n = mark;
        return first;
}

void json_keys_clear(struct json_keys *keys)
{
        free(keys->bytes);
        free(keys->keys);
        *keys = (struct json_keys){ 0 };
}
