/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_FIELDS_H
#define HTTP_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server.h"

/* The parts of a request that handlers read: its headers and its query. Pure; any thread. */

/* ---- headers ---- */

/* How a header may be repeated. The lines of a list are one list (RFC 9110, 5.3); of the others the first counts. */
enum header_repeat { HEADER_ONCE, HEADER_FIRST, HEADER_LIST };

/* The request headers that Ferry uses: field, name, and how it may be repeated. */
#define HTTP_HEADERS(X)                                                                                                \
        X(accept, "Accept", HEADER_LIST)                                                                               \
        X(accept_encoding, "Accept-Encoding", HEADER_LIST)                                                             \
        X(authorization, "Authorization", HEADER_ONCE)                                                                 \
        X(content_digest, "Content-Digest", HEADER_ONCE)                                                               \
        X(content_encoding, "Content-Encoding", HEADER_ONCE)                                                           \
        X(content_length, "Content-Length", HEADER_ONCE)                                                               \
        X(content_range, "Content-Range", HEADER_ONCE)                                                                 \
        X(content_type, "Content-Type", HEADER_ONCE)                                                                   \
        X(expect, "Expect", HEADER_ONCE)                                                                               \
        X(ferry_bytes, "Ferry-Bytes", HEADER_ONCE)                                                                     \
        X(ferry_error, "Ferry-Error", HEADER_ONCE)                                                                     \
        X(ferry_transfer, "Ferry-Transfer", HEADER_ONCE)                                                               \
        X(ferry_worker, "Ferry-Worker", HEADER_FIRST)                                                                  \
        X(host, "Host", HEADER_ONCE)                                                                                   \
        X(idempotency_key, "Idempotency-Key", HEADER_ONCE)                                                             \
        X(if_match, "If-Match", HEADER_LIST)                                                                           \
        X(if_none_match, "If-None-Match", HEADER_LIST)                                                                 \
        X(if_range, "If-Range", HEADER_ONCE)                                                                           \
        X(last_event_id, "Last-Event-ID", HEADER_ONCE)                                                                 \
        X(origin, "Origin", HEADER_ONCE)                                                                               \
        X(range, "Range", HEADER_ONCE)                                                                                 \
        X(repr_digest, "Repr-Digest", HEADER_ONCE)                                                                     \
        X(request_id, "Request-Id", HEADER_FIRST)                                                                      \
        X(requested_method, "Access-Control-Request-Method", HEADER_ONCE)                                              \
        X(traceparent, "traceparent", HEADER_FIRST)                                                                    \
        X(transfer_encoding, "Transfer-Encoding", HEADER_ONCE)                                                         \
        X(want_content_digest, "Want-Content-Digest", HEADER_ONCE)                                                     \
        X(want_repr_digest, "Want-Repr-Digest", HEADER_ONCE)

/* Values are borrowed from the connection until the answer is queued, or are in joined. */
struct http_headers {
#define X(field, name, repeat) const char *field;
        HTTP_HEADERS(X)
#undef X
        char **joined;     /* owned; the lists that came in several lines, in the order above; NULL = none did */
        bool prefer_wait;  /* a Prefer header has a valid wait=N */
        bool prefer_async; /* one has respond-async */
        uint64_t prefer_wait_s;

        const char *fault; /* a sentence that says what no header may be; NULL = none is */
};

/*
 * Takes one header, in any order. Sets fault where its name is no token ("Content-Length :" is another header to some
 * proxies), where its value has a CR or, of those used here, a NUL, and where it came twice and may come only once.
 */
void headers_add(struct http_headers *headers, const char *name, const char *value, size_t size);

/* Frees what headers_add has allocated. */
void headers_clear(struct http_headers *headers);

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

/* ---- the query ---- */

/*
 * The query parameters of a request, each as a number: a word as its enum's value, a cursor as its id, a text as its
 * address.
 */
struct http_query {
        unsigned present; /* 1u << HTTP_PARAMETER_* */
        uint8_t narrow[HTTP_PARAMETER_COUNT - HTTP_PARAMETER_WIDE_COUNT];
        uint64_t wide[HTTP_PARAMETER_WIDE_COUNT];
};

enum { QUERY_DETAIL_SIZE = 128, QUERY_CURSOR_SIZE = 24 };

static inline bool query_has(const struct http_query *query, enum http_parameter parameter)
{
        return query->present & (1u << parameter);
}

/* 0 when it was not given. */
static inline uint64_t query_value(const struct http_query *query, enum http_parameter parameter)
{
        if (parameter < HTTP_PARAMETER_WIDE_COUNT)
                return query->wide[parameter];
        return query->narrow[parameter - HTTP_PARAMETER_WIDE_COUNT];
}

/* A text parameter, borrowed from the caller of query_add. NULL when it was not given. */
static inline const char *query_text(const struct http_query *query, enum http_parameter parameter)
{
        return (const char *)(uintptr_t)query_value(query, parameter);
}

/*
 * Parses one parameter. value NULL = it had no "=". allowed: the route's parameters. false with a sentence in detail:
 * unknown, given twice, or invalid. Pure.
 */
bool query_add(struct http_query *query, unsigned allowed, const char *name, const char *value, size_t size,
               char detail[QUERY_DETAIL_SIZE]);

/*
 * Formats the query of the next page of a list: the same parameters with another cursor. false: size bytes are too few.
 */
bool query_format_next(const struct http_query *query, uint64_t cursor, char *ret_text, size_t size);

/* Formats a cursor, in the form that query_add parses. */
void query_format_cursor(uint64_t cursor, char text[QUERY_CURSOR_SIZE]);

#endif
