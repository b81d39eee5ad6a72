/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_COPY_POOL_H
#define LOCAL_COPY_POOL_H

#include "pull.h"

/*
 * Threads that help the progress thread with large copies. They start with the first such copy. Each takes a piece when
 * it runs, so that a thread without a core delays nothing. All functions: the progress thread.
 */

enum { COPY_POOL_SHARE_MIN = 4 << 20 }; /* bytes; shorter pulls are not worth waking threads */

struct copy_pool;

/* notify: a thread has finished its last piece; on its thread, under the pool's lock. 0 or -ENOMEM. */
int copy_pool_new(unsigned n_threads, void (*notify)(void *context), void *context, struct copy_pool **ret_pool);
/* Waits for pieces under way. Takes NULL; returns NULL. */
struct copy_pool *copy_pool_free(struct copy_pool *pool);

/* Offers a pull to the threads, if they are free and it is large. */
void copy_pool_share(struct copy_pool *pool, struct pull *pull);
/* Copies a piece of at most limit bytes on the calling thread. Returns its size; 0 = none is left. */
uint64_t copy_pool_copy(struct copy_pool *pool, struct pull *pull, uint64_t limit);

enum copy_status { COPY_MORE, COPY_WAITS, COPY_COPIED, COPY_LEASE_ENDED };
/* The progress of a pull. After COPY_COPIED and COPY_LEASE_ENDED no thread touches its memory. */
enum copy_status copy_pool_status(struct copy_pool *pool, const struct pull *pull, uint64_t *ret_copied);
/* Stops the pull: no thread touches its memory afterwards. Waits for pieces under way. */
void copy_pool_stop(struct copy_pool *pool, struct pull *pull);

#endif
