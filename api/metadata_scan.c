/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/metadata.h>

#include "metadata_blob.h"

struct scan {
        const char *at, *end;
};

static void skip_space(struct scan *s)
{
        while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
                s->at++;
}

/* One of the characters that JSON has between values, and the white space before it. */
static bool take(struct scan *s, char wanted)
{
        skip_space(s);
        if (s->at == s->end || *s->at != wanted)
                return false;
        s->at++;
        return true;
}

/* A key, what stands before it, and the colon. */
static bool take_key(struct scan *s, char before, const char *key, size_t n)
{
        if (!take(s, before) || !take(s, '"') || (size_t)(s->end - s->at) <= n || memcmp(s->at, key, n) != 0 ||
            s->at[n] != '"')
                return false;
        s->at += n + 1;
        return take(s, ':');
}

#define TAKE_KEY(scan, before, key) take_key(scan, before, key, sizeof(key) - 1)

/* Up to 19 digits, which fit; what follows them is for the next one to find wrong. */
static bool take_number(struct scan *s, uint64_t *ret_number)
{
        const char *start;
        uint64_t number = 0;

        skip_space(s);
        start = s->at;
        while (s->at < s->end && s->at - start < 19 && *s->at >= '0' && *s->at <= '9')
                number = number * 10 + (uint64_t)(*s->at++ - '0');
        if (s->at == start || (*start == '0' && s->at - start > 1))
                return false;
        *ret_number = number;
        return true;
}

/* A string in which nothing needs an escape or has one, of fewer than size bytes. */
static bool take_string(struct scan *s, const char **ret_text, size_t *ret_size, size_t size)
{
        const char *start, *quote;

        if (!take(s, '"'))
                return false;
        start = s->at;
        quote = memchr(start, '"', (size_t)(s->end - start) < size ? (size_t)(s->end - start) : size);
        if (!quote)
                return false;
        for (const char *at = start; at < quote; at++)
                if (*at <= ' ' || *at > '~' || *at == '\\')
                        return false;
        s->at = quote + 1;
        *ret_text = start;
        *ret_size = (size_t)(quote - start);
        return true;
}

static bool take_descriptor(struct scan *s, struct ferry_metadata_descriptor *d)
{
        const char *device;
        size_t n;

        if (!TAKE_KEY(s, '{', "device") || !take_string(s, &device, &n, sizeof(d->device)) ||
            !TAKE_KEY(s, ',', "ptr") || !take_number(s, &d->ptr) || !TAKE_KEY(s, ',', "size") ||
            !take_number(s, &d->size) || !take(s, '}'))
                return false;
        memset(d->device, 0, sizeof(d->device));
        memcpy(d->device, device, n);
        return true;
}

static bool take_descriptors(struct scan *s, struct ferry_metadata *m)
{
        size_t room = 0;

        if (!take(s, '['))
                return false;
        do {
                struct ferry_metadata_descriptor *list =
                        ferry_reserve(m->descriptors, &room, m->n_descriptors + 1, sizeof(*list));

                if (!list)
                        return false;
                m->descriptors = list;
                if (m->n_descriptors == FERRY_METADATA_DESCRIPTORS || !take_descriptor(s, &list[m->n_descriptors]))
                        return false;
                m->n_descriptors++;
        } while (take(s, ','));
        return take(s, ']');
}

static bool take_authority(struct scan *s, uint8_t ret_key[FERRY_KEY_SIZE])
{
        char text[FERRY_KEY_TEXT_SIZE];
        const char *key;
        size_t n;
        bool good;

        if (!take_string(s, &key, &n, sizeof(text)))
                return false;
        memcpy(text, key, n);
        text[n] = '\0';
        good = ferry_key_parse(text, ret_key);
        explicit_bzero(text, sizeof(text));
        return good;
}

bool metadata_scan(const char *text, size_t size, struct ferry_metadata *m, char **ret_blob)
{
        struct scan s = { text, text + size };
        const char *blob;
        uint64_t kind;
        size_t n;

        if (!TAKE_KEY(&s, '{', "descriptors") || !take_descriptors(&s, m) || !TAKE_KEY(&s, ',', "nixl_metadata") ||
            !take_string(&s, &blob, &n, METADATA_BLOB_MAX) || !TAKE_KEY(&s, ',', "notification_key") ||
            !take_authority(&s, m->key) || !TAKE_KEY(&s, ',', "operation_kind") || !take_number(&s, &kind) ||
            !take(&s, '}') || kind > FERRY_METADATA_WRITE)
                return false;
        skip_space(&s);
        if (s.at < s.end)
                return false;
        m->operation_kind = (int)kind;
        *ret_blob = malloc(n + 1);
        if (!*ret_blob)
                return false;
        memcpy(*ret_blob, blob, n);
        (*ret_blob)[n] = '\0';
        return true;
}
