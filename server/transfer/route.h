/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_ROUTE_H
#define TRANSFER_ROUTE_H

#include "resolver.h"
#include "transfer/engine.h"
#include <stddef.h>
#include <stdint.h>

struct engine;
struct peer;

/* Where a worker is, and the link to it: local where its socket is there, else UCX. */
struct route {
        struct engine_peer peer; /* with the strings that follow */
        unsigned carriers;       /* of enum engine_carrier; 0 = all */
        char data[ENGINE_ADDRESS_SIZE], name[64], url[512];
        struct resolved resolved; /* data */
        bool looked_up;           /* it was tried */
};

enum route_result {
        ROUTE_FOUND,
        ROUTE_RESOLVING, /* engine_on_resolved's caller tries again when the name is resolved */
        ROUTE_NONE,      /* reason says why */
};

void route_init(struct route *route, const struct engine_peer *peer);
/* The peer, over a link that is there or was opened now. Thread: who holds the progress lock. */
enum route_result route_take(struct engine *engine, struct route *route, struct peer **ret_peer, char *reason,
                             size_t reason_size);
/* Its name was not resolved in time. */
void route_is_late(struct engine *engine, const struct route *route, const char *detail);

#endif
