/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ALLOWLIST_H
#define BASE_ALLOWLIST_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

/* The hosts that this worker may talk to, over HTTP or UCX (--allow-peer). Never changes after allowlist_new; any
 * thread. */

struct allowlist;

/* entries: HOST or CIDR. n == 0: loopback, or no host at all when nobody is true. 0; -EINVAL (logged); -ENOMEM. */
int allowlist_new(const char *const *entries, size_t n, bool nobody, struct allowlist **ret_allowlist);
struct allowlist *allowlist_free(struct allowlist *allowlist);

/*
 * Whether the host may be talked to: a name, or an IP literal with or without brackets and zone. A name is allowed when
 * it is listed; "localhost" also when loopback is.
 */
bool allowlist_admits(const struct allowlist *allowlist, const char *host);

/* Whether the host is a listed name. The addresses to which such a name resolves are allowed, too. */
bool allowlist_names(const struct allowlist *allowlist, const char *host);

/* Whether a socket may connect to the address. */
bool allowlist_admits_address(const struct allowlist *allowlist, const struct sockaddr *address);

#endif
