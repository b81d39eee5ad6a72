/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CREDENTIALS_H
#define HTTP_CREDENTIALS_H

#include <pthread.h>
#include <stdatomic.h>

#include "http/server.h"

/*
 * A copy of the secrets, which http_server_reload replaces by a new one. Each HTTP thread has a reference to the newest
 * set that it has used, each libmicrohttpd daemon to the set it was started with. Any thread.
 */
struct http_credentials {
        struct http_secrets secrets; /* point into text, which is wiped at the end */
        atomic_uint references;
        size_t size;
        char text[];
};

/* The newest set. Own lock, a leaf. */
struct credentials_source {
        pthread_mutex_t lock;
        struct http_credentials *newest; /* lock; a reference */
        atomic_uint n_reloads;           /* counts the sets */
};

/* The set that a thread uses; the thread's own. */
struct credentials_cache {
        struct credentials_source *source;
        struct http_credentials *current; /* a reference; NULL = none yet */
        unsigned n_reloads;               /* of the source when it was taken */
};

/* 0 or -ENOMEM. */
int credentials_new(const struct http_secrets *secrets, struct http_credentials **ret_credentials);

struct http_credentials *credentials_ref(struct http_credentials *credentials);

/* Takes NULL; returns NULL. */
struct http_credentials *credentials_unref(struct http_credentials *credentials);

void credentials_source_init(struct credentials_source *source);
void credentials_source_destroy(struct credentials_source *source);

/* Makes credentials, whose reference it takes over, the newest. Any thread. */
void credentials_replace(struct credentials_source *source, struct http_credentials *credentials);

/* The newest set; valid until the next call. */
struct http_credentials *credentials_current(struct credentials_cache *cache);

/* Drops the reference. */
void credentials_forget(struct credentials_cache *cache);

#endif
