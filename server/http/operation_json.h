/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_JSON_H
#define HTTP_OPERATION_JSON_H

#include <stdint.h>

#include <ferry/status.h>

struct ferry_json_writer;
struct operation_view;

/* Writes what the holder of an operation's metadata may know of it. expires_unix_ms: 0 = left out. */
void operation_json_offer(struct ferry_json_writer *writer, enum ferry_status status, uint64_t expires_unix_ms);

/* Writes an operation as JSON. */
void operation_json_write(struct ferry_json_writer *writer, const struct operation_view *view);

/* Writes its members only, into an open object. */
void operation_json_members(struct ferry_json_writer *writer, const struct operation_view *view);

#endif
