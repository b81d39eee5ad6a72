/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_STAGED_H
#define LOCAL_STAGED_H

#include "channel.h"

/*
 * Payloads off the host that no peer can be lent, or that are looked at before: threads (transport/staging.h) load
 * sends before they leave, and store what came inside messages. The progress thread.
 */

/* A send that has begun and has a stage; local->leave follows. */
void staged_load(struct channel *channel, struct message *message, unsigned steps);
/* Whether another message of the transfer is being loaded, which a later one must not overtake. */
bool staged_has(const struct channel *channel, uint64_t transfer);
/* Sends what has been loaded, as far as there is room. */
void staged_flush(struct channel *channel);

/* A receive whose bytes came inside the message. */
void staged_store(struct channel *channel, struct message *message, const void *bytes);

void staged_cancel(struct channel *channel, uint64_t transfer);
/* The link has failed: ends what a device is not at work on; the rest ends after that. */
void staged_end(struct channel *channel);

#endif
