/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_API_INTERNAL_H
#define HTTP_API_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/metadata.h>

#include "operations/operations.h"
#include "serve/request.h"

struct operation_set;
struct region;

/* What the endpoints share. All functions: the thread of the request's connection, unless they say otherwise. */

/* ---- handlers ---- */

/*
 * The handlers, each in the file of its noun. Called on the connection's thread when the request has arrived whole;
 * those of HTTP_BODY_STREAM also before the body (see request->phase). Each answers the request or parks it.
 */
typedef void http_handler(struct http_request *request);
http_handler get_root, get_worker, get_devices, get_limits, get_throughput, list_events, list_peers, list_regions,
        create_region, get_region, delete_region, get_region_content, put_region_content, list_operations,
        create_operation, create_operations, get_operation, delete_operation, cancel_operation, renew_operation,
        decline_operation, decline_remote, renew_remote, get_operation_metadata, get_operation_content,
        put_operation_content, delete_operation_content, create_peer, get_livez, get_readyz, get_metrics, get_asset;

/* Store the next bytes of an upload that the handler has accepted; beside their put_*. */
void take_operation_content(struct http_request *request, const char *data, size_t size);
void take_region_content(struct http_request *request, const char *data, size_t size);

/* ---- files ---- */

/* A file that is built into the worker (scripts/embed), plain and gzipped. */
struct http_asset {
        const char *type; /* media type */
        const char *etag, *gzip_etag;
        const unsigned char *data, *gzip;
        size_t size, gzip_size;
};

extern const struct http_asset asset_openapi_yaml, asset_openapi_json, asset_docs, asset_docs_script, asset_page,
        asset_page_script, asset_page_style;

/* ---- the resource that a path names, and waiting for it ---- */

/* Details of the problems about an id that names nothing. */
#define OPERATION_GONE_DETAIL "The operation was deleted or has been kept long enough"
#define OPERATION_UNKNOWN_DETAIL "No operation of this id"

/* Finds the operation of {id} and keeps it in request->operation. NULL: answered with 404 or 410. */
struct operation *request_look_up_operation(struct http_request *request);

/* Checks If-Match and If-None-Match against request->operation. false: answered with 412. */
bool request_check_operation(struct http_request *request);

/* Both in turn. */
struct operation *request_find_operation(struct http_request *request);

/* Finds the region of {id}; the caller gets a reference. NULL: answered with 404 or 412. */
struct region *request_find_region(struct http_request *request);

/* Finds the region of {id} and pins its memory: the caller calls region_stream_end. NULL: answered; 409 = not ready. */
struct region *request_stream_region(struct http_request *request);

/* Milliseconds to wait (0 = not at all), capped: wait_ms, else Prefer, which the answer acknowledges. */
uint64_t request_wait_ms(struct http_request *request);
/* Whether the client asks for a wait at all. */
bool request_waits(const struct http_request *request);

/* Answers with the present state of request->operation; 410 when it was deleted. */
void request_answer_operation(struct http_request *request, unsigned status);

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

/* ---- operations ---- */

/*
 * Writes the metadata of an operation, with the addresses at which this client's machine can reach the worker. key: of
 * the member to add; NULL = the document alone. 0; FERRY_E_NOT_PASSIVE; FERRY_E_GONE; -errno. The document is a secret.
 */
int metadata_json_write(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation,
                        const char *key);

/* Adds the member "metadata" to an open object, if the operation still has metadata. */
void metadata_json_add(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation);

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
 * request's state; used by its thread only, but the flag may be set on any.
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
 * Returns a flag that is set when all results, or any, are done. Problems and deleted operations count as done. Call
 * once at most. The flag is valid until the request ends.
 */
struct wait_flag *operation_set_wait(struct operation_set *set, bool any);

/*
 * Writes the array of present results. metadata: include the metadata of passive operations that have not ended. Once
 * the text has max bytes, further operations become problems.
 */
