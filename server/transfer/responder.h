/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESPONDER_H
#define TRANSFER_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct payload;
struct peer;
struct responder;
struct wire_header;

/* The end of responders (responder_state.h). Thread: the holder of the progress lock. */

void responder_on_done(struct engine *engine, struct peer *peer, const struct wire_header *header,
                       struct payload *payload);
/* The link has ended. */
void responder_link_ended(struct responder *responder, int error, const char *detail);
void responder_tick(struct responder *responder, uint64_t now_us);
/* Takes the step of each marked responder's state. Whether any was marked. */
bool responders_step(struct engine *engine);

#endif
