/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DEVICE_JSON_H
#define HTTP_DEVICE_JSON_H

struct device_inventory;
struct fabric_facts;
struct json_object;

/* The document of /v1/devices. NULL when memory is short. Pure. */
struct json_object *device_json_new(const struct device_inventory *inventory, const struct fabric_facts *facts);

#endif
