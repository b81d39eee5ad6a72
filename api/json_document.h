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
        char *text;               /* owned: a copy of the whole; NULL = an element, whose text is the array's */
};

/* A document of a copy of the text, which must be a value alone. 0; FERRY_E_INVALID_JSON with *ret_fault; -ENOMEM. */
int json_document_new(const char *text, size_t length, struct ferry_json **ret_json, struct json_fault *ret_fault);

/* One to read elements into. NULL when memory is short. */
struct ferry_json *json_document_new_element(void);

/* Reads the value at the start of a text, in place of what was read before. The same results. */
int json_document_read(struct ferry_json *json, const char *text, size_t length, bool alone,
                       struct json_fault *ret_fault);

#endif
