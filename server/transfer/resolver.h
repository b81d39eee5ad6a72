/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESOLVER_H
#define TRANSFER_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

struct allowlist;
struct engine;
struct resolution;

/* Where a name leads. */
struct resolved {
        struct sockaddr_storage address;
        socklen_t length; /* 0 = nowhere */
        bool refused;     /* it leads somewhere, but not where this worker may connect (--allow-peer) */
};

/*
 * Names of hosts to addresses, on threads that may wait for a name server: never the engine's, never an HTTP thread.
 * When one is there, the engine's commands hear of it (COMMAND_RESOLVED).
 */

/*
 * "host:port", "[v6]:port" without asking anybody. family: which to prefer, AF_INET or AF_INET6. 0; -EINVAL: no such
 * form; -EAGAIN: host is a name that may be asked for.
 */
int resolver_parse(const struct allowlist *allowlist, const char *text, int family, struct resolved *ret_resolved);

/* Thread: who holds the progress lock. 0: it is under way, perhaps for somebody else; -ENOMEM, -EAGAIN (too many). */
int resolver_start(struct engine *engine, const char *text, int family);

/* Whether it is done. */
bool resolver_result(const struct engine *engine, const char *text, struct resolved *ret_resolved);

/* Forgets the results that all who waited have seen. Thread: who holds the progress lock. */
void resolver_sweep(struct engine *engine);
/* No thread will touch the engine any more. */
void resolver_stop(struct engine *engine);

#endif
