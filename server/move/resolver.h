/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_RESOLVER_H
#define MOVE_RESOLVER_H

#include <netdb.h>
#include <sys/socket.h>

struct allowlist;
struct engine;
struct resolution;

/* The address of a name. */
struct resolved {
        struct sockaddr_storage address;
        socklen_t length; /* 0 = not resolved */
};

/*
 * Resolves host names on threads of the pool, since a name server may be slow, and posts COMMAND_RESOLVED to the
 * engine. Thread: the holder of the progress lock, but any for resolver_parse.
 */

/*
 * Parses "host:port" or "[v6]:port" without a name server. family: the preferred one, AF_INET or AF_INET6. 0; -EINVAL:
 * not of this form; -EACCES: --allow-peer does not admit the address or the name; -ENOENT: a name, to be resolved.
 */
int resolver_parse(const struct allowlist *allowlist, const char *text, int family, struct resolved *ret_resolved);

/*
 * Parses, and resolves a name. -EINPROGRESS: ask again at the next COMMAND_RESOLVED; -ENOENT: it cannot be resolved;
 * -EAGAIN: too many are being resolved, or there is no thread; -ENOMEM.
 */
int resolver_ask(struct engine *engine, const char *text, int family, struct resolved *ret_resolved);

/* COMMAND_RESOLVED has come: whoever asks before the end of it gets the result. */
void resolution_begin(struct resolution *resolution);
void resolution_end(struct engine *engine, struct resolution *resolution);
/* After this no thread touches the engine. */
void resolver_stop(struct engine *engine);

#endif
