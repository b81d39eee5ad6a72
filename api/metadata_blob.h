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
 * Looks at nothing but the blob's protocol number: another build's metadata may differ in all else. 0, also for what is
 * no blob; FERRY_E_PROTOCOL_MISMATCH with ret_detail, a text for the caller; -ENOMEM.
 */
int metadata_blob_check_protocol(const char *text, char ret_detail[FERRY_JSON_DETAIL_SIZE]);

/*
 * Fills m from a blob's text. m's own members, descriptors and kind, are set before: the blob must be, to the last
 * character, the one that metadata_blob_encode() makes of all of it, or something was changed on the way.
 * 0; FERRY_E_INVALID_METADATA with ret_detail, a text for the caller; -ENOMEM.
 */
int metadata_blob_decode(const char *text, struct ferry_metadata *m, char ret_detail[FERRY_JSON_DETAIL_SIZE]);

#endif
