/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_FLOW_H
#define TRANSFER_FLOW_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The bytes that transfers have in flight over a link, those that its requesters have asked for or those that its
 * responders send. The window of the link (struct transport_ops) bounds them. A transfer whose bytes stand still, since
 * a GPU of either side does or a followed read is late, is set aside: its bytes leave the window to the others until
 * some of them move. A link is no more than FLOW_ASIDE_MAX windows over its window.
 *
 * A slow link is not one that stands still. A transfer is set aside when the others have moved two windows since it
 * last moved; or when nothing at all has moved for twice as long as the longest pause while bytes moved lately, at
 * least 100 ms. Pure.
 */
struct flow {
        uint64_t in_flight; /* bytes, but for those set aside … */
        uint64_t aside;     /* … and of these */
        uint64_t moved;     /* bytes, in all */
        uint64_t moved_us;  /* when bytes last moved, or the first of those in flight began */
        uint64_t pause_us;  /* the longest between two such moments, lately; 0 = none is known */
};

enum { FLOW_ASIDE_MAX = 8 };

/* What one transfer has in flight. */
struct flow_share {
        uint64_t bytes;
        uint64_t moved; /* the flow's, when some of the transfer's bytes last moved or the first of them began */
        bool aside;     /* the transfer is set aside, and begins no more */
};

/* Bytes begin; end, moved or not. */
void flow_add(struct flow *flow, struct flow_share *share, uint64_t bytes);
void flow_remove(struct flow *flow, struct flow_share *share, uint64_t bytes);
/*
 * bytes have moved; 0 = a part of some, which are counted when all have. Learns from the pause before, if it is longer
 * than 0. Whether the transfer was set aside, which it is no longer.
 */
bool flow_note_moved(struct flow *flow, struct flow_share *share, uint64_t bytes, uint64_t now_us);
/* Sets the transfer aside if it stands still, or is known to (still), and as many may be. window: bytes. Whether it
 * did. */
bool flow_set_aside(struct flow *flow, struct flow_share *share, bool still, uint64_t window, uint64_t now_us);
/* When to look again while something waits for room. */
uint64_t flow_next_look_us(const struct flow *flow);

#endif
