/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REGION_JSON_H
#define HTTP_REGION_JSON_H

struct json_object;
struct region;

/* A region as people see it. NULL when memory is short. */
struct json_object *region_json_new(const struct region *region);

#endif
