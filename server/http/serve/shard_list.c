/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include <ferry/buffer.h>

#include "base/util.h"

/*
 * The shards of an HTTP thread. A connection goes to the first one with room, so that the others fall empty, which
 * costs a descriptor each. A shard's certificate is fixed when its daemon starts: after a reload it takes no more
 * connections, and is renewed once it is empty. Thread: the HTTP thread's.
 */

/* Adds the shard's descriptor to those of the thread. Returns 0 or -errno. */
static int watch(const struct shard_list *list, const struct http_shard *shard)
{
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = list->first_id + shard->place };

        return epoll_ctl(list->epoll_fd, EPOLL_CTL_ADD, shard_epoll_fd(shard), &event) < 0 ? -errno : 0;
}

int shard_list_add(struct shard_list *list, bool tls)
{
        struct http_shard **shards =
                ferry_reserve(list->shards, &list->capacity, list->n + 1, sizeof(struct http_shard *));
        struct http_shard *shard;

        if (!shards)
                return -ENOMEM;
        list->shards = shards;
        int error = shard_new(list->owner, tls, &shard);
        if (error)
                return error;
        shard->place = list->n;
        error = watch(list, shard);
        if (error) {
                shard_free(shard);
                return error;
        }
        list->shards[list->n++] = shard;
        return 0;
}

struct http_shard *shard_list_room(struct shard_list *list, bool tls)
{
        const struct http_credentials *newest = credentials_current(&list->owner->credentials);

        for (size_t i = 0; i < list->n; i++) {
                struct http_shard *shard = list->shards[i];
                if (shard->tls != tls || shard->n_connections >= SHARD_CONNECTIONS)
                        continue;
                if (!tls || shard->credentials == newest)
                        return shard;
                if (shard->n_connections || shard_renew(shard))
                        continue;
                if (!watch(list, shard))
                        return shard;
                shard->credentials = credentials_unref(shard->credentials); /* renewed again before it is used */
        }
        return shard_list_add(list, tls) ? NULL : list->shards[list->n - 1];
}

struct http_connection *shard_list_victim(const struct shard_list *list)
{
        struct credentials_cache *cache = &list->owner->credentials;
        const unsigned trust = credentials_current(cache)->secrets.token ? cache->n_reloads : 0;
        struct http_connection *oldest = NULL;

        for (size_t i = 0; i < list->n; i++) {
                struct http_connection *connection = list->shards[i]->open;
                for (; connection; connection = connection->next)
                        if (connection_gives_way(connection, trust) &&
                            (!oldest || connection->since_us < oldest->since_us))
                                oldest = connection;
        }
        return oldest;
}

size_t shard_list_count(const struct shard_list *list, uint64_t key)
{
        size_t n = 0;

        for (size_t i = 0; i < list->n; i++) {
                const struct http_connection *connection = list->shards[i]->open;
                for (; connection; connection = connection->next)
                        n += connection->key == key && !connection->ending;
        }
        return n;
}

void shard_list_stop(struct shard_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                shard_stop(list->shards[i]);
}

void shard_list_destroy(struct shard_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                shard_free(list->shards[i]);
        free(list->shards);
}
