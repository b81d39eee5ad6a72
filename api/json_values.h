/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_VALUES_H
#define API_JSON_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include <ferry/json.h>

/* The values of a text while it is being checked: they point into the text that the caller gave. */
struct json_values {
        struct json_block *block; /* NULL = none yet */
        size_t n, room;
};

/* Adds a value of one place. Its position, or SIZE_MAX when memory is short. */
size_t json_values_add(struct json_values *values, enum ferry_json_kind kind, const void *text, size_t size);

/* Valid until the next json_values_add. */
struct ferry_json *json_values_at(const struct json_values *values, size_t i);

/*
 * Gives the values a copy of the text of their own, with the escapes in strings resolved. What they were before is
 * used up in any case. NULL when memory is short.
 */
struct ferry_json *json_values_finish(struct json_values *values, const char *text, size_t length);

void json_values_clear(struct json_values *values);

#endif
