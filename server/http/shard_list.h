/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SHARD_LIST_H
#define HTTP_SHARD_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_connection;
struct http_shard;
struct shard_owner;

/* The shards of an HTTP thread, in the order of their start. Shards are only added. Belongs to the thread. */
struct shard_list {
        struct shard_owner *owner;
        int epoll_fd;      /* the thread's, borrowed; watches those of the shards */
        uint64_t first_id; /* event data of the first shard; the others count on from there */
        struct http_shard **shards;
        size_t n, capacity;
};

/* Starts one more. 0 or -errno. */
int shard_list_add(struct shard_list *list, bool tls);

/*
 * A shard with room, a new one if needed; NULL = none can be started. A shard with a replaced certificate takes no more
 * connections, and is renewed once it is empty.
 */
struct http_shard *shard_list_room(struct shard_list *list, bool tls);

/* Of the connections that may be ended to make room, the one that has done nothing the longest. NULL = none. */
struct http_connection *shard_list_victim(const struct shard_list *list);

/* Number of connections from the address. */
size_t shard_list_count(const struct shard_list *list, uint64_t key);

/* Ends the daemons and the connections, none of which may be suspended. The shards stay valid for shard_wake. */
void shard_list_stop(struct shard_list *list);
void shard_list_destroy(struct shard_list *list);

#endif
