/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_PROGRESS_LOCK_H
#define TRANSFER_PROGRESS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct command;
struct engine;

/*
 * Which thread may run the engine and call its transports: the one that holds the progress lock. That is the engine's
 * own, which lets go of it while it sleeps and whenever it spins; or the thread that starts a short transfer and would
 * have to wait for its end (inline progress). To hand a transfer of 4 KiB over and to hear of its end takes two changes
 * of thread, 10 to 40 us where cores are short; the transfer itself 5.
 *
 * Inline progress leaves things as it found them: when the engine's thread sleeps, everything that would wake it still
 * does.
 */

/* Any thread. */
void progress_lock(struct engine *engine);
void progress_unlock(struct engine *engine);
/* true when every transport is armed and its descriptor will tell of whatever comes now. Who holds the lock. */
bool progress_arm(struct engine *engine);
/* Adds a transport's descriptor to what wakes the engine's thread, once it is armed. 0 or -errno. */
int progress_watch(struct engine *engine, int fd);
/* Posts a START whose caller waits for the end; runs it on this thread, for a moment, when the lock is to be had. As
 * command_post. total: bytes of the transfer. Any thread that holds no lock. */
int progress_start_inline(struct engine *engine, const struct command *command, uint64_t id, uint64_t total);

#endif
