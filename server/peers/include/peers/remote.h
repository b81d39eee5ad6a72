/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_REMOTE_H
#define PEERS_REMOTE_H

#include <stddef.h>

struct operation;
struct operation_store;
struct peers;

/*
 * Fetches a peer's metadata and then begins the operation (borrowed; it keeps its own reference), or ends it as
 * ERRORED. 0, or what peers_fetch_metadata said at once, with a sentence in detail; the operation is then untouched.
 * The rest runs on the peers' thread.
 */
int remote_begin(struct operation_store *store, struct peers *peers, struct operation *operation, const char *url,
                 char *detail, size_t detail_size);

#endif
