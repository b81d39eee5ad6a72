/* SPDX-License-Identifier: Apache-2.0 */
#include "region_json.h"

#include <ferry/encoding.h>

#include "base/clock.h"
#include "json_build.h"
#include "memory/region.h"

struct json_object *region_json_new(const struct region *region)
{
        struct json_object *object = json_object_new_object();
        char id[FERRY_ID_TEXT_SIZE], created[CLOCK_TEXT_SIZE];

        ferry_id_format("rgn_", region->id, id);
        clock_format(region->created_unix_ms, created);
        bool ok = json_add_string(object, "id", id) && json_add_uint(object, "size", region->size) &&
                  json_add_string(object, "device", region->device);
        if (*region->name)
                ok = ok && json_add_string(object, "name", region->name);
        if (*region->path)
                ok = ok && json_add_string(object, "path", region->path);
        ok = ok && json_add_uint(object, "in_use", region_in_use(region)) &&
             json_add_string(object, "created_at", created);
        return json_finish(object, ok);
}
