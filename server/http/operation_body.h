/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_BODY_H
#define HTTP_OPERATION_BODY_H

#include <ferry/metadata.h>

#include "operations/operations.h"

struct json_object;
struct ferry_json_errors;
struct http_config;

/* The decoded body of POST /v1/operations. */
struct operation_body {
        struct operation_spec spec;      /* its slices are the ones below */
        struct operation_slice *slices;  /* owned, with a reference on each region and its blocks */
        struct ferry_metadata *metadata; /* owned; NULL = passive, or remote_url */
        const char *remote_url;          /* borrowed from the document; NULL = passive, or remote_metadata */
};

/*
 * Decodes the document and finds its regions. 0; FERRY_E_* with details in errors; -ENOMEM. Call operation_body_clear
 * in any case. document must outlive the body.
 */
int operation_body_decode(const struct http_config *config, struct json_object *document, struct operation_body *body,
                          struct ferry_json_errors *errors);

void operation_body_clear(struct operation_body *body);

#endif
