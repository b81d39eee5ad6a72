/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEADERS_H
#define HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The request headers that Ferry looks at. Values are borrowed from the connection until the answer is queued. */
struct http_headers {
        const char *accept;
        const char *accept_encoding;
        const char *authorization;
        const char *content_encoding;
        const char *content_digest;
        const char *content_length;
        const char *content_range;
        const char *content_type;
        const char *expect;
        const char *ferry_transfer;
        const char *host;
        const char *idempotency_key;
        const char *if_match;
        const char *if_none_match;
        const char *if_range;
        const char *last_event_id;
        const char *origin;
        const char *range;
        const char *repr_digest;
        const char *request_id;
        const char *requested_method; /* Access-Control-Request-Method */
        const char *traceparent;
        const char *transfer_encoding;
        const char *want_content_digest;
        const char *want_repr_digest;

        bool prefer_wait;  /* a Prefer header has a valid wait=N */
        bool prefer_async; /* one has respond-async */
        uint64_t prefer_wait_s;

        const char *fault; /* name of a header that came twice or has a NUL inside; NULL = none */
};

/* Notes one header, in any order. A header that may come only once and comes again is a fault. Pure. */
void headers_add(struct http_headers *headers, const char *name, const char *value, size_t size);

/* The wait preference of a Prefer header (RFC 7240), in seconds. false when there is none or it is no number. */
bool headers_prefer_wait(const char *value, uint64_t *ret_seconds);

/* Whether a Prefer header has respond-async (RFC 7240). */
bool headers_prefer_async(const char *value);

/*
 * Whether an If-Match or If-None-Match header ("*", or a list of entity tags) names etag (with its quotes; "" = the
 * resource has none). weak: whether "W/" in front of a tag is ignored, as If-None-Match has it, or never matches.
 */
bool headers_etag_matches(const char *value, const char *etag, bool weak);

/* Whether a Content-Type is of the media type, whatever its parameters. NULL is not. */
bool headers_media_type_is(const char *value, const char *type);

/* What stands behind "key=" in a dictionary (RFC 8941), as Want-Repr-Digest is one; NULL = it has no such key. */
const char *headers_dictionary_find(const char *value, const char *key);
/* How much an Accept or Accept-Encoding header wants what it must name: 1 to 1000; 0 = not, or there is none. */
unsigned headers_accept(const char *value, const char *type);

/* Whether a dictionary of preferences, as Want-Content-Digest is one, has the key with one above 0. NULL has none. */
bool headers_prefer(const char *value, const char *key);

/* Digits only and below 2^63. */
bool headers_parse_length(const char *value, uint64_t *ret_length);

/* 1 to 64 of A-Z a-z 0-9 . _ - */
bool headers_request_id_valid(const char *value);

/* Whether a traceparent (W3C Trace Context) may be logged; any other is ignored, as its standard says. */
enum { HEADERS_TRACEPARENT_SIZE = 64 };
bool headers_traceparent_valid(const char *value);

/* 1 to 255 visible ASCII characters. */
bool headers_idempotency_key_valid(const char *value);

#endif
