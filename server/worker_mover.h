/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_MOVER_H
#define SERVER_WORKER_MOVER_H

#include "operations/operations.h"

struct engine;
struct peers;

/*
 * What carries an active operation: the engine's transports, or the peer's HTTP server where none of them reaches the
 * peer or "transports" says so. A transfer goes over HTTP only before its first byte went by anything else.
 */

struct mover;

/* 0 or -ENOMEM. */
int mover_new(struct engine *engine, struct mover **ret_mover);

/* HTTP can be used from now on. operations must outlive the mover. */
void mover_set_peers(struct mover *mover, struct peers *peers, struct operation_store *operations);

/* HTTP cannot be used any more: before peers_free. */
void mover_drop_peers(struct mover *mover);

/* No transfer runs any more. Takes NULL; returns NULL. */
struct mover *mover_free(struct mover *mover);

/* For struct operation_config; as the functions of transfer/engine.h. context is the mover. */
int mover_transfer_start(void *mover, const struct engine_transfer *transfer);
void mover_transfer_cancel(void *mover, uint64_t id, int reason);
void mover_note(void *mover, const struct engine_visit *visit);
void mover_offer_revoke(void *mover, uint64_t operation, int reason, int wire_reason);
void mover_offers_look(void *mover);

#endif
