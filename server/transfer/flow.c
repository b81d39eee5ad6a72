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

static uint64_t *bytes_of(struct flow *flow, const struct flow_share *share)
{
        return share->aside ? &flow->aside : &flow->in_flight;
}

static void move_aside(struct flow *flow, struct flow_share *share, bool aside)
{
        *bytes_of(flow, share) -= share->bytes;
        share->aside = aside;
        if (flow->in_flight == 0)
                flow->moved_us = clock_now_us();
        *bytes_of(flow, share) += share->bytes;
}

void flow_add(struct flow *flow, struct flow_share *share, uint64_t bytes)
{
        if (share->bytes == 0)
                share->moved = flow->moved;
        if (flow->in_flight == 0)
                flow->moved_us = clock_now_us();
        share->bytes += bytes;
        *bytes_of(flow, share) += bytes;
}

void flow_remove(struct flow *flow, struct flow_share *share, uint64_t bytes)
{
        *bytes_of(flow, share) -= bytes;
        share->bytes -= bytes;
        share->aside &= share->bytes > 0;
}

bool flow_note_moved(struct flow *flow, struct flow_share *share, uint64_t bytes, uint64_t now_us)
{
        uint64_t pause = now_us > flow->moved_us ? now_us - flow->moved_us : 0;
        bool was_aside = share->aside;

        if (flow->in_flight > 0 && pause > 0) {
                flow->pause_us -= flow->pause_us / 8;
                if (pause > flow->pause_us)
                        flow->pause_us = pause;
        }
        flow->moved_us = now_us;
        flow->moved += bytes;
        share->moved = flow->moved;
        if (was_aside)
                move_aside(flow, share, false);
        return was_aside;
}

bool flow_set_aside(struct flow *flow, struct flow_share *share, bool still, uint64_t window, uint64_t now_us)
{
        if (share->aside || share->bytes == 0 || flow->aside + share->bytes > FLOW_ASIDE_MAX * window)
                return false;
        if (!still && flow->moved - share->moved < 2 * window && now_us < flow->moved_us + patience(flow))
                return false;
        move_aside(flow, share, true);
        return true;
}

uint64_t flow_next_look_us(const struct flow *flow)
{
        return clock_now_us() + patience(flow);
}
