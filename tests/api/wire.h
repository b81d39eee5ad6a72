/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include "harness.h"
#include "steps.h"

/* What several of the tests of the HTTP surface do beyond harness.h and steps.h. Every function asserts. */

/* One request as printf makes it, on a connection of its own. */
struct raw_answer wire_ask(const struct worker *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same; asserts the status. For what the answer is not looked at otherwise. */
void wire_expect(const struct worker *w, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same; asserts a whole and well-formed problem document. */
void wire_refused(const struct worker *w, int status, const char *code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/*
 * Asserts that the answer is a whole and well-formed problem document, with Request-Id, and retryable where the table
 * of errors says so; Retry-After may only be there if it is.
 */
void answer_assert_problem(const struct raw_answer *answer, int status, const char *code);
/* The same of an answer that is not retryable although its error is in the table. */
void answer_assert_lasting(const struct raw_answer *answer, int status, const char *code);

/* A header of the answer: its value, or that it is not there (value NULL). */
void answer_assert_header(const struct raw_answer *answer, const char *name, const char *value);

/* All that comes until the worker closes, NUL-terminated. */
const char *wire_read_rest(int fd, size_t *ret_size);

/* All that comes back for bytes on a connection of their own, whose sending side is closed behind them. */
const char *wire_talk(const struct worker *w, const void *bytes, size_t size);

/* How often a text occurs. */
size_t text_count(const char *text, const char *part);

/* SIGHUP; waits until the text stands so often in the worker's log. */
void worker_hang_up(struct worker *w, const char *text, size_t times);

/* Closes with a reset, as a process that dies with unread data does. */
void wire_abort(int fd);

/* A GET of target of which only the head has been read: a reader that does not go on. The worker will close. */
int wire_stalled_reader(const struct worker *w, const char *target);

/* Rounds of POST until the worker has room for a region of that size, which it then makes. Returns its id. */
const char *region_await_room(struct worker *w, uint64_t size);

/* With a new client, rounds of GET /livez until the worker has no more sockets than that. */
void worker_await_sockets(struct worker *w, size_t most);

/* The worker makes a region, fills it, reads it and deletes it. */
void worker_assert_serving(struct worker *w);

/* "/v1/regions/{id}<rest>", in a buffer that the next call but three overwrites. */
const char *region_path(const char *id, const char *rest);

/* ---- a region of ten bytes, for uploads ---- */

/* Made of dots. Returns its id. */
const char *digits_make(struct worker *w);

/* Asserts what its bytes are. */
void digits_assert(struct worker *w, const char *id, const char *wanted);

#endif
