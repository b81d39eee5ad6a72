/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include "base/clock.h"

enum {
        PATIENCE_US = 100 * 1000,
        PATIENCE_FIRST_US = 1000 * 1000, /* before anything has moved: the link may be slow */
};

static uint64_t patience(const struct flow *flow)
{
        if (flow->pause_us == 0)
                return PATIENCE_FIRST_US;
        return flow->pause_us * 2 > PATIENCE_US ? flow->pause_us * 2 : PATIENCE_US;
}

static uint64_t *bytes_of(struct flow *flow, bool aside)
{
        return aside ? &flow->aside : &flow->in_flight;
}

void flow_add(struct flow *flow, uint64_t bytes, bool aside)
{
        if (flow->in_flight == 0)
                flow->moved_us = clock_now_us();
        *bytes_of(flow, aside) += bytes;
}

void flow_remove(struct flow *flow, uint64_t bytes, bool aside)
{
        *bytes_of(flow, aside) -= bytes;
}

void flow_note_moved(struct flow *flow, uint64_t bytes, uint64_t now_us)
{
        uint64_t pause = now_us > flow->moved_us ? now_us - flow->moved_us : 0;

        if (flow->in_flight > 0 && pause > 0) {
                flow->pause_us -= flow->pause_us / 8;
                if (pause > flow->pause_us)
                        flow->pause_us = pause;
        }
        flow->moved_us = now_us;
        flow->moved += bytes;
}

void flow_set_aside(struct flow *flow, uint64_t bytes, bool aside)
{
        flow_remove(flow, bytes, !aside);
        flow_add(flow, bytes, aside);
}

bool flow_may_set_aside(const struct flow *flow, uint64_t bytes, uint64_t window)
{
        return flow->aside + bytes <= FLOW_ASIDE_MAX * window;
}

bool flow_stands_still(const struct flow *flow, uint64_t moved, uint64_t window, uint64_t now_us)
{
        return flow->moved - moved >= 2 * window || now_us >= flow->moved_us + patience(flow);
}

uint64_t flow_next_look_us(const struct flow *flow)
{
        return clock_now_us() + patience(flow);
}
