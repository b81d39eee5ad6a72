/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_OUTGOING_H
#define LOCAL_OUTGOING_H

#include "channel.h"

/* Sends: from handing over a message to the release of its memory. The progress thread. */

/* Of struct transport_ops. */
uint64_t outgoing_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                      bool *ret_inline);
void outgoing_send(struct link *link, struct message *message);

/* The peer released a lease, and tells how it copied. false: no such lease. */
bool outgoing_released(struct channel *channel, uint32_t slot, uint64_t number, enum gpu_path path);
/* Calls handlers->room if fit() has returned 0 and there is room now. */
void outgoing_tell_room(struct channel *channel);
/* Ends the sends of a transfer (NULL = all) that are mapped or being loaded. */
void outgoing_end(struct channel *channel, const uint64_t *transfer, enum message_result result);
/* Nothing is queued or loading, and no lease is valid. */
bool outgoing_is_idle(const struct channel *channel);

#endif
