/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_RESOURCES_H
#define HTTP_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/metadata.h>
#include <ferry/status.h>

#include "operations/operations.h"

struct http_config;
struct http_latch;
struct http_request;
struct operation_set;

/* ---- problems ---- */

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

/* ---- pages of lists ---- */

/* A page ends with the element that exceeds so many bytes: one operation may take some megabytes. */
enum { PAGE_ANSWER_MAX = 16 << 20 };

/* The number of elements that the client asks for (limit), at most page_max, and the cursor (after). */
size_t page_limit(const struct http_request *request);
uint64_t page_cursor(const struct http_request *request);

/*
 * Begin and end {"<name>":[…],"next":"…"}; the caller writes the elements in between. cursor 0 = the last page: no next
 * and no Link header.
 */
void page_begin(struct ferry_json_writer *writer, const char *name);
void page_end(struct ferry_json_writer *writer, struct http_request *request, uint64_t cursor);

/* ---- resources ---- */

/* Adds a time, unless it is 0, and a text, unless it is NULL or "". */
void document_add_time(struct ferry_json_writer *writer, const char *key, uint64_t unix_ms);
void document_add_text(struct ferry_json_writer *writer, const char *key, const char *text);

/* The field "transports" of an operation: the transports that may carry its bytes. Pure. */

/* Decodes the names into bits of enum engine_carrier. false: errors has why. */
bool carriers_decode(struct json_object *list, unsigned *ret_carriers, struct ferry_json_errors *errors);

/* Adds "transports":[…]; nothing when all are allowed (0). */
void carriers_write(struct ferry_json_writer *writer, unsigned carriers);

/* Writes the document of GET /v1/devices. */
void device_json_write(struct ferry_json_writer *writer, const struct device_inventory *inventory,
                       const struct engine_facts *facts);

/*
 * Writes the metadata of an operation, with the addresses at which this client's machine can reach the worker. key: of
 * the member to add; NULL = the document alone. 0; FERRY_E_NOT_PASSIVE; FERRY_E_GONE; -errno. The document is a secret.
 */
int metadata_json_write(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation,
                        const char *key);

/* Adds the member "metadata" to an open object, if the operation still has metadata. */
void metadata_json_add(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation);

/* Writes what the holder of an operation's metadata may know of it. expires_unix_ms: 0 = left out. */
void operation_json_offer(struct ferry_json_writer *writer, enum ferry_status status, uint64_t expires_unix_ms);

/* Writes an operation as JSON. */
void operation_json_write(struct ferry_json_writer *writer, const struct operation_view *view);

/* Writes its members only, into an open object. */
void operation_json_members(struct ferry_json_writer *writer, const struct operation_view *view);

/* Writes a peer as JSON. */
void peer_json_write(struct ferry_json_writer *writer, const struct engine_peer_view *peer);

/* Its addresses, each of which may be "". */
void peer_json_addresses(struct ferry_json_writer *writer, const char *url, const char *data);

/* Writes a region as JSON. */
void region_json_write(struct ferry_json_writer *writer, const struct region *region);

/* ---- bodies ---- */

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

/* ---- several operations ---- */

/*
 * The results of a request about several operations, in the request's order: each an operation or a problem. The
 * request's state; used by its thread only, but the latch may be set on any.
 */

/* Makes a set of n results, which becomes the request's state. 0 or -ENOMEM. */
int operation_set_begin(struct http_request *request, size_t n);

/* Sets result i to an operation; takes over the caller's reference. */
void operation_set_put(struct operation_set *set, size_t i, struct operation *operation);

/* Sets result i to a problem, whose document is taken out of the writer. */
void operation_set_refuse(struct operation_set *set, size_t i, struct ferry_json_writer *problem);

/* Sets result i to the operation of an id, or to the problem gone or not-found. */
void operation_set_find(struct operation_set *set, size_t i, const char *id);

/*
 * Returns a latch that is set when all results, or any, are done. Problems and deleted operations count as done. Call
 * once at most. The latch is valid until the request ends.
 */
struct http_latch *operation_set_wait(struct operation_set *set, bool any);

/*
 * Writes the array of present results. metadata: include the metadata of passive operations that have not ended. Once
 * the text has max bytes, further operations become problems.
 */
void operation_set_write(struct operation_set *set, struct http_request *request, bool metadata, size_t max,
                         struct ferry_json_writer *writer);

#endif
