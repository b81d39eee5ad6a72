/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEADERS_H
#define HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The request headers that Ferry uses: field, name, and whether it may be repeated, in which case only the first
 * counts.
 */
#define HTTP_HEADERS(X)                                                                                                \
        X(accept, "Accept", true)                                                                                      \
        X(accept_encoding, "Accept-Encoding", true)                                                                    \
        X(authorization, "Authorization", false)                                                                       \
        X(content_digest, "Content-Digest", false)                                                                     \
        X(content_encoding, "Content-Encoding", false)                                                                 \
        X(content_length, "Content-Length", false)                                                                     \
        X(content_range, "Content-Range", false)                                                                       \
        X(content_type, "Content-Type", false)                                                                         \
        X(expect, "Expect", false)                                                                                     \
        X(ferry_error, "Ferry-Error", false)                                                                           \
        X(ferry_transfer, "Ferry-Transfer", false)                                                                     \
        X(host, "Host", false)                                                                                         \
        X(idempotency_key, "Idempotency-Key", false)                                                                   \
        X(if_match, "If-Match", true)                                                                                  \
        X(if_none_match, "If-None-Match", true)                                                                        \
        X(if_range, "If-Range", false)                                                                                 \
        X(last_event_id, "Last-Event-ID", false)                                                                       \
        X(origin, "Origin", false)                                                                                     \
        X(range, "Range", false)                                                                                       \
        X(repr_digest, "Repr-Digest", false)                                                                           \
        X(request_id, "Request-Id", true)                                                                              \
        X(requested_method, "Access-Control-Request-Method", false)                                                    \
        X(traceparent, "traceparent", true)                                                                            \
        X(transfer_encoding, "Transfer-Encoding", false)                                                               \
        X(want_content_digest, "Want-Content-Digest", false)                                                           \
        X(want_repr_digest, "Want-Repr-Digest", false)

/* Values are borrowed from the connection until the answer is queued. */
struct http_headers {
#define X(field, name, list) const char *field;
        HTTP_HEADERS(X)
#undef X
        bool prefer_wait;  /* a Prefer header has a valid wait=N */
        bool prefer_async; /* one has respond-async */
        uint64_t prefer_wait_s;

        const char *fault; /* a sentence that says what no header may be; NULL = none is */
};

/*
 * Takes one header, in any order. Sets fault where its name is no token ("Content-Length :" is another header to some
 * proxies), where its value has a CR or, of those used here, a NUL, and where it came twice and may come only once.
 * Pure.
 */
void headers_add(struct http_headers *headers, const char *name, const char *value, size_t size);

/* Length of the token (RFC 9110, 5.6.2) that text begins with. text need not end with a NUL, but no token may. */
size_t headers_token_length(const char *text);

/* The text after its leading blanks (BWS and OWS). */
const char *headers_skip_blanks(const char *text);

/* The wait=N of a Prefer header (RFC 7240), in seconds. false: none, or not a number. */
bool headers_prefer_wait(const char *value, uint64_t *ret_seconds);

/* Whether a Prefer header has respond-async (RFC 7240). */
bool headers_prefer_async(const char *value);

/*
 * Whether an If-Match or If-None-Match header ("*", or a list of entity tags) names etag (with its quotes; "" = the
 * resource has none). weak: compare weakly, as If-None-Match does: "W/" is ignored; else a tag with "W/" never matches.
 */
bool headers_etag_matches(const char *value, const char *etag, bool weak);

/* Whether a Content-Type header (or NULL) is of the media type; its parameters are ignored. */
bool headers_media_type_is(const char *value, const char *type);

/* The value of a key in a dictionary header (RFC 8941), for example Want-Repr-Digest; NULL = no such key. */
const char *headers_dictionary_find(const char *value, const char *key);

/* The quality (q, in thousandths: 1 to 1000) that an Accept or Accept-Encoding header gives to type, which it must
 * name; 0 = not acceptable, or no header. */
unsigned headers_accept(const char *value, const char *type);

/* Whether a dictionary header of preferences (or NULL), for example Want-Content-Digest, has the key above 0. */
bool headers_prefer(const char *value, const char *key);

/* Parses digits below 2^63. */
bool headers_parse_length(const char *value, uint64_t *ret_length);

/* 1 to 64 of A-Z a-z 0-9 . _ - */
bool headers_request_id_valid(const char *value);

/* Whether a traceparent (W3C Trace Context) may be logged; any other is ignored, as its standard says. */
enum { HEADERS_TRACEPARENT_SIZE = 64 };
bool headers_traceparent_valid(const char *value);

/* 1 to 255 visible ASCII characters. */
bool headers_idempotency_key_valid(const char *value);

#endif
