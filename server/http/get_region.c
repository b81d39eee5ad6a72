/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "handlers.h"
#include "making.h"
#include "memory/region.h"
#include "region_json.h"
#include "request.h"
#include "wait.h"

static void answer(struct http_request *request, const struct region *region)
{
        struct ferry_json_writer writer = { 0 };

        if (region_deleted(region)) {
                request_problem(request, FERRY_E_GONE, "The region was deleted");
                return;
        }
        region_json_write(&writer, region);
        request_answer_json(request, 200, &writer);
}

static void answer_in_time(struct http_request *request)
{
        answer(request, making_region(request->state));
}

void get_region(struct http_request *request)
{
        struct region *region = request_find_region(request);
        uint64_t wait_ms;

        if (!region)
                return;
        wait_ms = request_wait_ms(request);
        if (!wait_ms || region_state(region) != REGION_PREPARING || making_begin(request, region, NULL) < 0) {
                answer(request, region);
                region_unref(region);
        } else if (wait_park_latch(request, making_over(request->state), wait_ms, answer_in_time) != WAIT_PARKED) {
                answer_in_time(request);
        }
}
