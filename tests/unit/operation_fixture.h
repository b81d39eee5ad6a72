/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATION_FIXTURE_H
#define OPERATION_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/util.h"
#include "memory/region.h"
#include "operations/operations.h"

#include "unit.h"

/* A store on a real loop and real regions, and a data plane that does only what the test says. */

enum { REGION_SIZE = 65536, EPOCH = 0x1111 };

/* What the store asked of the data plane. */
struct fake_data_plane {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct engine_transfer transfer; /* the last started */
        unsigned n_started;
        int start_result;
        const struct engine_outcome *end_in_start; /* ended comes before transfer_start returns */
        struct operation *cancel_in_start;         /* somebody cancels this meanwhile */
        bool started_in_start;                     /* started comes after that, and before transfer_start returns */
        unsigned n_cancelled;
        uint64_t cancelled;
        int cancel_reason;
        unsigned n_revoked;
        uint64_t revoked;
        int revoke_reason, revoke_wire;
        unsigned n_looks;
};

struct fixture {
        struct loop *loop;
        struct metrics *metrics;
        struct region_table *regions;
        struct region *region, *other;
        struct operation_store *store;
        struct fake_data_plane data_plane;
        struct operation_observer observer; /* of the next store (fixture_limits) */
        char detail[OPERATION_DETAIL_SIZE]; /* of the last operation_create */
};

/* Long enough that no deadline is met by accident. */
extern const struct operation_limits default_limits;

int fixture_setup(void **state); /* with default_limits */
int fixture_teardown(void **state);
#define WITH_STORE(name) TEST_OF(struct fixture *f, name, fixture_setup, fixture_teardown)

/* The store anew, with other limits. */
void fixture_limits(struct fixture *f, const struct operation_limits *limits);

/* The reference is the test's, which gives it back in its end (test_release: now). */
struct operation *make(struct fixture *f, enum ferry_kind kind);                      /* one slice of 4096 bytes */
struct operation *make_readers(struct fixture *f, uint32_t readers, uint64_t ttl_ms); /* readable */
int make_spec(struct fixture *f, const struct operation_spec *spec, struct operation **ret_operation);

struct operation_view look(struct fixture *f, struct operation *operation);
struct ferry_metadata *metadata_of(struct fixture *f, struct operation *operation);

/* The first request of the rightful peer. */
struct engine_claim_request request_for(struct fixture *f, struct operation *operation);
int claim(struct fixture *f, struct operation *operation, struct engine_claim *ret_claim);

/* As the worker of a peer would describe itself: 4096 bytes in one descriptor. */
struct ferry_metadata *peer_metadata(enum ferry_kind active);
void begin(struct fixture *f, struct operation *operation);

void end(struct fixture *f, void (*ended)(void *, const struct engine_outcome *), void *context, int error,
         uint64_t bytes);
void end_claim(struct fixture *f, const struct engine_claim *granted, int error);
void end_transfer(struct fixture *f, int error);

/* The value of a series in the text that Prometheus reads; -1 when it is not there. */
long series_value(struct fixture *f, const char *series);

/* Blocks until the operation is done or its revision passed that. */
void await(struct fixture *f, struct operation *operation, uint64_t revision);
void await_revokes(struct fixture *f, unsigned n);
void await_cancels(struct fixture *f, unsigned n);

/* Blocks until the loop has run everything that was due at that time. */
void await_loop(struct fixture *f, uint64_t at_us);

#endif
