/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_OUTGOING_H
#define LOCAL_OUTGOING_H

#include "channel.h"

/* The sender's part: how messages leave, and when their memory is free again. The progress thread. */

/* Of struct transport_ops. */
uint64_t outgoing_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                      bool *ret_inside);
void outgoing_send(struct link *link, struct message *message);

/* Of struct local: a message has been loaded; whether there is room for it, and its way out. */
bool outgoing_may_leave(const struct channel *channel, const struct message *message);
void outgoing_leave(struct channel *channel, struct message *message);
/* The sends of a transfer that are lent or loaded. */
void outgoing_cancel(struct channel *channel, uint64_t transfer);
/* The peer released a lease, and says how it has copied. false: it has no such one. */
bool outgoing_released(struct channel *channel, uint32_t slot, uint64_t number, enum transport_way way);
/* Tells the engine that there is room, if it waits for that. */
void outgoing_tell_room(struct channel *channel);
/* The link has failed: ends all sends. */
void outgoing_end(struct channel *channel);
/* Nothing is queued or lent. */
bool outgoing_is_idle(const struct channel *channel);

#endif
