/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_CREW_H
#define LOCAL_CREW_H

#include "pull.h"

/*
 * The threads that share large copies with the progress thread. They start with the first such copy, take pieces when
 * they run, so that a thread without a core holds nothing up, and report by the descriptor. All functions are for the
 * progress thread.
 */

enum { CREW_SHARE_MIN = 4 << 20 }; /* bytes of a pull that is worth waking threads */

struct crew;

/* 0 or -errno. */
int crew_new(unsigned n_threads, struct crew **ret_crew);
/* Waits for pieces under way. Takes NULL; returns NULL. */
struct crew *crew_free(struct crew *crew);
/* Readable when a thread has something to tell; -1 = there are no threads. crew_hear makes it quiet. */
int crew_fd(const struct crew *crew);
void crew_hear(struct crew *crew);

/* Offers a pull to the threads, if they are free and it is large. */
void crew_share(struct crew *crew, struct pull *pull);
/* Copies a piece of at most limit bytes on the calling thread. Its size; 0 = none is left. */
uint64_t crew_copy(struct crew *crew, struct pull *pull, uint64_t limit);

enum crew_verdict { CREW_MORE, CREW_WAITS, CREW_COPIED, CREW_REVOKED };
/* How far a pull is. COPIED, REVOKED: and nobody touches its memory any more. */
enum crew_verdict crew_look(struct crew *crew, const struct pull *pull, uint64_t *ret_copied);
/* Nobody touches the pull's memory afterwards. Waits for pieces under way. */
void crew_stop(struct crew *crew, struct pull *pull);

#endif
