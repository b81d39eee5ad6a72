/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ADMISSION_H
#define BASE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

/* Which hosts this worker may talk to, over HTTP or UCX. Never changes after admission_new; any thread. */

struct admission;

/* entries: HOST or CIDR, n 0 = loopback, or no host at all when nobody. 0; -EINVAL (logged); -ENOMEM. */
int admission_new(const char *const *entries, size_t n, bool nobody, struct admission **ret_admission);
struct admission *admission_free(struct admission *admission);

/*
 * A name or an IP literal, the latter with or without brackets and zone. A name is admitted when it is listed, or is
 * "localhost" while loopback is.
 */
bool admission_host(const struct admission *admission, const char *host);

/* Whether the host is a name that was listed: whoever listed it trusts what it resolves to. */
bool admission_name(const struct admission *admission, const char *host);

/* An address that a socket is about to connect to. */
bool admission_address(const struct admission *admission, const struct sockaddr *address);

#endif
