/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

#include <json-c/json.h>

#include "harness.h"

/* What several of the tests of operations do beyond harness.h. Every function asserts; none returns an error. */

enum { STEPS_KIB = 1 << 10, STEPS_MIB = 1 << 20 };

/* ---- JSON over libferry ---- */

/* A document, which goes with the test. */
struct json_object *json_parse(const char *text);

/*
 * One request, body NULL = none, headers NULL = none ("Name: value", ended by NULL). Asserts the HTTP status and that
 * the answer has no null in it. Returns the answer's document, which goes with the test; NULL when there is none.
 */
struct json_object *call_json(struct worker *w, int status, const char *method, const char *path, const char *body);
struct json_object *call_json_with(struct worker *w, int status, const char *method, const char *path, const char *body,
                                   const char *const *headers);

/* A member, which must be there and of the type. */
struct json_object *json_member(struct json_object *object, const char *name);
const char *json_text(struct json_object *object, const char *name);
uint64_t json_number(struct json_object *object, const char *name);
bool json_truth(struct json_object *object, const char *name);

/* The names of an object's members in the order of the document, joined by blanks. */
const char *json_names(struct json_object *object);

/* {"kind":…,"descriptors":[{"region":…}]<more>}. more: "" or ",\"name\":value…". */
const char *operation_body(const char *kind, const char *region, const char *more);

/* The example of FIPS 180-2: Repr-Digest of "abc". */
#define ABC_DIGEST "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:"
/* Offers three bytes, the second, fifth and sixth of a region; the operation's id. */
const char *offer_abc(struct worker *w, const char *kind, const char *region);

/* {"kind":"read","descriptors":[{"region":…}],"remote_url":…} */
const char *read_body(const char *region, const char *url);
/* Starts a read into a whole region of what url offers; the operation. */
struct json_object *read_by_url(struct worker *w, const char *region, const char *url);
/* Makes a batch of the operations whose bodies are in a JSON array; their results. query: "" or "?name=value…". */
struct json_object *operations_make(struct worker *w, const char *query, const char *bodies,
                                    const char *const *headers);
/* GET /v1/operations/{id}. */
struct json_object *operation_json(struct worker *w, const char *id);

/* The notification_key of metadata. */
const char *metadata_key(const char *metadata);
/* "Authorization: Bearer KEY" with the notification_key of a passive operation that is not terminal. */
const char *operation_bearer(struct worker *w, const char *id);

/* The URL of a passive operation's metadata. */
const char *metadata_url(const struct worker *w, const char *id);

/* A copy of metadata with one member replaced (value NULL: removed). value is given up. */
const char *metadata_with(const char *metadata, const char *name, struct json_object *value);

/* POST of a JSON body, as it goes on the wire; headers: "" or lines that end in \r\n. */
const char *json_request(const char *path, const char *headers, const char *body);

/* A request without a body on a connection of its own, whose answer is read later by raw_receive. */
int raw_ask(const struct worker *w, const char *method, const char *target);

/* A sample of GET /metrics (name and labels as they stand in the text); 0 = it is not there. */
uint64_t worker_metric(struct worker *w, const char *sample);
/* Rounds of it until the sample has the value. */
void worker_await_metric(struct worker *w, const char *sample, uint64_t value);

/* The source of an upload: as many blanks as the uint64_t context says, which counts down. */
ssize_t pour_blanks(void *context, void *buffer, size_t size);

/* ---- a server that is no worker ---- */

/* A listening socket on a free port of loopback; url gets "http://127.0.0.1:PORT" and path. */
int listen_somewhere(char *url, size_t size, const char *path);

/* The next connection, with the head of its request. */
int accept_request(int listener, const char **ret_request);

/* Accepts one connection, reads the request and sends text. Returns the request. */
const char *serve_once(int listener, const char *text);

/* ---- one transfer ---- */

/* ERRORED operations are warnings in the log: says that both workers may have them. */
void pair_expect_failures(struct pair *p);

/* SIGSTOP, and waits until every thread of it stands still; SIGCONT. */
void worker_pause(struct worker *w);
void worker_resume(struct worker *w);

/* A transfer between the two workers of a pair. */
struct running {
        enum ferry_kind kind; /* of the passive operation */
        uint64_t size;
        const char *offered, *local; /* regions on a and b */
        char passive[FERRY_ID_SIZE], active[FERRY_ID_SIZE];
};

/*
 * Starts a transfer of size bytes, whose source holds the pattern of seed and whose target is zero, and stops (SIGSTOP)
 * one worker of the pair when some of the bytes have moved, but not all. Tries again when the transfer was faster.
 *
 * Both regions are in so many pieces that one worker of a host cannot lend all at once: whichever stands still, the
 * transfer does. Over the network the peer may have sent all before it is stopped, and the other worker gets all of it.
 * With SMALL_WINDOW among the flags of the pair it does not.
 */
#define SMALL_WINDOW "--chunk-size", "1MiB"

void running_start(struct pair *p, enum ferry_kind passive_kind, uint64_t size, uint64_t seed, struct worker *paused,
                   struct running *ret_running);
/* The same, with at least bytes from the begin (1 to three quarters; more is caught less often). */
void running_start_at(struct pair *p, enum ferry_kind passive_kind, uint64_t size, uint64_t seed, struct worker *paused,
                      uint64_t least, struct running *ret_running);

/* The worker and region that the bytes go to. */
struct worker *running_target(struct pair *p, const struct running *running);
const char *running_target_region(const struct running *running);

/* A worker that goes on after its peer cancelled and left has heard of the one or of the other. */
void operation_assert_left(struct worker *w, const char *id);

/* Deletes the operations and the regions, which must not be in use any more. */
void running_drop(struct pair *p, struct running *running);

#endif
