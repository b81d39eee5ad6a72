/* SPDX-License-Identifier: Apache-2.0 */
#include "json_keys.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json_checker.h"

void *json_reserve(void *block, size_t *room, size_t n, size_t size)
{
        size_t wanted = *room ? *room : 16, bytes;

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
        uint32_t c = (uint32_t)json_hex4(at + 1, at + 5);

        at += 5;
        if (c >= 0xd800 && c <= 0xdbff) {
                c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)json_hex4(at + 2, at + 6) - 0xdc00);
                at += 6;
        }
        *n += put_utf8(c, bytes + *n);
        return at;
}

/* The characters of a key without their escapes; returns how many bytes. No text grows by it. */
static size_t unescape(const unsigned char *at, const unsigned char *end, char *bytes)
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
        struct json_key *list = json_reserve(keys->keys, &keys->room, keys->n + 1, sizeof(*list));

        if (!list)
                return false;
        keys->keys = list;
        list[keys->n++] = (struct json_key){ .text = quote + 1, .length = (size_t)(end - quote - 2) };
        return true;
}

/* Each with each. false: they are too many for that, or have escapes. */
static bool compare_few(const struct json_key *keys, size_t n, const unsigned char **ret_twice)
{
        enum { FEW = 12 };

        if (n > FEW)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (memchr(keys[i].text, '\\', keys[i].length))
                        return false;
                for (size_t j = 0; j < i && !*ret_twice; j++)
                        if (keys[i].length == keys[j].length && memcmp(keys[i].text, keys[j].text, keys[i].length) == 0)
                                *ret_twice = keys[i].text - 1;
        }
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
        return a->text < b->text ? -1 : a->text > b->text;
}

static bool sort(struct json_keys *keys, size_t mark, const unsigned char **ret_twice)
{
        size_t n_bytes = 0;
        char *bytes;

        for (size_t i = mark; i < keys->n; i++)
                n_bytes += keys->keys[i].length;
        bytes = json_reserve(keys->bytes, &keys->room_bytes, n_bytes, 1);
        if (!bytes && n_bytes)
                return false;
        keys->bytes = bytes;
        n_bytes = 0;
        for (size_t i = mark; i < keys->n; i++) {
                struct json_key *key = &keys->keys[i];

                key->start = n_bytes;
                key->length = unescape(key->text, key->text + key->length, bytes + n_bytes);
                n_bytes += key->length;
        }
        qsort_r(keys->keys + mark, keys->n - mark, sizeof(keys->keys[0]), compare, bytes);
        for (size_t i = mark + 1; i < keys->n; i++) {
                const struct json_key *a = &keys->keys[i - 1], *b = &keys->keys[i];

                if (a->length == b->length && memcmp(bytes + a->start, bytes + b->start, a->length) == 0 &&
                    (!*ret_twice || b->text - 1 < *ret_twice))
                        *ret_twice = b->text - 1;
        }
        return true;
}

bool json_keys_pop(struct json_keys *keys, size_t mark, const unsigned char **ret_twice)
{
        const unsigned char *twice = NULL;

        if (keys->n > mark && !compare_few(keys->keys + mark, keys->n - mark, &twice)) {
                twice = NULL;
                if (!sort(keys, mark, &twice))
                        return false;
        }
        keys->n = mark;
        *ret_twice = twice;
        return true;
}

void json_keys_clear(struct json_keys *keys)
{
        free(keys->bytes);
        free(keys->keys);
        *keys = (struct json_keys){ 0 };
}
