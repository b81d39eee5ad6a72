/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_INCOMING_H
#define LOCAL_INCOMING_H

#include "channel.h"

/* The receiver's part: what datagrams mean, and payloads that are copied out of lent memory. */

/* Reads and handles what has come, up to a bound. Whether anything had. */
bool incoming_read(struct channel *channel);

/* struct transport_ops */
void incoming_receive(struct link *link, struct message *message, struct payload *payload);

/* Copies for the transport's pulls in turn, for about one piece's time. Whether anything was done. */
bool incoming_copy(struct local *local);
/* Whether there is something to copy, or to end. */
bool incoming_has_work(const struct local *local);

/* The receives of a transfer. */
void incoming_cancel(struct channel *channel, uint64_t transfer);
/* The link has failed: ends all receives. */
void incoming_end(struct channel *channel);
/* None is under way. */
bool incoming_is_idle(const struct channel *channel);

#endif
