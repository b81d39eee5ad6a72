/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REGION_JSON_H
#define HTTP_REGION_JSON_H

struct ferry_json_writer;
struct region;

/* Writes a region as JSON. */
void region_json_write(struct ferry_json_writer *writer, const struct region *region);

#endif
