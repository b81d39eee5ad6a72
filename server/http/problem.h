/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include <stdbool.h>

struct ferry_json_errors;
struct ferry_json_writer;

#define PROBLEM_DRAINING "The worker was told to stop and takes no new work"

/* HTTP status of a problem: that of the table, and 500 for errors that belong inside operations. */
unsigned problem_status(int error);

/* Seconds for Retry-After; 0 = the header does not apply. */
unsigned problem_retry_after(int error);

/* The members of such a document, for an object that has more. */
void problem_members(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                     const struct ferry_json_errors *errors);

/*
 * The document of RFC 9457: type (urn:ferry:error:<code>), title, status, detail, code, retryable, and errors when
 * there are some: the first of them is the detail. detail NULL or "" = left out.
 */
void problem_write(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                   const struct ferry_json_errors *errors);

#endif
