/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/util.h"
#include "local_internal.h"

/*
 * All pulls of the local transport. One begins when a message with a mapped payload arrives (pull_arrived) and the
 * engine wants its bytes (pulls_receive); pulls_copy() gives each pull of the list one piece in turn; it ends when all
 * is copied, the lease has ended, or it is given up, and FRAME_RELEASE tells the peer. The extents are resolved on
 * arrival, and hold their mappings until the end.
 *
 * Thread: the progress thread, but for copy_piece() and what calls it in the pool. While a task copies a pull
 * (PULL_IN_POOL), the pull is only given up: the task's end ends it. Lock: that of struct copies, held for a piece's
 * taking and finishing, not for its copying; a leaf.
 */

enum { COPIES_SHARE_MIN = 4 << 20 }; /* bytes; shorter pulls are not worth waking threads */

/* ---- pieces: taken by the progress thread and, of large pulls, by helpers ---- */

/*
 * A pull that is long enough is listed in shared, and a task of the pool, of as many threads as --copy-threads says,
 * takes pieces of the listed pulls in turn; it waits in the pool (POOL_WAITS) while none is listed. Each thread takes
 * a piece when it runs, so that a helper without a core delays nothing but its piece.
 */

void copies_init(struct copies *copies, unsigned helpers)
{
        (void)pthread_mutex_init(&copies->lock, NULL);
        (void)pthread_cond_init(&copies->idle, NULL);
        copies->n_helpers = helpers;
}

void copies_clear(struct copies *copies)
{
        pool_stop(&copies->help);
        (void)pthread_cond_destroy(&copies->idle);
        (void)pthread_mutex_destroy(&copies->lock);
}

/* Takes a pull off the list of shared ones. The lock is held, as in the next function. */
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

/* Copies a piece of one pull, or of a shared one (NULL). Returns its size; 0 = none is left. Any thread. */
static uint64_t copy_piece(struct local *local, struct pull *pull, uint64_t limit)
{
        struct copies *copies = &local->copies;
        struct piece piece;
        bool taken;
        int r;

        (void)pthread_mutex_lock(&copies->lock);
        taken = pull ? pull_take(pull, limit, &piece) : take_shared(copies, &piece);
        (void)pthread_mutex_unlock(&copies->lock);
        if (!taken)
                return 0;
        r = piece_copy(&piece);
        (void)pthread_mutex_lock(&copies->lock);
        pull_finish(&piece, r);
        if (!piece.pull->running)
                (void)pthread_cond_broadcast(&copies->idle);
        /* Not while pieces are left: then the progress thread is awake, and checks by itself. */
        if (!pull && pull_is_taken(piece.pull))
                (void)eventfd_write(local->copied_fd, 1);
        (void)pthread_mutex_unlock(&copies->lock);
        return piece.length;
}

/* A helper's turn: one piece, so that the pool can give its thread to something else in between. */
static enum pool_verdict help(struct pool_task *task)
{
        return copy_piece(FERRY_CONTAINER_OF(task, struct local, copies.help), NULL, 0) > 0 ? POOL_MORE : POOL_WAITS;
}

/* Offers a pull to the helpers, if it is large. */
static void share(struct local *local, struct pull *pull)
{
        struct copies *copies = &local->copies;

        if (copies->n_helpers == 0 || pull->length < COPIES_SHARE_MIN)
                return;
        (void)pthread_mutex_lock(&copies->lock);
        pull->is_shared = true;
        DL_APPEND2(copies->shared, pull, shared_prev, shared_next);
        (void)pthread_mutex_unlock(&copies->lock);
        if (copies->is_helped) {
                pool_retry(local->tasks);
                return;
        }
        copies->help = (struct pool_task){ .run = help, .class = POOL_COPY, .width = copies->n_helpers };
        copies->is_helped = pool_add(local->tasks, &copies->help);
}

enum copy_status { COPY_MORE, COPY_WAITS, COPY_OVER };

/* After COPY_OVER no thread touches the pull's memory. *ret_copied: bytes in place, from the first one on. */
static enum copy_status status_of(struct local *local, const struct pull *pull, uint64_t *ret_copied)
{
        enum copy_status status = COPY_MORE;

        (void)pthread_mutex_lock(&local->copies.lock);
        *ret_copied = pull->result == MESSAGE_OK ? pull_copied(pull) : 0;
        if (pull_is_taken(pull))
                status = pull->running ? COPY_WAITS : COPY_OVER;
        (void)pthread_mutex_unlock(&local->copies.lock);
        return status;
}

