/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_COPIES_H
#define MOVE_LOCAL_COPIES_H

#include "pull.h"

/*
 * The copies of mapped payloads: the progress thread takes their pieces, and for large ones helpers, threads of the
 * pool, do so as well. Each takes a piece when it runs, so that a helper without a core delays nothing but its piece.
 * All functions: the progress thread.
 */

enum { COPIES_SHARE_MIN = 4 << 20 }; /* bytes; shorter pulls are not worth waking threads */

struct copies;

/* notify: a helper has finished the last piece of a pull; on its thread, under a lock. 0 or -ENOMEM. */
int copies_new(unsigned helpers, void (*notify)(void *context), void *context, struct copies **ret_copies);
/* Waits for pieces under way. Takes NULL; returns NULL. */
struct copies *copies_free(struct copies *copies);

/* Offers a pull that has begun to the helpers, once, if it is large. */
void copies_share(struct copies *copies, struct pull *pull);
/*
 * Copies a piece of at most limit bytes, or one with a digest, on the calling thread. Returns its size; 0 = none is
 * left.
 */
uint64_t copies_copy(struct copies *copies, struct pull *pull, uint64_t limit);

enum copy_status { COPY_MORE, COPY_WAITS, COPY_COPIED, COPY_LEASE_ENDED, COPY_DIFFERS };
/*
 * The progress of a pull: *ret_copied bytes are in place, from the first one on. After COPY_COPIED, COPY_LEASE_ENDED
 * and COPY_DIFFERS no thread touches its memory.
 */
enum copy_status copies_status(struct copies *copies, const struct pull *pull, uint64_t *ret_copied);
/* Stops the pull: no thread touches its memory afterwards. Waits for pieces under way. */
void copies_stop(struct copies *copies, struct pull *pull);

#endif
