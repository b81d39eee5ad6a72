/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/copy.h"
#include "base/pool.h"
#include "base/space.h"
#include "base/util.h"

/*
 * Pulls: see pull.h. Host memory is copied in pieces by any thread: a piece is taken under the lock of struct copies,
 * copied without it, and counts only if the lease is still valid after the copy. Memory off the host is copied in steps
 * by one task of the pool, which queues the copies of a step with the driver and then waits for the device once.
 */

struct pull *pull_new(size_t n, size_t digests)
{
        struct pull *pull = calloc(1, sizeof(*pull) + n * sizeof(pull->extents[0]) + digests * sizeof(uint64_t));

        if (pull && digests)
                pull->digests = (void *)(pull->extents + n);
        return pull;
}

void pull_free(struct pull *pull)
{
        for (size_t i = 0; i < pull->n; i++)
                mapping_put(pull->extents[i].mapping);
        free(pull);
}

/* Moves the place of the next piece on. */
static void advance(struct pull *pull, uint64_t length)
{
        pull->taken += length;
        pull->extent_offset += length;
        while (pull->extent < pull->n && pull->extent_offset >= pull->extents[pull->extent].size)
                pull->extent_offset -= pull->extents[pull->extent++].size;
}

bool pull_take(struct pull *pull, uint64_t limit, struct piece *ret_piece)
{
        uint64_t rest = pull->length - pull->taken, length = pull->digests ? FRAME_DIGEST_PIECE : limit;

        length = rest < length ? rest : length;
        if (pull->stopped || length == 0)
                return false;
        *ret_piece = (struct piece){ pull, pull->extent, pull->extent_offset, pull->taken, length, NULL, NULL };
        DL_APPEND(pull->running, ret_piece);
        advance(pull, length);
        return true;
}

void pull_finish(struct piece *piece, enum piece_result result)
{
        struct pull *pull = piece->pull;

        DL_DELETE(pull->running, piece);
        if (!result || (pull->stopped && pull->stopped_at <= piece->offset))
                return;
        pull->stopped = result;
        pull->stopped_at = piece->offset;
}

/*
 * Compares the bytes that are in place of a piece with its digest. Returns 0; -EILSEQ: they differ; -errno, which
 * cannot come of host memory.
 */
static int compare(const struct pull *pull, uint64_t offset, uint64_t length)
{
        const struct message *message = pull->message;
        uint64_t digest = 0;
        int r = stream_checksum(message->stream, message->offset + offset, length, &digest);

        return r < 0 || digest == pull->digests[offset / FRAME_DIGEST_PIECE] ? r : -EILSEQ;
}

__attribute__((noinline)) void local_copy(void *to, const void *from, size_t size, bool past_caches)
{
        if (past_caches)
                copy_past_caches(to, from, size);
        else
                memcpy(to, from, size);
}

/* Where the address space has no room for the peer's memory. Sealed, the file is long enough: 0 cannot come. */
static bool read_run(uint8_t *to, const struct pull_extent *from, uint64_t offset, uint64_t size)
{
        for (uint64_t done = 0; done < size;) {
                ssize_t n = pread(from->mapping->fd, to + done, size - done, (off_t)(from->offset + offset + done));

                if (n > 0)
                        done += (uint64_t)n;
                else if (n == 0 || errno != EINTR)
                        return false;
        }
        return true;
}

/* false: not everything could be read. */
static bool copy_runs(const struct piece *piece, bool past_caches)
{
        const struct pull_extent *extent = &piece->pull->extents[piece->extent];
        const struct message *message = piece->pull->message;
        uint64_t extent_offset = piece->extent_offset;

        for (uint64_t done = 0; done < piece->length;) {
                uint64_t run = piece->length - done;
                uint8_t *to;

                if (run > extent->size - extent_offset)
                        run = extent->size - extent_offset;
                run = stream_run(message->stream, message->offset + piece->offset + done, run, &to);
                if (extent->address)
                        local_copy(to, extent->address + extent_offset, run, past_caches);
                else if (!read_run(to, extent, extent_offset, run))
                        return false;
                done += run;
                extent_offset += run;
                if (extent_offset == extent->size) {
                        extent++;
                        extent_offset = 0;
                }
        }
        return true;
}

