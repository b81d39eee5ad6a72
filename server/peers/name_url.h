/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_NAME_URL_H
#define PEERS_NAME_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "peers/peers.h"

/*
 * URLs that name a worker by its name in the registry: ferry://NAME for the worker itself, ferry://NAME/op_ID and
 * ferry://NAME/v1/operations/op_ID/metadata for an operation. Any thread.
 */

struct registry;

bool name_url_is(const char *url);

/* Checks a URL without asking the registry. worker: it must name the worker itself. As peers_check_url. */
int name_url_check(const struct registry *registry, const char *url, bool worker, char *detail, size_t detail_size);

/*
 * Resolves the URL by the registry (NULL = there is none), then fetches the metadata or, with worker, the description,
 * as peers_fetch_metadata and peers_fetch_worker. Of a worker, http of the metadata is set.
 */
int name_url_fetch(struct peers *peers, struct registry *registry, bool worker, const char *url, peers_fetched fetched,
                   peers_wanted wanted, void *context, char *detail, size_t detail_size);

#endif
