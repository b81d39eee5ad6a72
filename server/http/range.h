/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_RANGE_H
#define HTTP_RANGE_H

#include <stdbool.h>
#include <stdint.h>

enum { RANGE_DIGEST_MAX = 64 << 20 /* bytes that are read for a digest before an answer begins */ };

enum range_result {
        RANGE_WHOLE, /* no range, several ranges, another unit, or malformed: the whole content is the answer */
        RANGE_PART,
        RANGE_UNSATISFIABLE,
};

/*
 * A Range header (RFC 9110, section 14; NULL = there is none) against content of size bytes. For RANGE_PART, the first
 * and the last byte. Pure.
 */
enum range_result range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_last);

/*
 * The Content-Range of a request's body: "bytes FIRST-LAST/TOTAL", where TOTAL may be "*". TOTAL counts the bytes that
 * the client has, which need not fill the region. false when the header is not of that form. Pure.
 */
bool content_range_parse(const char *header, uint64_t *ret_first, uint64_t *ret_last);

#endif