/* Queues the copies of a step without waiting for them. */
static int copy_off_host(struct pull *pull)
{
        const struct message *message = pull->message;
        uint64_t left = PULL_STEP;
        int r = 0;

        for (uint64_t run; left > 0 && pull->extent < pull->n && r == 0; left -= run) {
                const struct pull_extent *from = &pull->extents[pull->extent];
                uint64_t offset = message->offset + pull->taken;
                const struct space *space;
                struct memory *memory;
                uint8_t *to;

                if (atomic_load(&pull->unwanted))
                        return -ECANCELED;
                if (!from->address)
                        return -ENOMEM;
                run = from->size - pull->extent_offset;
                run = stream_run_in_segment(message->stream, offset, run < left ? run : left, &to, &memory);
                space = stream_space(message->stream, offset);
                if (from->space && !space)
                        gpu_pin_use(&memory->pin, from->space->device, run);
                else if (space_gpu(space) >= 0 && !from->space)
                        gpu_pin_use(&from->mapping->range, space->device, run);
                r = space_copy(space, to, from->space, from->address + pull->extent_offset, run);
                advance(pull, run);
        }
        return r;
}

int pull_copy(struct pull *pull)
{
        int r, finished;

        if (!lease_is_valid(pull->lease, pull->number))
                return -ESTALE;
        r = copy_off_host(pull);
        finished = stream_finish(pull->message->stream, pull->from_gpu);
        /* Only now has the device read all bytes. */
        if (!lease_was_valid(pull->lease, pull->number))
                return -ESTALE;
        if (r < 0 || finished < 0)
                return r < 0 ? r : finished;
        for (uint64_t at = pull->stepped, left; pull->digests && r == 0 && at < pull->taken; at += FRAME_DIGEST_PIECE) {
                left = pull->taken - at;
                pull->stopped_at = at;
                r = compare(pull, at, left < FRAME_DIGEST_PIECE ? left : FRAME_DIGEST_PIECE);
        }
        if (r < 0)
                return r;
        atomic_store(&pull->stepped, pull->taken);
        return pull->taken < pull->length;
}

enum piece_result piece_copy(const struct piece *piece)
{
        const struct pull *pull = piece->pull;
        bool past_caches = pull->message->stream->total >= PULL_PAST_CACHES && !pull->digests, copied;

        if (!lease_is_valid(pull->lease, pull->number))
                return PIECE_REVOKED;
        copied = copy_runs(piece, past_caches);
        if (past_caches)
                copy_past_caches_end();
        if (!copied || !lease_was_valid(pull->lease, pull->number))
                return PIECE_REVOKED;
        return pull->digests && compare(pull, piece->offset, piece->length) < 0 ? PIECE_DIFFERS : PIECE_COPIED;
}

/*
 * Copies: see pull.h. A pull that is long enough is listed in shared, and a task of the pool, of as many threads as
 * --copy-threads says, takes pieces of the listed pulls in turn; it waits in the pool (POOL_WAITS) while none is
 * listed. The progress thread takes pieces as well, so a pull moves on also if no helper gets a core.
 *
 * Lock: its own, held for a piece's taking and finishing, not for its copying; a leaf, but that notify() is called
 * under it. A pull stays until copies_stop() has waited for its last piece.
 */

struct copies {
        void (*notify)(void *context);
        void *context;
        unsigned n_helpers;
        struct pool_user *tasks;
        struct pool_task help; /* waits while no pull is shared. The progress thread's */
        bool is_helped;        /* help was added */
        pthread_mutex_t lock;  /* guards what follows, and the second part of each pull */
        pthread_cond_t idle;   /* a pull's running became 0 */
        struct pull *shared;   /* utlist; pulls whose pieces helpers take, in turn */
};

int copies_new(unsigned helpers, void (*notify)(void *context), void *context, struct copies **ret_copies)
{
        struct copies *copies = calloc(1, sizeof(*copies));
        int r = copies ? pool_user_new(NULL, NULL, &copies->tasks) : -ENOMEM;

        if (r < 0) {
                free(copies);
                return r;
        }
        copies->n_helpers = helpers;
        copies->notify = notify;
        copies->context = context;
        (void)pthread_mutex_init(&copies->lock, NULL);
        (void)pthread_cond_init(&copies->idle, NULL);
        *ret_copies = copies;
        return 0;
}

