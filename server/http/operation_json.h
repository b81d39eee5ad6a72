/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_JSON_H
#define HTTP_OPERATION_JSON_H

struct ferry_json_writer;
struct operation_view;

/* Writes an operation as JSON. */
void operation_json_write(struct ferry_json_writer *writer, const struct operation_view *view);

/* Writes its members only, into an open object. */
void operation_json_members(struct ferry_json_writer *writer, const struct operation_view *view);

#endif
