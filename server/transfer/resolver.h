/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESOLVER_H
#define TRANSFER_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

struct engine;
struct resolution;

/*
 * Names of hosts to addresses, on threads that may wait for a name server: never the engine's, never an HTTP thread.
 * When one is there, the engine's commands hear of it (COMMAND_RESOLVED).
 */

/*
 * "host:port", "[v6]:port" without asking anybody. family: which to prefer, AF_INET or AF_INET6. 0; -EINVAL: no such
 * form; -EAGAIN: host is a name.
 */
int resolver_parse(const char *text, int family, struct sockaddr_storage *ret_address, socklen_t *ret_length);

/* Thread: who holds the progress lock. 0: it is under way, perhaps for somebody else; -ENOMEM, -EAGAIN (too many). */
int resolver_start(struct engine *engine, const char *text, int family);

/* Whether it is done: then *ret_length is 0 where the name has no address. */
bool resolver_result(const struct engine *engine, const char *text, struct sockaddr_storage *ret_address,
                     socklen_t *ret_length);

/* Forgets the results that all who waited have seen. Thread: who holds the progress lock. */
void resolver_sweep(struct engine *engine);
/* No thread will touch the engine any more. */
void resolver_stop(struct engine *engine);

#endif
