/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_STORE_H
#define TRANSFER_STORE_H

#include <stdbool.h>

struct engine;
struct message;
struct payload;
struct peer;
struct wire_header;

/* WRITE to ACK: a responder takes bytes. Thread: who holds the progress lock. */

void store_on_write(struct engine *engine, struct peer *peer, const struct wire_header *header,
                    struct payload *payload);
/* Whether the message, a receive, is a responder's. */
bool store_owns(const struct message *message);
/* A part of such a receive is in place. */
void store_copied(struct message *message);

#endif
