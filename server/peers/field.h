/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_FIELD_H
#define PEERS_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

/* Members of JSON documents that describe a worker. Any thread. */

/*
 * The text of a member, borrowed: not empty, shorter than size, printable ASCII without blanks, quotes and backslashes,
 * as in metadata. NULL: it is missing or something else.
 */
const char *field_text(struct json_object *object, const char *name, size_t size);

/* The member "epoch": 16 lower case hexadecimal digits, not 0. */
bool field_epoch(struct json_object *object, uint64_t *ret_epoch);

#endif
