/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SHARD_LIST_H
#define HTTP_SHARD_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_connection;
struct http_shard;
struct shard_owner;

/* The shards of an HTTP thread, in the order of their start; none goes before the thread does. Belongs to the thread.
 */
struct shard_list {
        struct shard_owner *owner;
        int epoll_fd;      /* borrowed; has the shards' own */
        uint64_t first_id; /* in the data of their events: that of the first, the others count on */
        struct http_shard **shards;
        size_t n, capacity;
};

/* Starts one more. 0 or -errno. */
int shard_list_add(struct shard_list *list, bool tls);

/*
 * A shard with room, a new one where there is none; NULL = not now. A shard with an old certificate takes no further
 * connection, and is renewed once it is empty.
 */
struct http_shard *shard_list_room(struct shard_list *list, bool tls);

/* The connection that has been idle the longest, and on which no request was trusted. NULL = none. */
struct http_connection *shard_list_idle_stranger(const struct shard_list *list);

/* How many of the connections come from the address. */
size_t shard_list_count(const struct shard_list *list, uint64_t key);

/* Ends the connections, none of which may be suspended, and the daemons. The shards stay valid for shard_wake. */
void shard_list_stop(struct shard_list *list);
void shard_list_destroy(struct shard_list *list);

#endif
