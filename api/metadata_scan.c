/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/metadata.h>
#include <ferry/scan.h>

#include "metadata_blob.h"

static bool take_descriptor(struct scan *s, struct ferry_metadata_descriptor *d)
{
        const char *device;
        size_t n;

        if (!SCAN_KEY(s, '{', "device") || !scan_string(s, &device, &n, sizeof(d->device)) ||
            !SCAN_KEY(s, ',', "ptr") || !scan_number(s, &d->ptr) || !SCAN_KEY(s, ',', "size") ||
            !scan_number(s, &d->size) || !scan_character(s, '}'))
                return false;
        memset(d->device, 0, sizeof(d->device));
        memcpy(d->device, device, n);
        return true;
}

static bool take_descriptors(struct scan *s, struct ferry_metadata *m)
{
        size_t room = 0;

        if (!scan_character(s, '['))
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
        } while (scan_character(s, ','));
        return scan_character(s, ']');
}

static bool take_authority(struct scan *s, uint8_t ret_key[FERRY_KEY_SIZE])
{
        char text[FERRY_KEY_TEXT_SIZE];
        const char *key;
        size_t n;
        bool good;

        if (!scan_string(s, &key, &n, sizeof(text)))
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

        if (!SCAN_KEY(&s, '{', "descriptors") || !take_descriptors(&s, m) || !SCAN_KEY(&s, ',', "nixl_metadata") ||
            !scan_string(&s, &blob, &n, METADATA_BLOB_MAX) || !SCAN_KEY(&s, ',', "notification_key") ||
            !take_authority(&s, m->key) || !SCAN_KEY(&s, ',', "operation_kind") || !scan_number(&s, &kind) ||
            !scan_character(&s, '}') || kind > FERRY_METADATA_WRITE)
                return false;
        scan_space(&s);
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
