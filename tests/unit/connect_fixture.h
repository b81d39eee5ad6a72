/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONNECT_FIXTURE_H
#define CONNECT_FIXTURE_H

#include <pthread.h>

#include "move/engine.h"
#include "unit.h"

/* Two engines in one process; whatever the second is asked for, it grants. */

enum { CONNECT_MS = 1500, SIZE = 4096, LARGE = 4 << 20 };

/* The notices that an end was told: the latest, and how many. */
struct heard {
        struct engine_notice last;
        int n;
};

struct end {
        uint64_t epoch;
        const char *data_listen; /* NULL = any port; else the epoch stays as it is */
        const char *name;
        struct engine *engine;
        struct memory *registered;
        struct heard heard; /* the fixture's lock guards these two */
        int refuses;        /* error with which it answers notices */
        struct segment segment;
};

#define FALLBACK_URL "http://127.0.0.1:1"

struct world {
        struct end ends[2];
        pthread_mutex_t lock;
        pthread_cond_t changed;
        uint64_t started_us, ended_us;
        bool has_fallback;           /* what is started and asked has FALLBACK_URL */
        struct engine_notice notice; /* of those that are asked to connect; operation 0 = none */
        int connected, ended;        /* how often, and what was said last: */
        struct engine_connection connection;
        struct engine_outcome outcome;
};

/* Both ends with memory of that size, over the local transport, the network or both. Goes with the test. */
struct world *world_of(bool local, bool network, size_t size, const char *name);
struct world *world_new(bool local, bool network);
void end_start(struct end *end, bool local, bool network, size_t size);
void end_stop(struct end *end);
/* The address of its network transport. */
const char *data_of(const struct end *end);
/* Waits until so many connects and transfers of the world are over. */
void await(struct world *w, int connected, int ended);
/* Starts an engine_connect from the first end. */
void ask(struct world *w, uint64_t epoch, const char *data);
/* The same, to its end. */
void connect_to(struct world *w, uint64_t epoch, const char *data);
struct heard heard_by(const struct end *end);
/* Has it answer notices with an error from now on. */
void end_refuses(struct end *end, int error);
/* Starts to move all that the first end has. */
void start_move(struct world *w, enum engine_direction direction, const char *data);
/* The same to the second end, and to its end. */
void move(struct world *w, enum engine_direction direction);

#endif
