/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_CHECK_H
#define API_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "json_keys.h"

enum { JSON_LIST_SHORT = 1024 }; /* bytes; the elements of a list that is longer are made one by one */

/* What is wrong with a text, and where. */
struct json_fault {
        const char *what;
        size_t line, column; /* from 1; columns count characters */
};

/* A list, or the value that is kept, as it stands in the text, brackets included. */
struct json_list {
        const char *text;
        size_t size, n; /* bytes, elements of a list */
};

/* What a checker has seen. One may serve many checks, one after the other, and keeps its memory. */
struct json_outline {
        const char *kept;        /* set before: the root's member of this name counts as a long list; NULL = none */
        const char *end;         /* of the value */
        struct json_list *lists; /* those that are in no other one and are long or empty, in the order of the text */
        size_t n_lists, room;
        size_t n_values; /* outside of those lists, without nulls */
        struct json_keys keys;
};

/*
 * Checks the value at the start of a text against RFC 8259: grammar, UTF-8, nesting at most FERRY_JSON_DEPTH, values at
 * most FERRY_JSON_VALUES; alone: nothing but white space after it. Also refuses what the RFC only warns of: an
 * object with the same key twice, lone surrogates, and NUL characters (\u0000), which C strings cannot hold. Time n log
 * n at worst, memory bounded by the text. 0 with the outline, which points into text; FERRY_E_INVALID_JSON with
 * *ret_fault; -ENOMEM.
 */
int json_check(const char *text, size_t length, bool alone, struct json_outline *outline, struct json_fault *ret_fault);

void json_outline_clear(struct json_outline *outline);

#endif
