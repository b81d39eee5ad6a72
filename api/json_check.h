/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_CHECK_H
#define API_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "json_keys.h"

enum {
        JSON_LIST_SHORT = 1024, /* bytes; the elements of a list that is longer are not in the tree of the whole */
        JSON_BATCH = 4096,      /* bytes of such elements that are made at once */
};

/* The first error of a text, and its place. */
struct json_fault {
        const char *what;
        size_t line, column; /* from 1; columns count characters */
};

/* A list, or the kept value, as it stands in the text, with its brackets. */
struct json_list {
        const char *text;
        size_t size, n; /* bytes, elements of a list */
};

/* The result of a check. Can serve several checks in turn, and keeps its memory between them. */
struct json_outline {
        const char *kept;        /* set before: the root's member of this name counts as a long list; NULL = none */
        const char *end;         /* of the value */
        struct json_list *lists; /* outermost lists that are long or empty, in the order of the text */
        size_t n_lists, room;
        size_t n_values; /* outside of those lists, without nulls */
        struct json_keys keys;
};

/*
 * Checks a text against RFC 8259: one value, grammar, UTF-8, nesting at most FERRY_JSON_DEPTH, values at most
 * FERRY_JSON_VALUES. Also refuses what the RFC only warns of: an object with the same key twice, lone surrogates, and
 * NUL characters (\u0000), which C strings cannot hold. Memory is bounded by the text, time grows with it. 0 with the
 * outline, which points into text; FERRY_E_INVALID_JSON with *ret_fault; -ENOMEM.
 */
int json_check(const char *text, size_t length, struct json_outline *outline, struct json_fault *ret_fault);

/*
 * Looks again at a list that has been checked, from the start of an element on: as many elements as JSON_BATCH bytes
 * have, or the one that has more. outline->end is where the last one ends. 0 with their number and the outline;
 * -ENOMEM.
 */
int json_check_elements(const char *text, size_t length, struct json_outline *outline, size_t *ret_n);

void json_outline_clear(struct json_outline *outline);

#endif
