/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_JSON_H
#define HTTP_OPERATION_JSON_H

struct ferry_json_writer;
struct operation_view;

/* An operation as people see it. */
void operation_json_write(struct ferry_json_writer *writer, const struct operation_view *view);

/* The same without the braces, for an object that has more. */
void operation_json_members(struct ferry_json_writer *writer, const struct operation_view *view);

#endif
