/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_ANSWER_H
#define TRANSFER_ANSWER_H

#include <stdbool.h>

struct engine;
struct message;
struct payload;
struct peer;
struct wire_header;

/* What a requester gets from the responder. Thread: who holds the progress lock. */

void answer_on_data(struct engine *engine, struct peer *peer, const struct wire_header *header,
                    struct payload *payload);
void answer_on_ack(struct engine *engine, struct peer *peer, const struct wire_header *header, struct payload *payload);
void answer_on_done_ack(struct engine *engine, struct peer *peer, const struct wire_header *header,
                        struct payload *payload);
/* A READ was heard, and is held until its bytes are there. */
void answer_on_held(struct engine *engine, struct peer *peer, const struct wire_header *header);

/* Whether the message, a receive, is a requester's. */
bool answer_owns(const struct message *message);
/* A part of such a receive is in place. */
void answer_copied(struct message *message);

#endif
