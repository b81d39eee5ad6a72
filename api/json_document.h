/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_DOCUMENT_H
#define API_JSON_DOCUMENT_H

#include <ferry/json.h>

#include "json_check.h"

struct json_tokener;

/* A whole text, or some elements of a list in another one. */
struct ferry_json {
        struct json_outline outline;
        struct json_tokener *tokener;
        struct json_object *root; /* each list of the outline is an empty array in it, with the list as userdata */
        char *joined;             /* owned: what json-c was given last */
        size_t joined_room;
};

/* One to read texts into. NULL when memory is short. */
struct ferry_json *json_document_new(void);

/* Reads a text, which must outlive it. 0; FERRY_E_INVALID_JSON with *ret_fault; -ENOMEM. */
int json_document_read(struct ferry_json *json, const char *text, size_t length, struct json_fault *ret_fault);

/* Reads elements as json_check_elements does, in place of those before; root is an array of them. 0 or -ENOMEM. */
int json_document_read_elements(struct ferry_json *json, const char *text, size_t length);

#endif
