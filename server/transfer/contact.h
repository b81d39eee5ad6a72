/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_CONTACT_H
#define TRANSFER_CONTACT_H

#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "transfer/engine.h"

struct engine;
struct peer;

/*
 * Another worker, as people are told of it: as long as this one has a link to it, and for a while afterwards. Nothing
 * here decides what is done. Thread: who holds the progress lock.
 */
struct contact {
        uint64_t epoch;
        uint64_t number;         /* in order of appearance */
        char *name, *url, *data; /* owned; NULL = not known */
        const char *no_shm; /* why the latest route to it does not take shared memory; NULL = none was looked for */
        const char *no_ucx; /* the same of the network transport; NULL = it was tried */
        struct peer *peers; /* utlist; its links */
        uint64_t n_completed, bytes;
        /* Transfers that are not the engine's: */
        const char *visits_by; /* what carried the latest; NULL = there was none */
        bool visits_accepted;  /* the peer began it */
        bool visits_chosen;
        size_t n_visits;                       /* that run */
        uint64_t visits_since_us, visited_us;  /* since when there were any at all; when one began or ended last */
        int error;                             /* why there is none: FERRY_E_*; 0 = it was closed for want of use */
        char detail[128];                      /* of error */
        uint64_t left_us;                      /* when the last one went */
        bool told_up;                          /* what the observer heard last */
        struct contact *prev, *next;           /* the engine's; in order of number */
        struct contact *left_prev, *left_next; /* those without a link; in order of left_us */
        UT_hash_handle hh;                     /* contacts_by_epoch */
};

/* The worker, new where it is not known; its strings are taken over where they are known. NULL: no memory. */
struct contact *contact_meet(struct engine *engine, const struct engine_peer *peer);
/* It says its name, unless that is known, from its metadata or its answer over HTTP. It may be NULL. */
void contact_name(struct contact *contact, const char *name);
/* The link leads to that worker. It may be NULL. */
void contact_join(struct contact *contact, struct peer *peer);
/* One of its links may have come up: whoever wants to know is told. It may be NULL. */
void contact_tell(struct engine *engine, struct contact *contact);
/* The link leads nowhere any more; error and detail say why, 0 = nothing is wrong. */
void contact_leave(struct peer *peer, int error, const char *detail);
/* No link to it could be made. It may be NULL. */
void contact_fail(struct engine *engine, struct contact *contact, int error, const char *detail);

/* An engine_visit with strings of its own. */
struct visit {
        struct engine_visit visit;
        struct engine_outcome outcome;
        char name[64], url[512];
};
/* For free(); NULL when memory is short. Any thread. */
struct visit *visit_new(const struct engine_visit *visit);
/* Takes it over. */
void contact_note(struct engine *engine, struct visit *visit);
/* A transfer of the engine's with that worker has ended. It may be NULL. */
void contact_count(struct contact *contact, const struct engine_outcome *outcome);

/* What engine_peers_page asks for, and gets. */
struct contacts_page {
        uint64_t cursor;
        struct engine_peer_view *views;
        size_t max, n;
};
void contacts_list(struct engine *engine, struct contacts_page *page);
/* Forgets all: the engine is being freed. */
void contacts_clear(struct engine *engine);

#endif
