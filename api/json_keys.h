/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_KEYS_H
#define API_JSON_KEYS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The keys of the objects that a checker is inside of, innermost last: a stack, so that its memory never exceeds a
 * small multiple of the text. Keys are kept without their escapes, because "a" and "\u0061" are the same key.
 */
struct json_key {
        size_t start, length;    /* its bytes */
        const unsigned char *at; /* where it stands in the text */
};

struct json_keys {
        char *bytes;
        size_t n_bytes, room_bytes;
        struct json_key *keys;
        size_t n, room;
};

/*
 * The characters between two quotes, checked before, without their escapes; returns how many bytes. No text grows by
 * it, so bytes may be where the characters are.
 */
size_t json_unescape(const unsigned char *at, const unsigned char *end, char *bytes);

/* Adds the key whose string, checked before, runs from its opening quote up to end. false when memory is short. */
bool json_keys_push(struct json_keys *keys, const unsigned char *quote, const unsigned char *end);

/*
 * Takes off all keys from the mark-th on, those of one object. Returns the place of the first one that the object has
 * had before, or NULL. Sorts, so that no choice of keys makes it slower than n log n.
 */
const unsigned char *json_keys_pop(struct json_keys *keys, size_t mark);

void json_keys_clear(struct json_keys *keys);

#endif