void operation_set_write(struct operation_set *set, struct http_request *request, bool metadata, size_t max,
                         struct ferry_json_writer *writer);

/* ---- the bytes of an operation ---- */

/*
 * Shared by the methods of /v1/operations/{id}/content. Authorised by the operation's notification_key or by the full
 * token (Authorization: Bearer). Each function that returns false has answered the request.
 */

/*
 * Finds the passive operation of {id}, keeps it in request->operation and views it, for a client that has its key or
 * the full token. Others learn only that such an operation exists.
 */
bool content_find(struct http_request *request, struct operation_view *ret_view);

/* Whether the client has shown a key, and not the full token. */
bool content_shows_key(struct http_request *request);

/* Parses Ferry-Transfer, by which the client names its transfer; 0 = no such header. */
bool content_transfer(struct http_request *request, uint64_t *ret_transfer);

/* Opens bytes [first, first + size) of the operation; they become the request's copying (serve/request.h). */
bool content_open(struct http_request *request, uint64_t first, uint64_t size);

/* Ends the client's transfer, complete or not. */
bool content_end(struct http_request *request, bool *ret_complete);

/* Answers with an error of the data plane, mapped to one that has an HTTP status. */
void content_refuse(struct http_request *request, int error);

/*
 * Begins a response of size bytes (0 = only its head), and the digests for it: range: of the open bytes; whole: of all
 * bytes of the operation. content_copy_await waits for it.
 */
void content_begin(struct http_request *request, bool range, bool whole, uint64_t size);
/* Adds the headers of those digests (RFC 9530): Content-Digest and Repr-Digest (SHA-256). */
bool content_add_digests(struct http_request *request);

/*
 * Stores the last bytes of an upload, and checks the stored bytes against the digests that the client sent, if any.
 * false: parked, and resume is called, or answered.
 */
bool content_finish(struct http_request *request, void (*resume)(struct http_request *request));

/* ---- ranges ---- */

enum { RANGE_DIGEST_MAX = 64 << 20 /* bytes to read at most for the digest of an answer */ };

enum range_result {
        RANGE_WHOLE, /* no range, several ranges, another unit, or malformed: the whole content is the answer */
        RANGE_PARTIAL,
        RANGE_UNSATISFIABLE,
};

/*
 * Parses a Range header (RFC 9110, section 14; or NULL) for content of size bytes. RANGE_PARTIAL sets the first and the
 * last byte. Pure.
 */
enum range_result range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_last);

/*
 * Parses the Content-Range of a request's body: "bytes FIRST-LAST/TOTAL". TOTAL is the client's size; *ret_total
 * is UINT64_MAX if it is "*". false: another form, or numbers beyond 2^63 - 1. Pure.
 */
bool content_range_parse(const char *header, uint64_t *ret_first, uint64_t *ret_last, uint64_t *ret_total);

/*
 * Which bytes of a region or an operation a request is about, and the headers that say so: for GET and PUT of both.
 * Content has no ETag, so If-Range never matches.
 */
struct http_range {
        uint64_t first, size, total;
        bool asked; /* a range was asked for */
};

/* The bytes that a GET asks for. false: answered with 416. */
bool range_asked(struct http_request *request, uint64_t total, struct http_range *ret_range);

/* Answers with them. response NULL: no memory. */
void range_answer(struct http_request *request, const struct http_range *range, struct MHD_Response *response);

/* Adds their Content-Digest (RFC 9530; key "xxh3": XXH3-64, most significant byte first). */
void range_add_digest(struct http_request *request, uint64_t checksum);

/*
 * Where the body of a PUT goes: from the query parameter offset on (*ret_end = UINT64_MAX: to the end of the body), or
 * into the range of Content-Range, as curl sends it when it resumes, which must name total as the size of the whole, or
 * none (total UINT64_MAX: any). false: answered.
 */
bool range_place(struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_end);

/* Refuses Content-Range; fault ends the sentence. */
void range_refuse(struct http_request *request, const char *fault);

#endif
