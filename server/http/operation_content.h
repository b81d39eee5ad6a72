/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_CONTENT_H
#define HTTP_OPERATION_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct operation_view;

/*
 * Shared by the methods of /v1/operations/{id}/content. Authorised by the operation's notification_key or by the full
 * token (Authorization: Bearer). Each function that returns false has answered the request.
 */

/* Finds the passive operation of {id}, keeps it in request->operation and views it. */
bool content_find(struct http_request *request, struct operation_view *ret_view);

/* Checks the client's key or token. */
bool content_check(struct http_request *request);

/* Opens bytes [first, first + size) of the operation; they become the request's state. */
bool content_open(struct http_request *request, uint64_t first, uint64_t size);

/* Ends the client's transfer, complete or not. */
bool content_end(struct http_request *request, bool *ret_complete);

/*
 * Adds the Content-Digest of the open bytes (RFC 9530; key "xxh3": XXH3-64, most significant byte first).
 */
bool content_add_digest(struct http_request *request);
/*
 * Adds the Repr-Digest (RFC 9530): the SHA-256 of all bytes of the operation.
 */
bool content_add_repr_digest(struct http_request *request);
/* Checks the stored bytes against the digests that the client sent, if any. */
bool content_check_digest(struct http_request *request);

/* Closes what content_open opened. done: all of its bytes were stored or sent. */
void content_close(struct http_request *request, bool done);

/* Stores the next bytes of an upload. Answers and closes where that fails. */
void content_take(struct http_request *request, const char *data, size_t size);

#endif
