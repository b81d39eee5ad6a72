/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_ROUTE_H
#define MOVE_ROUTE_H

#include "move/engine.h"
#include "resolver.h"
#include <stddef.h>
#include <stdint.h>

struct engine;
struct session;

/*
 * The addresses of a worker, from which the way of a transfer is chosen: a local link if its socket is on this host,
 * else one of UCX, else HTTP; but not by a path that has failed lately, where another one is left.
 */
struct route {
        struct engine_peer peer; /* with the strings that follow */
        unsigned carriers;       /* of enum engine_carrier; 0 = all */
        bool has_fallback;       /* HTTP is left where no link is found: route_begin */
        bool insists;            /* tries also what has failed lately */
        unsigned probes; /* bits by a transport's index, which route_take sets: to be tried again now (connect_probe) */
        char data[ENGINE_ADDRESS_SIZE], name[64], url[512];
        struct resolved resolved; /* data */
        uint64_t begun_us;
};

/* Fills in a zeroed route with copies of the peer's strings, to which the peer's own then lead. */
void route_init(struct route *route, struct engine_peer *peer);
/*
 * Takes a link to the peer, an open one or a new one. NULL with the reason, which is "" where the peer's name is being
 * resolved: try again at COMMAND_RESOLVED. Thread: the holder of the progress lock.
 */
struct session *route_take(struct engine *engine, struct route *route, char *reason, size_t reason_size);
/*
 * A transfer begins, which goes over HTTP where it finds no link. Returns how long a first answer over a link may take:
 * HTTP after it has the rest, which is enough for one lost SYN.
 */
uint64_t route_begin(const struct engine *engine, struct route *route);
/*
 * A transfer by this route has ended, with *outcome: one that has found no link is handed over to HTTP, which calls its
 * ended. false: it was not, and the outcome says why.
 */
bool route_take_http(struct engine *engine, const struct route *route, const struct engine_transfer *transfer,
                     struct engine_outcome *outcome);
/* Whether the network transport may be tried. */
bool route_has_network(const struct engine *engine, const struct route *route);
/* Records that its name was not resolved in time. */
void route_timed_out(struct engine *engine, const struct route *route, const char *detail);

#endif
