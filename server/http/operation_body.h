/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_BODY_H
#define HTTP_OPERATION_BODY_H

#include <ferry/metadata.h>

#include "operations/operations.h"

struct ferry_json_errors;
struct http_config;
struct json_object;

/* The decoded body of POST /v1/operations. */
struct operation_body {
        struct operation_spec spec;      /* its slices are the ones below */
        struct ranges *remote;           /* owned; NULL = all of the offer */
        struct operation_slice *slices;  /* owned, with a reference on each region and its blocks */
        struct ferry_metadata *metadata; /* owned; NULL = passive, or remote_url */
        const char *remote_url;          /* of the JSON; NULL = passive, or remote_metadata */
};

/*
 * Decodes a body and finds its regions. 0; FERRY_E_* with details in errors, which must be zeroed; -ENOMEM. Call
 * operation_body_clear in any case. json must outlive the body.
 */
int operation_body_read(const struct http_config *config, struct json_object *json, struct operation_body *body,
                        struct ferry_json_errors *errors);

void operation_body_clear(struct operation_body *body);

#endif
