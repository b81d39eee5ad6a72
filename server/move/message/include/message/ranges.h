/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_RANGES_H
#define MESSAGE_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* A run of bytes of an offer's stream. */
struct range {
        uint64_t offset, size;
};

/*
 * Parts of an offer's stream, in the order of the list seen as one stream: what a transfer of parts moves. The one
 * place that maps a position in that stream to the offer's, for every transport. Fixed once made. Pure.
 */
struct ranges {
        uint64_t total; /* bytes of all */
        uint64_t end;   /* of the furthest, in the offer's stream */
        size_t n;       /* neighbours are one */
        struct {
                uint64_t at; /* in the stream of the parts */
                struct range range;
        } list[];
};

/*
 * Makes it of n ranges. 0 with *ret_ranges, for free(); -ENOMEM; FERRY_E_INVALID_PARAMETER (none, an empty one, or one
 * that overlaps another); FERRY_E_OUT_OF_BOUNDS (one that ends beyond 2^53 - 1). With a FERRY_E_* *ret_i is the range,
 * and *ret_why a clause about it.
 */
int ranges_new(const struct range *given, size_t n, struct ranges **ret_ranges, size_t *ret_i, const char **ret_why);

/* Bytes of a range in a message: its offset and size, little-endian. */
enum { RANGE_SIZE = 16 };
/* Encodes the ranges [first, first + n). */
void ranges_encode(const struct ranges *ranges, size_t first, size_t n, uint8_t *bytes);
struct range range_decode(const uint8_t bytes[RANGE_SIZE]);

/* A copy, for free(). NULL: memory is short. */
struct ranges *ranges_copy(const struct ranges *ranges);

struct segment;
struct stream;

/* Makes the segments of the ranges of an offer's stream, for free(). Returns how many; 0 = no memory. */
size_t ranges_segments(const struct ranges *ranges, const struct stream *offer, struct segment **ret_segments);

/*
 * Offset in the offer's stream of the byte at position at (< total), and how many bytes follow there, with it, before
 * the next range begins. ranges NULL = all of the offer.
 */
uint64_t ranges_place(const struct ranges *ranges, uint64_t at, uint64_t *ret_run);

#endif
