/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEADERS_H
#define HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The request headers that Ferry uses. Values are borrowed from the connection until the answer is queued. */
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
        const char *ferry_error;
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
