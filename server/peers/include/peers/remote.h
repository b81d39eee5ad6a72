/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_REMOTE_H
#define PEERS_REMOTE_H

#include <stddef.h>

struct operation;
struct operation_store;
struct peers;

/*
 * Fetches a peer's metadata, then begins the operation (borrowed; it keeps a reference of its own) or ends it as
 * ERRORED, on the peers' thread. 0, or an error of peers_fetch_metadata with a sentence in detail, and the operation is
 * untouched.
 */
int remote_begin(struct operation_store *store, struct peers *peers, struct operation *operation, const char *url,
                 char *detail, size_t detail_size);

#endif
