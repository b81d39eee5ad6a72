/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_METADATA_BLOB_H
#define API_METADATA_BLOB_H

#include <ferry/json.h>
#include <ferry/metadata.h>

enum { METADATA_BLOB_MAX = 128 << 10 }; /* longest text of a blob, with its prefix and its NUL */

/* Whether the members of m that the blob carries can stand in one. */
bool metadata_blob_valid(const struct ferry_metadata *m);

/* The text of m's blob, for free(); NULL when memory is short. */
char *metadata_blob_encode(const struct ferry_metadata *m);

/*
 * Fills m from a blob's text. 0 with the digest that stands in it; FERRY_E_PROTOCOL_MISMATCH, which is looked at first,
 * because another build's metadata may differ in all else; FERRY_E_INVALID_METADATA; both with ret_detail, a text for
 * the caller; -ENOMEM.
 */
int metadata_blob_read(const char *text, struct ferry_metadata *m, uint64_t *ret_digest,
                       char ret_detail[FERRY_JSON_DETAIL_SIZE]);

/*
 * Whether m, read from the blob, with its descriptors and its kind, is what the blob was made of: that must be, to the
 * last character, the one that metadata_blob_encode() makes of it, or something was changed on the way.
 * 0; FERRY_E_INVALID_METADATA with ret_detail; -ENOMEM.
 */
int metadata_blob_compare(const char *text, const struct ferry_metadata *m, uint64_t said,
                          char ret_detail[FERRY_JSON_DETAIL_SIZE]);

#endif
