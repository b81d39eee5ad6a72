/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_PROGRESS_LOCK_H
#define TRANSFER_PROGRESS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct command;
struct engine;

/*
 * The holder of the progress lock may run the engine and call its transports. It is the engine's own thread, which
 * releases the lock while it sleeps and after rounds in which nothing moved; or a thread that starts a short transfer
 * and would have to wait for its end (inline progress). Handing a transfer of 4 KiB over and waiting for its end takes
 * two thread switches, 10 to 40 us where cores are short; the transfer itself takes 5 us.
 *
 * After inline progress, whatever would have woken the sleeping engine's thread still does.
 */

/* Any thread. */
void progress_lock(struct engine *engine);
void progress_unlock(struct engine *engine);
/* Arms every transport. true: all are armed. Thread: the holder of the progress lock. */
bool progress_arm(struct engine *engine);
/* Adds a transport's descriptor to those that wake the engine's thread. 0 or -errno. */
int progress_watch(struct engine *engine, int fd);
/* As command_post, for a START whose caller waits for the end: runs inline for a moment if the lock is free. total:
 * bytes of the transfer. Any thread that holds no lock. */
int progress_start_inline(struct engine *engine, const struct command *command, uint64_t id, uint64_t total);

#endif
