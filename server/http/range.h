/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_RANGE_H
#define HTTP_RANGE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
