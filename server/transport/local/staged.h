/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_STAGED_H
#define LOCAL_STAGED_H

#include "channel.h"

/*
 * Payloads off the host that the peer cannot map as they are: the threads of transport/staging.h load sends before they
 * leave, and store payloads that came inline. The progress thread.
 */

/* Loads a send that has begun and has a stage; local->leave follows. */
void staged_load(struct channel *channel, struct message *message, unsigned steps);
/* Whether a message of the transfer is being loaded, which a later one must not overtake. */
bool staged_has(const struct channel *channel, uint64_t transfer);
/* Sends loaded messages while there is room. */
void staged_flush(struct channel *channel);

/* Stores a receive whose bytes came inline. */
void staged_store(struct channel *channel, struct message *message, const void *bytes);

/* Ends those of a transfer (NULL = all) with that result; those that a device is copying end after that. */
void staged_end(struct channel *channel, const uint64_t *transfer, enum message_result result);

#endif
