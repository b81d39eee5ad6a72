/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OCTETS_H
#define HTTP_OCTETS_H

#include <stdbool.h>
#include <stdint.h>

struct MHD_Response;
struct http_request;

/*
 * Which bytes of a region or an operation a request is about, and the headers that say so: for GET and PUT of both.
 * Content has no ETag, so If-Range never matches.
 */
struct octets {
        uint64_t first, size, total;
        bool part; /* a range was asked for */
};

/* The bytes that a GET asks for. false: answered with 416. */
bool octets_asked(struct http_request *request, uint64_t total, struct octets *ret_octets);

/* Answers with them. response NULL: no memory. */
void octets_answer(struct http_request *request, const struct octets *octets, struct MHD_Response *response);

/* Adds their Content-Digest (RFC 9530; key "xxh3": XXH3-64, most significant byte first). */
void octets_add_digest(struct http_request *request, uint64_t checksum);

/*
 * Where the body of a PUT goes: from the query parameter offset on (*ret_end = UINT64_MAX: to the end of the body), or
 * into the range of Content-Range, as curl sends it when it resumes, which must name total as the size of the whole, or
 * none (total UINT64_MAX: any). false: answered.
 */
bool octets_place(struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_end);

/* Refuses Content-Range; fault ends the sentence. */
void octets_refuse_range(struct http_request *request, const char *fault);

#endif
