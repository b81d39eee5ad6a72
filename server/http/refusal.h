/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REFUSAL_H
#define HTTP_REFUSAL_H

#include <ferry/json.h>

#include "operations/operations.h"

struct ferry_json_writer;
struct http_request;

/* Why a body was refused. */
struct refusal {
        int error; /* FERRY_E_*, or -errno; 0 = nothing is wrong */
        char detail[OPERATION_DETAIL_SIZE];
        struct ferry_json_errors errors; /* faults at places of the body; they take precedence over detail */
};

/* Fill in the refusal. Return false, for the caller to return. detail NULL = the error's title. */
bool refuse(struct refusal *refusal, int error, const char *detail);
bool refuse_at(struct refusal *refusal, int error, const char *pointer, const char *detail);

/* The body was the value at a pointer of the request's: the places of the faults become places there. */
void refusal_place(struct refusal *refusal, const char *pointer);

/* Answers the request with it. */
void refusal_answer(const struct refusal *refusal, struct http_request *request);

/* Writes it as a problem document, one of several results. A -errno is logged and shown as internal. */
void refusal_write(const struct refusal *refusal, const struct http_request *request, struct ferry_json_writer *writer);

#endif
