/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "local_internal.h"

/*
 * All pulls of the local transport. One begins when a message with a mapped payload arrives (pull_arrived) and the
 * engine wants its bytes (pulls_receive); pulls_copy() gives each pull of the list one piece in turn; it ends when all
 * is copied, the lease has ended, or it is given up, and FRAME_RELEASE tells the peer. The extents are resolved on
 * arrival, and hold their mappings until the end.
 *
 * Thread: the progress thread, but for pull_run(). While a task of the pool copies a pull (copying), the pull is only
 * given up: the task's end ends it.
 */

/* What the peer reads of the progress of its lease. */
static _Atomic uint64_t *copied_of(const struct pull *pull)
{
        return &pull->channel->page->copied[pull->slot];
}

/* Gives the lease back, and says how the bytes were copied. */
static void release(struct channel *channel, const struct pull *pull)
{
        channel->pulling[pull->slot] = false;
        atomic_store_explicit(copied_of(pull), 0, memory_order_relaxed); /* before the slot is granted again */
        channel_post_frame(channel,
                           FRAME_OF(FRAME_RELEASE, .slot = pull->slot, .number = pull->number,
                                    .gpu_path = (uint8_t)pull->gpu_path),
                           NULL);
}

/* Calls done, unless begin is still due. */
static void pull_end(struct pull *pull, enum message_result result)
{
        struct channel *channel = pull->channel;
        struct message *message = pull->message;
        struct local *local = channel_local(channel);

        DL_DELETE(local->pulls, pull);
        copies_stop(local->copies, pull);
        message->gpu_path = pull->gpu_path;
        release(channel, pull);
        pull_free(pull);
        if (message->begin)
                message_free(&local->base, message);
        else
                message_end(message, result);
}

/* Resolves the extents at once, since a later UNMAP may name their memory. NULL with *ret_wrong. */
static struct pull *pull_resolve(struct channel *channel, const struct frame *frame, const uint8_t *bytes,
                                 const char **ret_wrong)
{
        struct pull *pull = pull_new(frame->n, frame->id);
        uint64_t sum = 0;

        *ret_wrong = pull ? NULL : "out of memory";
        for (uint32_t i = 0; pull && i < frame->n && !*ret_wrong; i++) {
                struct pull_extent *to = &pull->extents[i];
                struct frame_extent from;

                memcpy(&from, bytes + i * sizeof(from), sizeof(from));
                to->offset = from.offset;
                to->size = from.size;
                to->mapping = mapping_get(channel, from.memory, from.offset, from.size);
                if (to->mapping) {
                        if (to->mapping->address)
                                to->address = to->mapping->address + from.offset;
                        to->space = to->mapping->space;
                        if (!pull->from_gpu)
                                pull->from_gpu = to->space;
                        pull->n++;
                }
                if (!to->mapping || __builtin_add_overflow(sum, from.size, &sum))
                        *ret_wrong = "it named memory that is not mapped";
        }
        if (pull && frame->id)
                memcpy(pull->digests, bytes + frame->n * sizeof(struct frame_extent), frame->id * sizeof(uint64_t));
        if (!*ret_wrong && sum != frame->size)
                *ret_wrong = "its extents are not as long as its payload";
        if (!*ret_wrong && channel->pulling[frame->slot])
                *ret_wrong = "it used a lease's slot twice";
        if (pull && *ret_wrong) {
                pull_free(pull);
                return NULL;
        }
        return pull;
}

struct pull *pull_arrived(struct channel *channel, const struct frame *frame, const uint8_t *bytes,
                          const char **ret_wrong)
{
        struct pull *pull = pull_resolve(channel, frame, bytes, ret_wrong);

        if (!pull)
                return NULL;
        pull->channel = channel;
        pull->length = frame->size;
        pull->lease = &channel->peer_page->leases[frame->slot];
        pull->number = frame->number;
        pull->slot = frame->slot;
        pull->gpu_path = (enum gpu_path)frame->gpu_path;
        channel->pulling[frame->slot] = true;
        return pull;
}

