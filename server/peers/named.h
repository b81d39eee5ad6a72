/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_NAMED_H
#define PEERS_NAMED_H

#include <stdbool.h>
#include <stddef.h>

#include "peers/peers.h"

/*
 * URLs that name a worker as the registry does: ferry://NAME of the worker itself, ferry://NAME/op_ID and
 * ferry://NAME/v1/operations/op_ID/metadata of what it offers. Any thread.
 */

struct registry;

bool named_is(const char *url);

/* What can be said against it without asking. worker: it shall name the worker itself. As peers_check_url. */
int named_check(const struct registry *registry, const char *url, bool worker, char *detail, size_t detail_size);

/* Asks the registry (NULL = there is none), then fetches by the URL that it says: peers_fetch_metadata or, with worker,
 * peers_fetch_worker, whose errors it has. Of a worker, http of the metadata is set. */
int named_fetch(struct peers *peers, struct registry *registry, bool worker, const char *url, peers_fetched fetched,
                void *context, char *detail, size_t detail_size);

#endif
