/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_HTTP_H
#define MOVE_HTTP_H

#include <stddef.h>
#include <stdint.h>

struct easy_settings;
struct easy_thread;
struct engine_http_note;
struct engine_transfer;

/*
 * The mover of transfers over HTTP: ranges of the …/content of a peer's operation. content.h is its passive side.
 * Public functions: any thread.
 */
struct http_mover;

struct http_mover_config {
        const struct easy_settings *settings; /* borrowed until http_mover_stop */
        struct easy_thread *thread;           /* moves host memory; borrowed until http_mover_stop */
        /* A transfer begins, or has ended: for engine_note_http. NULL = nobody is told. */
        void (*note)(void *engine, const struct engine_http_note *note);
        void *engine;
        /* Transfers have started or ended: for operation_store_wake_waiters. NULL = nobody waits. */
        void (*wake_waiters)(void *operations);
        void *operations;
};

/* NULL: memory is short. */
struct http_mover *http_mover_new(const struct http_mover_config *config);

/* Ends running transfers with FERRY_E_CANCELLED, and its threads, the one of the config too. May be repeated. */
void http_mover_stop(struct http_mover *mover);

/* Stops it if need be. No transfer may be left, in either direction. Takes NULL; returns NULL. */
struct http_mover *http_mover_free(struct http_mover *mover);

/* ---- for struct engine_http; mover is a struct http_mover ---- */

/*
 * Moves a transfer: from or to the content of the peer's operation at spec->peer.url, which must be of an admitted
 * host. *spec and its strings are copied, its segments stay valid until ended; started, progress and ended run on a
 * thread of the mover, ended once for each 0. Else FERRY_E_INVALID_PARAMETER or FERRY_E_FORBIDDEN with a sentence, or
 * -errno.
 */
int http_mover_start(void *mover, const struct engine_transfer *spec, char *detail, size_t detail_size);

/*
 * Ends a transfer: ended(error = reason) follows at once, unless it has ended. Of an unknown id, the metadata may be
 * under way: asks who fetches, on the thread of the config, whether they are still wanted.
 */
void http_mover_cancel(void *mover, uint64_t id, int reason);

#endif
