/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESOLVER_H
#define TRANSFER_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

struct allowlist;
struct engine;
struct resolution;

/* The address of a name. */
struct resolved {
        struct sockaddr_storage address;
        socklen_t length; /* 0 = not resolved */
        bool refused;     /* resolved, but --allow-peer does not admit the address */
};

/*
 * Resolves host names on threads of its own, since a name server may be slow, and posts COMMAND_RESOLVED to the engine.
 */

/*
 * Parses "host:port" or "[v6]:port" without a name server. family: the preferred one, AF_INET or AF_INET6. 0; -EINVAL:
 * not of this form; -EAGAIN: host is a name that must be resolved.
 */
int resolver_parse(const struct allowlist *allowlist, const char *text, int family, struct resolved *ret_resolved);

/* Thread: the holder of the progress lock. 0: started, or already running; -ENOMEM;
 * -EAGAIN (too many). */
int resolver_start(struct engine *engine, const char *text, int family);

/* The result. false: not collected yet. Thread: the holder of the progress lock. */
bool resolver_result(const struct engine *engine, const char *text, struct resolved *ret_resolved);

/*
 * Collects the results that are there, then frees those collected. Whoever waits for one asks in between; a name that
 * resolves meanwhile is collected by its own command. Thread: the holder of the progress lock.
 */
void resolver_collect(struct engine *engine);
void resolver_sweep(struct engine *engine);
/* After this no thread touches the engine. */
void resolver_stop(struct engine *engine);

#endif
