/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CREDENTIALS_H
#define HTTP_CREDENTIALS_H

#include <stdatomic.h>

#include "http/server.h"

/*
 * Our copy of the secrets, which http_server_reload replaces. Each HTTP thread holds the newest set that it has used,
 * and each libmicrohttpd daemon the certificate that it was started with. Counted references; any thread.
 */
struct http_credentials {
        struct http_secrets secrets; /* of one piece of memory, which is wiped at the end */
        atomic_uint references;
        size_t size;
        char text[];
};

/* 0 or -ENOMEM. */
int credentials_new(const struct http_secrets *secrets, struct http_credentials **ret_credentials);

struct http_credentials *credentials_ref(struct http_credentials *credentials);

/* Takes NULL; returns NULL. */
struct http_credentials *credentials_unref(struct http_credentials *credentials);

#endif
