/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_DATA_PLANE_H
#define SERVER_WORKER_DATA_PLANE_H

#include "operations/operations.h"

struct engine;
struct peers;

/*
 * What carries an active operation: the engine's transports, or the peer's HTTP server where none of them reaches the
 * peer or "transports" says so. A transfer goes over HTTP only before its first byte went by anything else.
 */

struct data_plane;

/* 0 or -ENOMEM. */
int data_plane_new(struct engine *engine, struct data_plane **ret_data_plane);

/* Allows transfers over HTTP. operations must exist until peers_free has returned. */
void data_plane_set_peers(struct data_plane *data_plane, struct peers *peers, struct operation_store *operations);

/* No transfer starts or is cancelled over HTTP any more. Call before peers_free, which ends those that run. */
void data_plane_drop_peers(struct data_plane *data_plane);

/* No transfer may run. Takes NULL; returns NULL. */
struct data_plane *data_plane_free(struct data_plane *data_plane);

/* For struct operation_config; as the functions of transfer/engine.h. context is the data plane. */
int data_plane_transfer_start(void *data_plane, const struct engine_transfer *transfer);
void data_plane_transfer_cancel(void *data_plane, uint64_t id, int reason);
void data_plane_note_http(void *data_plane, const struct engine_http_note *note);
void data_plane_claims_revoke(void *data_plane, uint64_t operation, int reason, int wire_reason);
void data_plane_held_reads_retry(void *data_plane);

/*
 * For struct http_connector: engine_connect. A notice goes over HTTP where the engine does not reach the peer, if the
 * peer has a URL.
 */
int data_plane_connect(void *data_plane, const struct engine_connect *connect);

#endif
