/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_METADATA_SCAN_H
#define API_METADATA_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct ferry_metadata;

/*
 * Reads a document that has the members of metadata in the order in which workers write them, white space aside, and
 * no escapes: 1,000 descriptors are as many objects to json-c, which README.md has the cost of. Fills m, which is
 * empty, but for what the blob carries, and gives the blob's text for free(). Ranges are not looked at. false, with m
 * as far as it came and no blob: it is written otherwise, or is not metadata at all, or memory is short.
 */
bool metadata_scan(const char *text, size_t size, struct ferry_metadata *m, char **ret_blob);

#endif
