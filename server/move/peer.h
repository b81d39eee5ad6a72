/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_PEER_H
#define MOVE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "message/transport.h"
#include "move/engine.h"

/*
 * One transport's way to a worker, as the attempts to connect have found it: a transfer that can go by something else
 * does not wait for a path that has failed. Part of the peer, so a new epoch begins anew. Thread: the
 * holder of the progress lock.
 */

enum path_state {
        PATH_OPEN,    /* it works, or was not tried: a transfer waits for it */
        PATH_SHUT,    /* the last attempt failed; the first transfer after retry_us has it tried again beside itself */
        PATH_PROBING, /* that is under way */
};

struct path {
        enum path_state state;
        unsigned n_failures; /* in a row */
        uint64_t retry_us;
};

/* An attempt to connect has failed. The pause before the next one grows. */
void path_fail(struct path *path);
/* The peer has answered over it, or its address is another one. */
void path_open(struct path *path);
/* Whether to try it again now; then the caller has begun to. */
bool path_begin_probe(struct path *path);
/* An attempt beside the transfers has ended; unless the end of its link has told already, it has failed. */
void path_end_probe(struct path *path);
/* When it is tried again, at the earliest, as Unix time in ms; 0 = it is open. */
uint64_t path_retry_unix_ms(const struct path *path);

struct engine;
struct session;

/*
 * A worker as GET /v1/peers shows it, with its links (struct session is one link): while there is a link, and for a
 * while afterwards. Routes depend on its paths, all else is for display. Thread: the holder of the progress lock.
 */
struct peer {
        /* As it is shown: epoch, names and addresses, what has moved, and why it has no link. The rest is filled in
         * when it is looked at. */
        struct engine_peer_view view;
        uint64_t number;    /* in order of appearance */
        const char *no_shm; /* why the latest route that did not use shared memory did not; NULL = there was none */
        const char *no_ucx; /* why it does not use the network transport; NULL = it does, or that is tried */
        struct session *sessions; /* utlist; its links */
        struct path paths[TRANSPORTS_MAX];
        /* Transfers over HTTP (engine_note_http): */
        const char *http_carrier;                   /* of the latest; NULL = none, or that found no peer */
        bool http_accepted;                         /* the peer began it */
        bool http_chosen;                           /* by the latest route: "transports" allowed nothing else */
        size_t n_http_transfers;                    /* running */
        uint64_t http_since_us, http_last_us;       /* since when any run; when one last began or ended */
        uint64_t unlinked_us;                       /* when the last link ended */
        bool reported_up;                           /* the observer was last told that it is connected */
        struct peer *prev, *next;                   /* the engine's; in order of number */
        struct peer *unlinked_prev, *unlinked_next; /* those without a link; in order of unlinked_us */
        UT_hash_handle hh;                          /* peers_by_epoch */
};

/* Why a path that is shut is not used. */
extern const char peer_shm_shut[], peer_ucx_shut[];

/* Finds or makes the peer that metadata, a link or HTTP names, and updates its addresses. NULL: no memory. */
struct peer *peer_get(struct engine *engine, const struct engine_peer *known);
/* NULL: not known (any more). */
struct peer *peer_find(struct engine *engine, uint64_t epoch);
/* Adds a link to the peer, which may be NULL. */
void peer_add_link(struct peer *peer, struct session *session);
/* The peer has answered over a link that was opened here. peer may be NULL. */
void peer_link_up(struct peer *peer, const struct session *session);
/* Tells the observer if the peer is connected now. peer may be NULL. */
void peer_notify(struct engine *engine, struct peer *peer);
/* Removes a link that has ended; error 0 = closed, because it was not used. */
void peer_remove_link(struct session *session, int error, const char *detail);
/* No link could be opened; error 0 = none is needed now. peer may be NULL. */
void peer_fail(struct engine *engine, struct peer *peer, int error, const char *detail);

void peer_note_http(struct engine *engine, const struct engine_http_note *note);
/* Counts an ended transfer. peer may be NULL. */
void peer_count(struct peer *peer, const struct engine_outcome *outcome);

/* Arguments and result of engine_peers_page. */
struct peers_page {
        uint64_t cursor;
        struct engine_peer_view *views;
        size_t max, n;
};
void peers_list(struct engine *engine, struct peers_page *page);
/* Frees all. */
void peers_clear(struct engine *engine);

#endif
