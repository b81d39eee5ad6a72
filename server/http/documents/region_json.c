/* SPDX-License-Identifier: Apache-2.0 */
#include "resources.h"

#include <ferry/json_write.h>

#include "base/clock.h"
#include "memory/region.h"

/* What is left of idle_ms, or that it has run out. */
static void write_idle(struct ferry_json_writer *writer, const struct region *region)
{
        const uint64_t due_us = region_idle_due_us(region), now_us = clock_now_us();

        ferry_json_add_uint(writer, "idle_ms", region->idle_ms);
        if (region_deleted(region)) {
                if (due_us <= now_us)
                        ferry_json_add_bool(writer, "expired", true);
        } else if (due_us != UINT64_MAX) {
                document_add_time(writer, "expires_at",
                                  clock_unix_ms() + (due_us > now_us ? (due_us - now_us) / 1000 : 0));
        }
}

void region_json_write(struct ferry_json_writer *writer, const struct region *region)
{
        const enum region_state state = region_state(region);

        ferry_json_begin_object(writer);
        ferry_json_add_id(writer, "id", "rgn_", region->id);
        ferry_json_add_uint(writer, "size", region->size);
        ferry_json_add_string(writer, "device", region->device);
        document_add_text(writer, "name", region->name);
        ferry_json_add_string(writer, "state", region_state_name(state));
        switch (state) {
        case REGION_PREPARING:
                ferry_json_add_uint(writer, "bytes_prepared", region_bytes_prepared(region));
                break;
        case REGION_READY:
                document_add_text(writer, "path", region->path);
                break;
        case REGION_FAILED:
                problem_add_error(writer, region->error, region->detail);
                break;
        }
        if (region->sealed)
                ferry_json_add_bool(writer, "sealed", true);
        ferry_json_add_uint(writer, "in_use", region_in_use(region));
        document_add_time(writer, "created_at", region->created_unix_ms);
        if (region->idle_ms)
                write_idle(writer, region);
        ferry_json_end_object(writer);
}