/* No further piece is taken. waits: for pieces under way, so that no thread touches the pull's memory afterwards. */
static void stop(struct copies *copies, struct pull *pull, enum message_result result, bool waits)
{
        (void)pthread_mutex_lock(&copies->lock);
        pull->result = result;
        pull->failed_at = 0;
        while (waits && pull->running)
                (void)pthread_cond_wait(&copies->idle, &copies->lock);
        (void)pthread_mutex_unlock(&copies->lock);
}

/* ---- from the arrival to the end ---- */

/* What the peer reads of the progress of its lease. */
static _Atomic uint64_t *copied_of(const struct pull *pull)
{
        return &pull->channel->page->copied[pull->slot];
}

/* Gives the lease back, says how the bytes were copied, and frees the pull. */
static void release(struct pull *pull)
{
        struct channel *channel = pull->channel;

        channel->pulling[pull->slot] = false;
        atomic_store_explicit(copied_of(pull), 0, memory_order_relaxed); /* before the slot is granted again */
        channel_post_frame(channel,
                           FRAME_OF(FRAME_RELEASE, .slot = pull->slot, .number = pull->number,
                                    .gpu_path = (uint8_t)pull->gpu_path),
                           NULL);
        pull_free(pull);
}

/* Calls done, unless begin is still due. No thread copies any more. */
static void pull_end(struct pull *pull)
{
        struct message *message = pull->message;
        struct local *local = channel_local(pull->channel);
        enum message_result result = pull->result;

        DL_DELETE(local->pulls, pull);
        (void)pthread_mutex_lock(&local->copies.lock);
        withdraw(&local->copies, pull);
        (void)pthread_mutex_unlock(&local->copies.lock);
        if (result == MESSAGE_OK || result == MESSAGE_DIFFERS)
                message->copied = result == MESSAGE_OK ? pull->length : pull->failed_at;
        message->gpu_path = pull->gpu_path;
        release(pull);
        if (message->begin)
                message_free(message);
        else
                message_end(message, result);
}

/* Resolves the extents at once, since a later UNMAP may name their memory. Returns NULL, or what is wrong with them. */
static const char *resolve(struct pull *pull, const struct frame *frame, const uint8_t *bytes)
{
        uint64_t sum = 0;

        for (; pull->n < frame->n; bytes += sizeof(struct frame_extent)) {
                struct frame_extent from;
                struct mapping *mapping;

                memcpy(&from, bytes, sizeof(from));
                mapping = mapping_get(pull->channel, from.memory, from.offset, from.size);
                if (!mapping)
                        return "it named memory that is not mapped";
                pull->extents[pull->n++] = (struct pull_extent){ mapping, from.offset, from.size };
                if (__builtin_add_overflow(sum, from.size, &sum))
                        return "it named memory that is not mapped";
                if (!pull->from_gpu)
                        pull->from_gpu = mapping->space;
        }
        if (frame->id)
                memcpy(pull->digests, bytes, frame->id * sizeof(uint64_t));
        if (sum != frame->size)
                return "its extents are not as long as its payload";
        return pull->channel->pulling[frame->slot] ? "it used a lease's slot twice" : NULL;
}

struct pull *pull_arrived(struct channel *channel, const struct frame *frame, const uint8_t *bytes,
                          const char **ret_wrong)
{
        struct pull *pull = pull_new(frame->n, frame->id);

        if (!pull)
                return NULL;
        pull->channel = channel;
        pull->length = frame->size;
        pull->lease = &channel->peer_page->leases[frame->slot];
        pull->number = frame->number;
        pull->slot = frame->slot;
        pull->gpu_path = (enum gpu_path)frame->gpu_path;
        *ret_wrong = resolve(pull, frame, bytes);
        if (*ret_wrong) {
                pull_free(pull);
                return NULL;
        }
        channel->pulling[frame->slot] = true;
        return pull;
}

void pull_refuse(struct pull *pull)
{
        release(pull);
}

void pulls_receive(struct link *link, struct message *message, struct payload *payload)
{
        struct local *local = channel_local(channel_of(link));
        struct pull *pull = payload->descriptor;

        assert(!payload->taken);
        message->link = link;
        payload->taken = true;
        if (payload->bytes) {
                stage_store_inline(local->staging, message, payload->bytes);
                return;
        }
        pull->message = message;
        pull->off_host = pull->from_gpu || message->stream->off_host;
        DL_APPEND(local->pulls, pull);
}

/* Publishes how far the copy is: to the peer in the link page, to the engine by piece_done(), which may end it. */
static void tell_copied(struct pull *pull, uint64_t copied)
{
        struct message *message = pull->message;

        if (copied <= message->copied)
                return;
        message->copied = copied;
        atomic_store_explicit(copied_of(pull), copied, memory_order_relaxed);
        if (message->piece_done)
                message->piece_done(message);
}

