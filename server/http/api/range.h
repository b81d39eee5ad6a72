/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_RANGE_H
#define HTTP_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct MHD_Response;
struct http_request;

enum { RANGE_DIGEST_MAX = 64 << 20 /* bytes to read at most for the digest of an answer */ };

enum range_result {
        RANGE_WHOLE, /* no range, several ranges, another unit, or malformed: the whole content is the answer */
        RANGE_PART,
        RANGE_UNSATISFIABLE,
};

/*
 * Parses a Range header (RFC 9110, section 14; or NULL) for content of size bytes. RANGE_PART sets the first and the
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
        bool part; /* a range was asked for */
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
