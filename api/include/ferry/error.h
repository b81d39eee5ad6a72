/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_ERROR_H
#define FERRY_ERROR_H

/*
 * The one table of errors that a caller or a peer can cause. Server, client library, wire protocol and the OpenAPI
 * check all come from it.
 *
 *   X(NAME, number, code, http, retryable, title)
 *
 * number    on the wire between workers and in C; never reused, never changed
 * code      in JSON ("code"), stable
 * http      status of the problem answer; 0 = appears only inside an operation's "error"
 * retryable whether the same request may succeed later without a change
 */
#define FERRY_ERRORS(X)                                                                                                \
        X(INVALID_JSON, 1, "invalid-json", 400, 0, "The body is not valid JSON")                                       \
        X(INVALID_PARAMETER, 2, "invalid-parameter", 400, 0, "A parameter is not valid")                               \
        X(UNKNOWN_FIELD, 3, "unknown-field", 400, 0, "The body has an unknown field")                                  \
        X(OUT_OF_BOUNDS, 4, "out-of-bounds", 400, 0, "A slice lies outside its region")                                \
        X(SIZE_MISMATCH, 5, "size-mismatch", 409, 0, "The sizes of the two sides differ")                              \
        X(KIND_MISMATCH, 6, "kind-mismatch", 409, 0, "The metadata belongs to the other kind of operation")            \
        X(INVALID_METADATA, 7, "invalid-metadata", 400, 0, "The metadata is not valid")                                \
        X(METADATA_EXPIRED, 8, "metadata-expired", 410, 0, "The metadata has expired")                                 \
        X(UNKNOWN_DEVICE, 9, "unknown-device", 400, 0, "No such memory device here")                                   \
        X(NOT_FOUND, 10, "not-found", 404, 0, "No such resource")                                                      \
        X(GONE, 11, "gone", 410, 0, "The resource is gone")                                                            \
        X(NOT_PASSIVE, 12, "not-passive", 409, 0, "Only readable and writable operations have metadata")               \
        X(REGION_IN_USE, 13, "region-in-use", 409, 1, "The region is in use")                                          \
        X(METHOD_NOT_ALLOWED, 14, "method-not-allowed", 405, 0, "The resource does not support this method")           \
        X(UNSUPPORTED_MEDIA_TYPE, 15, "unsupported-media-type", 415, 0, "The body has the wrong content type")         \
        X(TOO_LARGE, 16, "too-large", 413, 0, "The body is too large")                                                 \
        X(RANGE_NOT_SATISFIABLE, 17, "range-not-satisfiable", 416, 0, "The range lies outside the content")            \
        X(UNAUTHENTICATED, 18, "unauthenticated", 401, 0, "A valid token is needed")                                   \
        X(FORBIDDEN, 19, "forbidden", 403, 0, "This is not allowed")                                                   \
        X(HOST_REFUSED, 20, "host-refused", 421, 0, "The Host name is not one of this worker")                         \
        X(ORIGIN_REFUSED, 21, "origin-refused", 403, 0, "Browsers of this origin are not allowed")                     \
        X(LIMIT_REACHED, 22, "limit-reached", 429, 1, "A limit of this worker is reached")                             \
        X(NO_SPACE, 23, "limit-reached", 507, 1, "No room for this on the worker")                                     \
        X(DRAINING, 24, "draining", 503, 1, "The worker is shutting down")                                             \
        X(IDEMPOTENCY_CONFLICT, 25, "idempotency-conflict", 422, 0,                                                    \
          "The Idempotency-Key was used for another request")                                                          \
        X(INTERNAL, 26, "internal", 500, 1, "The worker failed")                                                       \
        X(REGION_NOT_READY, 27, "region-not-ready", 409, 1, "The region is not ready")                                 \
        X(PRECONDITION_FAILED, 28, "precondition-failed", 412, 0, "The resource is not as If-Match demands")           \
        X(REGION_HELD, 29, "region-held", 409, 0, "The program around the worker holds the region")                    \
        X(HEAD_TOO_LARGE, 30, "head-too-large", 431, 0, "The head of the request is too large")                        \
        X(PEER_UNREACHABLE, 40, "peer-unreachable", 502, 1, "The peer cannot be reached")                              \
        X(PEER_LOST, 41, "peer-lost", 0, 1, "The peer died or the connection to it broke")                             \
        X(PEER_REFUSED, 42, "peer-refused", 502, 0, "The peer refused what was asked of it")                           \
        X(STALE_METADATA, 43, "stale-metadata", 0, 0, "The operation of the metadata no longer exists")                \
        X(ALREADY_CLAIMED, 44, "already-claimed", 409, 0, "Another transfer has used this metadata")                   \
        X(CANCELLED, 45, "cancelled", 0, 0, "The operation was cancelled here")                                        \
        X(CANCELLED_BY_PEER, 46, "cancelled-by-peer", 410, 0, "The peer cancelled the operation")                      \
        X(EXPIRED, 47, "expired", 410, 0, "No peer used the operation within its time to live")                        \
        X(TIMEOUT, 48, "timeout", 0, 1, "The operation did not end within its timeout")                                \
        X(STALLED, 49, "stalled", 0, 1, "No byte moved within the stall limit")                                        \
        X(CHECKSUM_MISMATCH, 50, "checksum-mismatch", 409, 1, "The bytes received differ from the bytes sent")         \
        X(TRANSFER_FAILED, 51, "transfer-failed", 500, 1, "The transfer failed")                                       \
        X(PROTOCOL_MISMATCH, 52, "protocol-mismatch", 409, 0, "The two workers speak different protocols")             \
        X(DECLINED, 53, "declined", 410, 0, "Its holder declined the operation")

enum ferry_error {
        FERRY_OK = 0,
#define X(name, number, code, http, retryable, title) FERRY_E_##name = (number),
        FERRY_ERRORS(X)
#undef X
};

#ifdef __cplusplus
extern "C" {
#endif

/* Part of the libraries' interface, which are built with hidden visibility. */
#pragma GCC visibility push(default)

/* Returns the stable code ("peer-lost") of an error; "internal" for a number that is not in the table. Any thread. */
const char *ferry_error_code(int error);

/* Returns one English sentence about an error, without a full stop; never NULL. Any thread. */
const char *ferry_error_title(int error);

/*
 * Returns the HTTP status of the problem answer; 0 for errors that occur only inside an operation; 500 for unknown
 * ones. Any thread.
 */
int ferry_error_http(int error);

/* Returns 1 if the same request may succeed later; 0 also for unknown numbers. Any thread. */
int ferry_error_retryable(int error);

/*
 * Returns the number of an error by its code; -1 for an unknown code. http selects one of two errors with the same code
 * (limit-reached: 429, 507); 0, or a status that no such error has, selects the first. Any thread.
 */
int ferry_error_from_code(const char *code, int http);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