/* No other thread takes pieces of this pull. */
static enum pool_verdict pull_run(struct pool_task *task)
{
        struct pull *pull = FERRY_CONTAINER_OF(task, struct pull, task);

        (void)copy_piece(channel_local(pull->channel), pull, PULL_STEP);
        return pull_is_taken(pull) ? POOL_DONE : POOL_MORE;
}

/* On the progress thread, after the task. */
static void pull_ran(struct pool_task *task)
{
        pull_end(FERRY_CONTAINER_OF(task, struct pull, task));
}

/* Hands the copy of a pull off the host to the lane of its GPUs. */
static void hand_over(struct local *local, struct pull *pull)
{
        enum gpu_path path = pull->from_gpu ? GPU_PATH_CUDA_IPC : message_gpu_path(pull->message, GPU_PATH_CUDA_COPY);

        if (path > pull->gpu_path)
                pull->gpu_path = path;
        pull->state = PULL_IN_POOL;
        pull->task = (struct pool_task){
                .run = pull_run,
                .done = pull_ran,
                .class = POOL_WORK,
                .devices = pool_devices_of(stream_next_space(pull->message->stream, pull->message->offset),
                                           pull->from_gpu),
        };
        pool_add_or_run(local->tasks, &pull->task);
}

/* Ends the pull now or, if its task is running, after that. */
static void pull_give_up(struct pull *pull, enum message_result result)
{
        bool now = pull->state != PULL_IN_POOL || pool_remove(&pull->task);

        stop(&channel_local(pull->channel)->copies, pull, result, now);
        if (now)
                pull_end(pull);
}

/* Calls begin, and starts the copy. Whether the progress thread takes part in it. */
static bool pull_begin(struct local *local, struct pull *pull)
{
        if (!message_begin(pull->message)) {
                pull_give_up(pull, MESSAGE_CANCELLED);
                return false;
        }
        pull->message->begin = NULL;
        if (pull->off_host) {
                hand_over(local, pull);
                return false;
        }
        pull->state = PULL_COPYING;
        share(local, pull);
        return true;
}

/* One step of one pull. Returns the bytes copied; *ret_did: whether anything was done. */
static uint64_t pull_step(struct local *local, struct pull *pull, uint64_t limit, bool *ret_did)
{
        uint64_t size = 0, copied;
        enum copy_status status;

        if (!link_is_usable(&pull->channel->link))
                return 0; /* the next progress() ends it */
        if (pull->state == PULL_DUE) {
                *ret_did = true;
                if (!pull_begin(local, pull))
                        return 0;
        }
        if (pull->state == PULL_COPYING)
                size = copy_piece(local, pull, limit);
        status = status_of(local, pull, &copied);
        *ret_did |= size > 0;
        if (pull->state == PULL_COPYING && status == COPY_OVER) {
                *ret_did = true;
                pull_end(pull);
        } else {
                tell_copied(pull, copied); /* may end it */
        }
        return size;
}

bool pulls_copy(struct local *local)
{
        uint64_t limit = local->base.shared ? PULL_PIECE_SHARED : PULL_PIECE, copied;
        struct pull *pull;
        bool did = false;
        size_t n;

        DL_COUNT(local->pulls, pull, n);
        for (; n > 0 && limit > 0 && local->pulls; n--) {
                pull = local->pulls;
                DL_DELETE(local->pulls, pull); /* to the end of the list, after the others */
                DL_APPEND(local->pulls, pull);
                copied = pull_step(local, pull, limit, &did);
                limit -= copied < limit ? copied : limit; /* a piece with a digest is copied whole */
        }
        return did;
}

bool pulls_have_work(struct local *local)
{
        struct pull *pull;
        uint64_t copied;

        DL_FOREACH (local->pulls, pull)
                if (pull->state != PULL_IN_POOL && status_of(local, pull, &copied) != COPY_WAITS)
                        return true;
        return false;
}

/* A pull of the channel (and transfer, if not NULL) that is not about to end. */
static struct pull *find(const struct channel *channel, const uint64_t *transfer)
{
        struct pull *pull;

        DL_FOREACH (channel_local(channel)->pulls, pull)
                if (pull->channel == channel && (!transfer || pull->message->transfer == *transfer) &&
                    (pull->state != PULL_IN_POOL || pull->result == MESSAGE_OK))
                        return pull;
        return NULL;
}

void pulls_end(struct channel *channel, const uint64_t *transfer, enum message_result result)
{
        for (struct pull *pull; (pull = find(channel, transfer));)
                pull_give_up(pull, result);
}

bool pulls_are_idle(const struct channel *channel)
{
        const struct pull *pull;

        DL_SEARCH_SCALAR(channel_local(channel)->pulls, pull, channel, channel);
        return !pull && !channel->link.storing;
}
