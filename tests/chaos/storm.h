/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORM_H
#define TESTS_STORM_H

#include "steps.h"

/*
 * Transfers of random kinds, sizes and transports between workers to which everything happens. What holds whatever
 * happens is checked here: each operation of a worker that lives ends; what is COMPLETE has the right bytes, although
 * the source is overwritten as soon as its own side has ended; what has ended is quiet: a canary in its memory stays.
 *
 * One thread. Each region is mapped here, as any program of the user can map it.
 */

enum {
        STORM_WORKERS = 6,
        STORM_TRANSFERS = 24, /* at a time */
        STORM_SIZE_MAX = 8 << 20,
};

/* A worker's place: who lives there changes. */
struct place {
        struct worker w;
        unsigned life;      /* which one it is */
        uint64_t resume_ms; /* it is stopped until then; 0 = it runs */
};

enum storm_transport { STORM_SHM, STORM_TCP, STORM_HTTP, STORM_HTTPS, STORM_TRANSPORTS };

enum storm_side { STORM_SOURCE, STORM_TARGET };

/* One side of a transfer. */
struct storm_end {
        size_t place;
        unsigned life;
        char region[FERRY_ID_SIZE], operation[FERRY_ID_SIZE];
        uint8_t *memory; /* NULL = none */
        bool done;       /* terminal; or the worker does not live any more */
        bool forgotten;  /* deleted: nothing will be said of it */
        int status;      /* of one that is done; -1 = nobody can tell */
};

struct transfer {
        bool begun;
        uint64_t seed, size;
        bool read; /* the target's side is the active one */
        enum storm_transport transport;
        uint64_t begun_ms, quiet_until_ms; /* quiet_until_ms 0 = it runs */
        struct storm_end ends[2];
};

/* What the trial did. */
struct storm_sums {
        uint64_t operations, complete, failed, refused, bytes, canaries;
        uint64_t by_transport[STORM_TRANSPORTS]; /* complete ones */
};

struct storm {
        struct place places[STORM_WORKERS];
        struct transfer transfers[STORM_TRANSFERS];
        struct storm_sums sums;
        uint64_t random;
};

uint64_t storm_draw(struct storm *storm, uint64_t below);

/* Whether the worker of a place has TLS: every second one, so that the others' bytes go by plain HTTP. */
static inline bool place_has_tls(size_t number)
{
        return number % 2 == 0;
}

/* Whether requests can be made of it now. */
bool place_listens(const struct place *place);

/* One that does not run yet begins. */
void transfer_begin(struct storm *storm, struct transfer *transfer);
/* Looks how far it is, and checks what must hold. */
void transfer_look(struct storm *storm, struct transfer *transfer);
/* Somebody cancels one side of a transfer that runs, or deletes it. */
void storm_disturb(struct storm *storm, bool delete);
/* After the death of a worker: what it had is over. */
void storm_mourn(struct storm *storm, size_t place);

#endif
