/* SPDX-License-Identifier: Apache-2.0 */
#include "http_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

int credentials_new(const struct http_secrets *secrets, struct http_credentials **ret_credentials)
{
        struct http_secrets kept = *secrets;
        const char **const all[] = { &kept.token,    &kept.peer_token, &kept.metrics_token,
                                     &kept.tls_cert, &kept.tls_key,    &kept.tls_client_ca };
        struct http_credentials *credentials;
        size_t size = 0;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(all); i++)
                size += *all[i] ? strlen(*all[i]) + 1 : 0;
        credentials = calloc(1, sizeof(*credentials) + size);
        if (!credentials)
                return -ENOMEM;
        char *end = credentials->text;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(all); i++) {
                const char *given = *all[i];
                if (!given)
                        continue;
                *all[i] = end;
                end = stpcpy(end, given) + 1;
        }
        credentials->secrets = kept;
        credentials->size = size;
        atomic_init(&credentials->references, 1);
        *ret_credentials = credentials;
        return 0;
}

struct http_credentials *credentials_ref(struct http_credentials *credentials)
{
        atomic_fetch_add(&credentials->references, 1);
        return credentials;
}

struct http_credentials *credentials_unref(struct http_credentials *credentials)
{
        if (!credentials || atomic_fetch_sub(&credentials->references, 1) != 1)
                return NULL;
        explicit_bzero(credentials->text, credentials->size);
        free(credentials);
        return NULL;
}

void credentials_source_init(struct credentials_source *source)
{
        *source = (struct credentials_source){ .newest = NULL };
        (void)pthread_mutex_init(&source->lock, NULL);
}

void credentials_source_destroy(struct credentials_source *source)
{
        credentials_unref(source->newest);
        pthread_mutex_destroy(&source->lock);
}

void credentials_replace(struct credentials_source *source, struct http_credentials *credentials)
{
        pthread_mutex_lock(&source->lock);
        struct http_credentials *replaced = source->newest;
        source->newest = credentials;
        atomic_fetch_add(&source->n_reloads, 1);
        pthread_mutex_unlock(&source->lock);
        credentials_unref(replaced);
}

struct http_credentials *credentials_current(struct credentials_cache *cache)
{
        struct credentials_source *source = cache->source;

        if (cache->current && atomic_load(&source->n_reloads) == cache->n_reloads)
                return cache->current;
        pthread_mutex_lock(&source->lock);
        struct http_credentials *replaced = cache->current;
        cache->current = credentials_ref(source->newest);
        cache->n_reloads = atomic_load(&source->n_reloads);
        pthread_mutex_unlock(&source->lock);
        credentials_unref(replaced);
        return cache->current;
}

void credentials_forget(struct credentials_cache *cache)
{
        cache->current = credentials_unref(cache->current);
}