struct copies *copies_free(struct copies *copies)
{
        if (!copies)
                return NULL;
        pool_stop(&copies->help);
        pool_user_free(copies->tasks);
        (void)pthread_cond_destroy(&copies->idle);
        (void)pthread_mutex_destroy(&copies->lock);
        free(copies);
        return NULL;
}

/* Takes a pull off the list of shared ones. The lock is held, as in the next three functions. */
static void withdraw(struct copies *copies, struct pull *pull)
{
        if (!pull->is_shared)
                return;
        DL_DELETE2(copies->shared, pull, shared_prev, shared_next);
        pull->is_shared = false;
}

/* Takes a piece of each shared pull in turn. */
static bool take_shared(struct copies *copies, struct piece *ret_piece)
{
        struct pull *pull;

        while ((pull = copies->shared)) {
                if (pull_take(pull, PULL_PIECE, ret_piece)) {
                        DL_DELETE2(copies->shared, pull, shared_prev, shared_next);
                        DL_APPEND2(copies->shared, pull, shared_prev, shared_next);
                        return true;
                }
                withdraw(copies, pull);
        }
        return false;
}

/* Whether no piece is left to be taken. */
static bool is_taken(const struct pull *pull)
{
        return pull->stopped || pull->taken == pull->length;
}

/* Without the lock: copies a piece of one pull, or of a shared one (NULL). Returns its size; 0 = none is left. */
static uint64_t copy_piece(struct copies *copies, struct pull *pull, uint64_t limit)
{
        struct piece piece;
        enum piece_result result;
        bool taken;

        (void)pthread_mutex_lock(&copies->lock);
        taken = pull ? pull_take(pull, limit, &piece) : take_shared(copies, &piece);
        (void)pthread_mutex_unlock(&copies->lock);
        if (!taken)
                return 0;
        result = piece_copy(&piece);
        (void)pthread_mutex_lock(&copies->lock);
        pull_finish(&piece, result);
        if (!piece.pull->running)
                (void)pthread_cond_broadcast(&copies->idle);
        /* Not while pieces are left: then the progress thread is awake, and checks by itself. */
        if (!pull && is_taken(piece.pull))
                copies->notify(copies->context);
        (void)pthread_mutex_unlock(&copies->lock);
        return piece.length;
}

/* A helper's turn: one piece, so that the pool can give its thread to something else in between. */
static enum pool_verdict help(struct pool_task *task)
{
        return copy_piece(FERRY_CONTAINER_OF(task, struct copies, help), NULL, 0) > 0 ? POOL_MORE : POOL_WAITS;
}

void copies_share(struct copies *copies, struct pull *pull)
{
        if (copies->n_helpers == 0 || pull->was_shared || pull->length < COPIES_SHARE_MIN)
                return;
        pull->was_shared = true;
        (void)pthread_mutex_lock(&copies->lock);
        if (!is_taken(pull)) {
                pull->is_shared = true;
                DL_APPEND2(copies->shared, pull, shared_prev, shared_next);
        }
        (void)pthread_mutex_unlock(&copies->lock);
        if (copies->is_helped) {
                pool_retry(copies->tasks);
                return;
        }
        copies->help = (struct pool_task){ .run = help, .class = POOL_COPY, .width = copies->n_helpers };
        copies->is_helped = pool_add(copies->tasks, &copies->help);
}

uint64_t copies_copy(struct copies *copies, struct pull *pull, uint64_t limit)
{
        return copy_piece(copies, pull, limit);
}

enum copy_status copies_status(struct copies *copies, const struct pull *pull, uint64_t *ret_copied)
{
        enum copy_status status = COPY_MORE;

        (void)pthread_mutex_lock(&copies->lock);
        *ret_copied = pull->stopped ? 0 : pull_copied(pull);
        if (pull->running && is_taken(pull))
                status = COPY_WAITS;
        else if (pull->stopped)
                status = pull->stopped == PIECE_DIFFERS ? COPY_DIFFERS : COPY_LEASE_ENDED;
        else if (pull->taken == pull->length)
                status = COPY_COPIED;
        (void)pthread_mutex_unlock(&copies->lock);
        return status;
}

void copies_stop(struct copies *copies, struct pull *pull)
{
        (void)pthread_mutex_lock(&copies->lock);
        pull->stopped = PIECE_REVOKED;
        withdraw(copies, pull);
        while (pull->running)
                (void)pthread_cond_wait(&copies->idle, &copies->lock);
        (void)pthread_mutex_unlock(&copies->lock);
}
