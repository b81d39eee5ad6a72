/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_JSON_H
#define HTTP_OPERATION_JSON_H

struct json_object;
struct operation_view;

/* An operation as people see it. NULL when memory is short. Pure. */
struct json_object *operation_json_new(const struct operation_view *view);

#endif
