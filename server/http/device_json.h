/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DEVICE_JSON_H
#define HTTP_DEVICE_JSON_H

struct device_inventory;
struct engine_facts;
struct ferry_json_writer;

/* Writes the document of GET /v1/devices. */
void device_json_write(struct ferry_json_writer *writer, const struct device_inventory *inventory,
                       const struct engine_facts *facts);

#endif
