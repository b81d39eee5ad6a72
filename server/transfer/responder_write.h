/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESPONDER_WRITE_H
#define TRANSFER_RESPONDER_WRITE_H

#include <stdbool.h>

struct engine;
struct message;
struct payload;
struct peer;
struct wire_header;

/* WRITEs: a responder receives bytes. Thread: the holder of the progress lock. */

void responder_on_write(struct engine *engine, struct peer *peer, const struct wire_header *header,
                        struct payload *payload);
/* Whether a receive is a responder's. */
bool responder_owns(const struct message *message);
/* A part of such a receive is in place. */
void responder_copied(struct message *message);

#endif
