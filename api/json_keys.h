/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_KEYS_H
#define API_JSON_KEYS_H

#include <stdbool.h>
#include <stddef.h>

/* The keys of the objects that a checker is inside of, innermost last: a stack. They point into the text. */
struct json_key {
        const unsigned char *text; /* between its quotes */
        size_t length;
};

struct json_keys {
        struct json_key *keys;
        size_t n, room;
};

/* Adds the key whose string, checked before, runs from its opening quote up to end. false when memory is short. */
bool json_keys_push(struct json_keys *keys, const unsigned char *quote, const unsigned char *end);

/*
 * Takes off all keys from the mark-th on, those of one object. Sets *ret_twice to the place of the first one that the
 * object has had before, or NULL: "a" and "\u0061" are the same key. Many keys, and such with escapes, go into an
 * object of json-c, whose hash has a seed of the process. false when memory is short.
 */
bool json_keys_pop(struct json_keys *keys, size_t mark, const unsigned char **ret_twice);

void json_keys_clear(struct json_keys *keys);

#endif
