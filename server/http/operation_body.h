/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_BODY_H
#define HTTP_OPERATION_BODY_H

#include <ferry/metadata.h>

#include "operations/operations.h"

struct ferry_json;
struct ferry_json_errors;
struct http_config;

/* The decoded body of POST /v1/operations. */
struct operation_body {
        struct operation_spec spec;      /* its slices are the ones below */
        struct operation_slice *slices;  /* owned, with a reference on each region and its blocks */
        struct ferry_metadata *metadata; /* owned; NULL = passive, or remote_url */
        struct ferry_json *json;         /* owned; NULL = it was not needed */
        const char *remote_url;          /* of json; NULL = passive, or remote_metadata */
};

/*
 * Reads a body and finds its regions. 0; FERRY_E_* with details in errors, which must be zeroed; -ENOMEM. Call
 * operation_body_clear in any case. text must outlive the body.
 */
int operation_body_read(const struct http_config *config, const char *text, size_t size, struct operation_body *body,
                        struct ferry_json_errors *errors);

void operation_body_clear(struct operation_body *body);

#endif
