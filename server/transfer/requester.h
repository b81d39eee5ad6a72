/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUESTER_H
#define TRANSFER_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct engine_transfer;
struct requester;

/*
 * The active side of one transfer: it requests chunks, or sends them, and reports when it is done. Thread: the holder
 * of the progress lock, unless a function says otherwise.
 */

/* Any thread. 0; -ENOMEM; -EINVAL when the sizes do not add up. */
int requester_new(struct engine *engine, const struct engine_transfer *spec, struct requester **ret_requester);
/* Frees one that was never begun (any thread), or has ended. */
void requester_free(struct requester *requester);

/* ---- events ---- */

/* Connects and requests the first chunks; ends it on failure. */
void requester_begin(struct requester *requester);
void requester_cancel(struct requester *requester, int reason, const char *detail);
/* The link has ended. */
void requester_link_ended(struct requester *requester, int error, const char *detail);
/* A name was resolved: tries again. */
void requester_resolved(struct requester *requester);
/* The link is up. */
void requester_link_up(struct requester *requester);
void requester_tick(struct requester *requester, uint64_t now_us);
/* Takes the step of each marked requester's state. Whether any was marked. */
bool requesters_step(struct engine *engine);

#endif