void pull_refuse(struct pull *pull)
{
        release(pull->channel, pull);
        pull_free(pull);
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

/* Calls begin. Whether the pull still exists. */
static bool pull_begin(struct pull *pull)
{
        if (!message_begin(pull->message)) {
                pull_end(pull, MESSAGE_CANCELLED);
                return false;
        }
        pull->message->begin = NULL;
        return true;
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

/* ---- pulls off the host, by the pool ---- */

static enum pool_verdict pull_run(struct pool_task *task)
{
        struct pull *pull = FERRY_CONTAINER_OF(task, struct pull, task);

        pull->copy_result = pull_copy(pull);
        return pull->copy_result > 0 ? POOL_MORE : POOL_DONE;
}

/* Ends a pull of which a copied piece differs from its digest. */
static void pull_end_differing(struct pull *pull)
{
        pull->message->copied = pull->stopped_at;
        pull_end(pull, MESSAGE_DIFFERS);
}

/* On the progress thread, after the task: ends the pull by what has become of the copy. */
static void pull_ran(struct pool_task *task)
{
        struct pull *pull = FERRY_CONTAINER_OF(task, struct pull, task);
        int r = pull->copy_result;

        pull->copying = false;
        pull->message->fault = r;
        if (r == 0)
                pull->message->copied = pull->length;
        if (pull->result != MESSAGE_OK)
                pull_end(pull, pull->result);
        else if (r == -EILSEQ)
                pull_end_differing(pull);
        else
                pull_end(pull, r == 0 ? MESSAGE_OK : r == -ESTALE ? MESSAGE_LEASE_ENDED : MESSAGE_FAULT);
}

/* Hands the copy of a pull off the host to the lane of its GPUs. */
static void pull_hand_over(struct local *local, struct pull *pull)
{
        enum gpu_path path = pull->from_gpu ? GPU_PATH_CUDA_IPC : message_gpu_path(pull->message, GPU_PATH_CUDA_COPY);

        if (path > pull->gpu_path)
                pull->gpu_path = path;
        pull->copying = true;
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
        if (pull->copying && !pool_remove(&pull->task)) {
                atomic_store(&pull->unwanted, true);
                pull->result = result;
                return;
        }
        pull->copying = false;
        pull_end(pull, result);
}

/* One step of one pull. Returns the bytes copied; *ret_did: whether anything was done. */
static uint64_t pull_step(struct local *local, struct pull *pull, uint64_t limit, bool *ret_did)
{
        uint64_t size, copied;

        if (!link_is_usable(&pull->channel->link))
                return 0;    /* the next progress() ends it */
        if (pull->copying) { /* its task ends it */
                tell_copied(pull, atomic_load(&pull->stepped));
                return 0;
        }
        if (!pull_begin(pull)) {
                *ret_did = true;
                return 0;
        }
        if (pull->off_host) {
                pull_hand_over(local, pull);
                *ret_did = true;
                return 0;
        }
        copies_share(local->copies, pull);
        size = copies_copy(local->copies, pull, limit);
        *ret_did |= size > 0;
        switch (copies_status(local->copies, pull, &copied)) {
        case COPY_COPIED:
                pull->message->copied = copied;
                pull_end(pull, MESSAGE_OK);
                *ret_did = true;
                break;
        case COPY_LEASE_ENDED:
                pull_end(pull, MESSAGE_LEASE_ENDED);
                *ret_did = true;
                break;
        case COPY_DIFFERS:
                pull_end_differing(pull);
                *ret_did = true;
                break;
        case COPY_MORE:
        case COPY_WAITS:
                tell_copied(pull, copied); /* may end it */
                break;
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

bool pulls_have_work(const struct local *local)
{
        const struct pull *pull;
        uint64_t copied;

        DL_FOREACH (local->pulls, pull)
                if (!pull->copying && copies_status(local->copies, pull, &copied) != COPY_WAITS)
                        return true;
        return false;
}

/* A pull of the channel (and transfer, if not NULL) that is not about to end. */
static struct pull *find(const struct channel *channel, const uint64_t *transfer)
{
        struct pull *pull;

        DL_FOREACH (channel_local(channel)->pulls, pull)
                if (pull->channel == channel && pull->result == MESSAGE_OK &&
                    (!transfer || pull->message->transfer == *transfer))
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
