/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUESTER_REPLY_H
#define TRANSFER_REQUESTER_REPLY_H

#include <stdbool.h>

struct engine;
struct message;
struct payload;
struct peer;
struct wire_header;

/* Handles the messages of a responder to its requester. Thread: the holder of the progress lock. */

void requester_on_data(struct engine *engine, struct peer *peer, const struct wire_header *header,
                       struct payload *payload);
void requester_on_ack(struct engine *engine, struct peer *peer, const struct wire_header *header,
                      struct payload *payload);
void requester_on_done_ack(struct engine *engine, struct peer *peer, const struct wire_header *header,
                           struct payload *payload);
/* The responder holds a READ until its bytes arrive. */
void requester_on_held(struct engine *engine, struct peer *peer, const struct wire_header *header);

/* Whether a receive is a requester's. */
bool requester_owns(const struct message *message);
/* A part of such a receive is in place. */
void requester_copied(struct message *message);

#endif
