/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_DOCUMENT_H
#define API_JSON_DOCUMENT_H

#include <ferry/json.h>

#include "json_check.h"

struct json_tokener;

/* A whole text, or one element of another's list. */
struct ferry_json {
        struct json_outline outline;
        struct json_tokener *tokener;
        struct json_object *root; /* each list of the outline is an empty array in it, with the list as userdata */
        char *text;               /* owned: a copy of the whole; NULL = it is someone else's */
};

/* One to read texts into. NULL when memory is short. */
struct ferry_json *json_document_new(void);

/*
 * Reads the value at the start of a text, which must outlive it, in place of what was read before; alone: nothing but
 * white space may follow. 0; FERRY_E_INVALID_JSON with *ret_fault; -ENOMEM.
 */
int json_document_read(struct ferry_json *json, const char *text, size_t length, bool alone,
                       struct json_fault *ret_fault);

#endif
