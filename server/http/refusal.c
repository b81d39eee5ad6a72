/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include <stdio.h>
#include <string.h>

#include <ferry/error.h>

#include "problem.h"
#include "request.h"

bool refuse(struct refusal *refusal, int error, const char *detail)
{
        refusal->error = error;
        snprintf(refusal->detail, sizeof(refusal->detail), "%s", detail ? detail : "");
        return false;
}

bool refuse_at(struct refusal *refusal, int error, const char *pointer, const char *detail)
{
        if (error > 0)
                ferry_json_complain(&refusal->errors, error, pointer, "%s",
                                    detail && *detail ? detail : ferry_error_title(error));
        return refuse(refusal, error, NULL);
}

void refusal_place(struct refusal *refusal, const char *pointer)
{
        struct ferry_json_errors *errors = &refusal->errors;
        char within[FERRY_JSON_POINTER_SIZE];

        for (size_t i = 0; i < errors->n; i++) {
                memcpy(within, errors->items[i].pointer, sizeof(within));
                (void)snprintf(errors->items[i].pointer, sizeof(within), "%s%s", pointer, within);
        }
}

void refusal_answer(const struct refusal *refusal, struct http_request *request)
{
        if (refusal->errors.n)
                request_problem_body(request, &refusal->errors);
        else if (*refusal->detail)
                request_problem(request, refusal->error, "%s", refusal->detail);
        else
                request_problem(request, refusal->error, NULL);
}

void refusal_write(const struct refusal *refusal, const struct http_request *request, struct ferry_json_writer *writer)
{
        const struct ferry_json_errors *errors = &refusal->errors;
        int error = refusal->error;

        if (error < 0)
                error = request_log_failure(request, error);
        problem_write(writer, error, ferry_error_retryable(error), refusal->detail, errors);
}
