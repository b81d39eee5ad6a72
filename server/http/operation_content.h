/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_CONTENT_H
#define HTTP_OPERATION_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct operation_view;

/*
 * What the methods of /v1/operations/{id}/content share. Authorised by the operation's own key (Authorization: Bearer
 * and its notification_key) or the full token.
 */

/* A passive operation that is not over, in request->operation, and what it looks like. false: answered. */
bool content_find(struct http_request *request, struct operation_view *ret_view);

/* Whether the client may use it at all, without opening anything. false: answered. */
bool content_check(struct http_request *request);

/* Opens [first, first + size) of it as the request's state. false: answered. */
bool content_open(struct http_request *request, uint64_t first, uint64_t size);

/* Ends the client's transfer, complete or not. false: answered. */
bool content_end(struct http_request *request, bool *ret_complete);

/*
 * The digest of the content that is open, as Content-Digest has it (RFC 9530; "xxh3" is the key of XXH3-64, most
 * significant byte first). false: answered.
 */
bool content_add_digest(struct http_request *request);
/*
 * The SHA-256 of all of the operation's bytes as Repr-Digest has it (RFC 9530), which any client can check. false:
 * answered.
 */
bool content_add_repr_digest(struct http_request *request);
/* Holds what was stored against the digests that the client has sent, if it has. false: answered. */
bool content_check_digest(struct http_request *request);

/* Closes what content_open opened: all of it was stored or sent, or not. */
void content_close(struct http_request *request, bool done);

/* The next octets of an upload. Answers, and closes, where they cannot be stored. */
void content_take(struct http_request *request, const char *data, size_t size);

#endif
