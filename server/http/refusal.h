/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REFUSAL_H
#define HTTP_REFUSAL_H

#include <ferry/json.h>

#include "operations/operations.h"

struct ferry_json_writer;
struct http_request;

/* Why nothing was made of a body. */
struct refusal {
        int error; /* FERRY_E_*, or -errno; 0 = nothing is wrong */
        char detail[OPERATION_DETAIL_SIZE];
        struct ferry_json_errors errors; /* the places in the body; they come before detail */
};

/* Each returns false, for the caller to return. detail NULL = the error's title. */
bool refuse(struct refusal *refusal, int error, const char *detail);
bool refuse_at(struct refusal *refusal, int error, const char *pointer, const char *detail);

/* The answer to the request. */
void refusal_answer(const struct refusal *refusal, struct http_request *request);

/* The same as a document, for one of several results. -errno is logged and shown as internal. */
void refusal_write(const struct refusal *refusal, const struct http_request *request, struct ferry_json_writer *writer);

#endif
