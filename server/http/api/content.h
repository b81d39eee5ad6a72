/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CONTENT_H
#define HTTP_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct operation_view;

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

/* Opens bytes [first, first + size) of the operation; they become the request's copying (copying.h). */
bool content_open(struct http_request *request, uint64_t first, uint64_t size);

/* Ends the client's transfer, complete or not. */
bool content_end(struct http_request *request, bool *ret_complete);

/* Answers with an error of the data plane, mapped to one that has an HTTP status. */
void content_refuse(struct http_request *request, int error);

/*
 * Begins a response of size bytes (0 = only its head), and the digests for it: part: of the open bytes; whole: of all
 * bytes of the operation. copying_await waits for it.
 */
void content_begin(struct http_request *request, bool part, bool whole, uint64_t size);
/* Adds the headers of those digests (RFC 9530): Content-Digest and Repr-Digest (SHA-256). */
bool content_add_digests(struct http_request *request);

/*
 * Stores the last bytes of an upload, and checks the stored bytes against the digests that the client sent, if any.
 * false: parked, and resume is called, or answered.
 */
bool content_finish(struct http_request *request, void (*resume)(struct http_request *request));

#endif
