/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include <stdbool.h>

struct ferry_json_errors;
struct ferry_json_writer;

#define PROBLEM_DRAINING "The worker was told to stop and takes no new work"
#define PROBLEM_PREPARING "The region is being prepared"
#define PROBLEM_UNMADE "The region could not be made"

/* The HTTP status of an error; 500 for one that has none in the table, since it occurs inside operations only. */
unsigned problem_status(int error);

/* Retry-After of an error, s; 0 = none. */
unsigned problem_retry_after(int error);

/* Writes the members of a problem document into an open object. */
void problem_members(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                     const struct ferry_json_errors *errors);

/*
 * Writes a problem document (RFC 9457): type (/docs#error-CODE), title, status, detail, code, retryable, and
 * errors if there are any, the first of which is the detail. detail NULL or "" = the title again.
 */
void problem_write(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                   const struct ferry_json_errors *errors);

/* Adds "error" to the open object of a resource that has failed. detail "" = the title. */
void problem_add_error(struct ferry_json_writer *writer, int error, const char *detail);

#endif
