/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_PULLS_H
#define LOCAL_PULLS_H

#include "channel.h"

/* The payloads that peers have lent, from their arrival to the release of their leases. The progress thread. */

/* A message with a lent payload came; extents: frame->n of them, of any alignment. NULL with *ret_wrong. */
struct pull *pull_arrived(struct channel *channel, const struct frame *frame, const uint8_t *extents,
                          const char **ret_wrong);
/* The engine does not want it. */
void pull_refuse(struct pull *pull);

/* Of struct transport_ops. */
void pulls_receive(struct link *link, struct message *message, struct payload *payload);

/* Copies for the transport's pulls in turn, for about one piece's time. Whether anything was done. */
bool pulls_copy(struct local *local);
/* Whether there is something to copy, or to end. */
bool pulls_have_work(const struct local *local);

/* The receives of a transfer. */
void pulls_cancel(struct channel *channel, uint64_t transfer);
/* The link has failed: ends all receives but those that a device is at work on, which end after that. */
void pulls_end(struct channel *channel);
/* None is under way. */
bool pulls_are_idle(const struct channel *channel);

#endif
