/* SPDX-License-Identifier: Apache-2.0 */
#include "region_json.h"

#include <ferry/json_write.h>

#include "base/clock.h"
#include "memory/region.h"

void region_json_write(struct ferry_json_writer *writer, const struct region *region)
{
        char created[CLOCK_TEXT_SIZE];

        clock_format(region->created_unix_ms, created);
        ferry_json_begin_object(writer);
        ferry_json_add_id(writer, "id", "rgn_", region->id);
        ferry_json_add_uint(writer, "size", region->size);
        ferry_json_add_string(writer, "device", region->device);
        if (*region->name)
                ferry_json_add_string(writer, "name", region->name);
        if (*region->path)
                ferry_json_add_string(writer, "path", region->path);
        ferry_json_add_uint(writer, "in_use", region_in_use(region));
        ferry_json_add_string(writer, "created_at", created);
        ferry_json_end_object(writer);
}
