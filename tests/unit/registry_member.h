/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGISTRY_MEMBER_H
#define REGISTRY_MEMBER_H

#include "unit.h"

#include "etcd.h"
#include "peers/registry.h"

/* A real etcd, and members: each a registry with its peers' thread. */

enum { MEMBER_TTL_MS = 2000, MEMBERS_MAX = 100 };

struct member {
        struct registry *registry;
        struct peers *peers;
};

extern struct etcd etcd;
extern uint64_t member_ttl_ms;  /* of those that start from now on; MEMBER_TTL_MS at first */
extern const char *member_user; /* the same; NULL = none, as at first */

#define NEEDS_ETCD()                                                                                                   \
        do {                                                                                                           \
                if (!etcd.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

#define WITH_ETCD(name) TEST_WITH(name, member_setup, NULL)
int member_setup(void **state);
/* Before the first test and after the last: TEST_GROUP(members_setup, members_teardown). */
int members_setup(void **state);
int members_teardown(void **state);

void member_start_at(struct member *member, const char *url);
int member_join(struct member *member, const char *name, uint64_t epoch, char message[256]);
/* Until it is there: a worker whose registry is late, as on a busy machine, starts without it. */
void member_start(struct member *member, const char *name, uint64_t epoch);
/* As a process that is killed: nothing is revoked. */
void member_die(struct member *member);
void member_leave(struct member *member);
void await_status(struct member *member, enum registry_status status);

/* ---- looking up, as a call ---- */

struct found {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
        int error;
        char detail[256];
        size_t n;
        uint64_t cursor, revision;
        struct registry_entry entries[MEMBERS_MAX];
};

void find_begin(struct member *member, const struct registry_query *query, struct found *found);
void find_end(struct found *found);
void find(struct member *member, const struct registry_query *query, struct found *found);
/* The same until the registry answers in time. */
void find_answered(struct member *member, const struct registry_query *query, struct found *found);
/* The epoch that a name has; 0 = it is not there. */
uint64_t epoch_of(struct member *member, const char *name);
void await_epoch(struct member *member, const char *name, uint64_t epoch);

#endif
