/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_PULLS_H
#define LOCAL_PULLS_H

#include "channel.h"

/* All pulls (pull.h), from the arrival of a mapped payload to the release of its lease. The progress thread. */

/* Makes a pull for a message that came; extents: frame->n, of any alignment. NULL with *ret_wrong. */
struct pull *pull_arrived(struct channel *channel, const struct frame *frame, const uint8_t *extents,
                          const char **ret_wrong);
/* The engine has refused the payload. */
void pull_refuse(struct pull *pull);

/* Of struct transport_ops. */
void pulls_receive(struct link *link, struct message *message, struct payload *payload);

/* Copies about one piece, round-robin over the pulls. Whether it did anything. */
bool pulls_copy(struct local *local);
/* Whether a pull can be copied or ended now. */
bool pulls_have_work(const struct local *local);

/* Ends the receives of a transfer (NULL = all); those that a device is copying end after that. */
void pulls_end(struct channel *channel, const uint64_t *transfer, enum message_result result);
/* Whether the channel has none. */
bool pulls_are_idle(const struct channel *channel);

#endif
