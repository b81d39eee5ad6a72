/* SPDX-License-Identifier: Apache-2.0 */
#include "message/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/space.h"
#include "base/util.h"

/*
 * Staging: see staging.h. A stage is made for one message, its task runs on a thread of the pool, and the progress
 * thread ends the message afterwards (pool_collect calls stage_done). Pinned buffers are kept, since the driver may
 * take long to make one; their sizes are BUFFER_MIN times a power of two, so that a buffer serves payloads of many
 * lengths.
 *
 * Thread: the progress thread, but for stage_task(), make_run() and buffer_free(), which the pool runs. A stage that is
 * running belongs to its task, apart from running, result and digested; no lock is needed, since the pool hands it
 * over.
 */

enum { BUFFER_MIN = 256 << 10, ALIGNMENT = 4096 };

struct staging_buffer {
        uint8_t *bytes;
        size_t size;
        unsigned gpu; /* 1 + the one that it was made for, any may use it; 0 = none: not pinned, for host bytes alone */
        struct staging_buffer *prev, *next;
};

/*
 * What one GPU has, or no GPU: host bytes behind the last GPU of a list. Makes its buffers on its own thread, one at a
 * time, because the driver may wait for the GPU.
 */
struct staging_gpu {
        struct staging *staging;
        uint64_t used;     /* bytes of buffers in use */
        uint64_t ordinary; /* bytes in use of ordinary memory, in place of a buffer */
        struct pool_task task;
        struct staging_buffer *made; /* by the task; NULL = it does not run */
        bool failed;                 /* the last one could not be made: messages take ordinary memory */
};

struct staging {
        struct pool_user *tasks;
        unsigned width;
        void (*room)(void *context);
        void *context;
        struct staging_buffer *idle;          /* utlist */
        uint64_t bytes;                       /* of all buffers */
        uint64_t used;                        /* of those in use */
        bool wanted;                          /* room() must be called */
        struct staging_gpu gpus[1 + GPU_MAX]; /* the first: of no GPU */
};

/* ---- buffers ---- */

/* Any thread. */
static void buffer_free(void *context)
{
        struct staging_buffer *buffer = context;

        if (buffer->gpu)
                gpu_host_free(buffer->gpu - 1, buffer->bytes);
        else
                free(buffer->bytes);
        free(buffer);
}

/* On a thread of the GPU's lane, which the driver may hold up. */
static enum pool_verdict make_run(struct pool_task *task)
{
        struct staging_buffer *buffer = FERRY_CONTAINER_OF(task, struct staging_gpu, task)->made;

        buffer->bytes =
                buffer->gpu ? gpu_host_new(buffer->gpu - 1, buffer->size) : aligned_alloc(ALIGNMENT, buffer->size);
        return POOL_DONE;
}

/* Has the transport ask again, if it has asked in vain since the last time. */
static void tell_room(struct staging *staging)
{
        if (!staging->wanted)
                return;
        staging->wanted = false;
        staging->room(staging->context);
}

/* The buffer is there, or could not be made: then messages of this GPU go through ordinary memory until one has. */
static void make_done(struct pool_task *task)
{
        struct staging_gpu *gpu = FERRY_CONTAINER_OF(task, struct staging_gpu, task);
        struct staging_buffer *buffer = gpu->made;

        gpu->made = NULL;
        gpu->failed = !buffer->bytes;
        if (gpu->failed) {
                gpu->staging->bytes -= buffer->size;
                free(buffer);
        } else {
                DL_APPEND(gpu->staging->idle, buffer);
        }
        tell_room(gpu->staging);
}

/* The size of the buffer for a payload of so many bytes. */
static size_t size_for(uint64_t length)
{
        size_t size = BUFFER_MIN;

        while (size < length)
                size *= 2;
        return size;
}

/*
 * Starts to make a buffer. Idle buffers, perhaps of other GPUs, go first where STAGING_BYTES would be exceeded; a GPU
 * that uses none gets one even beyond that. Sets failed when memory is short.
 */
static void make(struct staging *staging, struct staging_gpu *gpu, size_t size)
{
        uint64_t busy = staging->bytes;
        struct staging_buffer *buffer, *old;

        DL_FOREACH (staging->idle, old)
                busy -= old->size;
        if (gpu->used > 0 && busy + size > STAGING_BYTES)
                return; /* another GPU's is being made */
        while (staging->bytes + size > STAGING_BYTES && (old = staging->idle)) {
                DL_DELETE(staging->idle, old);
                staging->bytes -= old->size;
                pool_run(staging->tasks, POOL_WORK, (struct pool_devices){ .one = old->gpu }, buffer_free, old);
        }
        buffer = calloc(1, sizeof(*buffer));
        gpu->failed = !buffer;
        if (!buffer)
                return;
        buffer->size = size;
        buffer->gpu = (unsigned)(gpu - staging->gpus);
        staging->bytes += size;
        gpu->made = buffer;
        gpu->task = (struct pool_task){
                .run = make_run, .done = make_done, .class = POOL_WORK, .devices.one = buffer->gpu
        };
        pool_add_or_run(staging->tasks, &gpu->task);
}

/* The smallest idle buffer that takes the payload; NULL = none. Bytes of a GPU need a pinned one. */
static struct staging_buffer *find(const struct staging_gpu *gpu, uint64_t length)
{
        const bool on_host = gpu == gpu->staging->gpus;
        struct staging_buffer *buffer, *best = NULL;

        DL_FOREACH (gpu->staging->idle, buffer)
                if (buffer->size >= length && (buffer->gpu || on_host) && (!best || buffer->size < best->size))
                        best = buffer;
        return best;
}

/* A GPU may use as much as it leaves to the others, and one buffer always: one that stands still gets half at most. */
static bool may_use(const struct staging_gpu *gpu, size_t size)
{
        return gpu->used == 0 || gpu->used + size + gpu->staging->used <= STAGING_BYTES;
}

/* The account of the GPU that has the byte at offset or the first behind it, or that of no GPU. */
static struct staging_gpu *gpu_of(struct staging *staging, const struct stream *stream, uint64_t offset)
{
        int gpu = space_gpu(stream_next_space(stream, offset));

        return &staging->gpus[gpu >= 0 ? 1 + gpu % GPU_MAX : 0];
}

bool staging_has_room(struct staging *staging, const struct stream *stream, uint64_t offset, uint64_t length)
{
        struct staging_gpu *gpu = gpu_of(staging, stream, offset);
        size_t size = size_for(length);

        if (length <= WIRE_INLINE_MAX || gpu->failed || (may_use(gpu, size) && find(gpu, length)))
                return true;
        staging->wanted = true;
        if (may_use(gpu, size) && !gpu->made && staging->tasks)
                make(staging, gpu, size);
        return gpu->failed;
}

int staging_new(void (*notify)(void *context), void (*room)(void *context), void *context, unsigned width,
                struct staging **ret_staging)
{
        struct staging *staging = calloc(1, sizeof(*staging));
        int r = staging ? pool_user_new(notify, context, &staging->tasks) : -ENOMEM;

        if (r < 0) {
                free(staging);
                return r;
        }
        staging->room = room;
        staging->context = context;
        staging->width = width;
        for (unsigned n = 0; n <= GPU_MAX; n++)
                staging->gpus[n].staging = staging;
        *ret_staging = staging;
        return 0;
}

void staging_stop(struct staging *staging)
{
        staging->wanted = false;
        staging->tasks = pool_user_free(staging->tasks);
}

struct staging *staging_free(struct staging *staging)
{
        struct staging_buffer *buffer, *next;

        if (!staging)
                return NULL;
        staging_stop(staging);
        DL_FOREACH_SAFE (staging->idle, buffer, next)
                buffer_free(buffer);
        free(staging);
        return NULL;
}

struct pool_user *staging_tasks(struct staging *staging)
{
        return staging->tasks;
}

/* ---- stages ---- */

bool stage_new(struct staging *staging, struct message *message, uint8_t *bytes)
{
        struct stage *stage = calloc(1, sizeof(*stage));

        if (!stage)
                return false;
        stage->staging = staging;
        stage->message = message;
        stage->bytes = bytes;
        message->stage = stage;
        return true;
}

/*
 * The buffer is one that staging_has_room() has found; failed is cleared, so that the next message asks for one again.
 */
bool stage_new_buffer(struct staging *staging, struct message *message)
{
        struct staging_gpu *gpu = gpu_of(staging, message->stream, message->offset);
        struct staging_buffer *buffer = message->length > WIRE_INLINE_MAX ? find(gpu, message->length) : NULL;
        uint8_t *bytes = buffer ? buffer->bytes : malloc(message->length);

        gpu->failed = false;
        if (!bytes || !stage_new(staging, message, bytes)) {
                if (!buffer)
                        free(bytes);
                return false;
        }
        if (buffer) {
                DL_DELETE(staging->idle, buffer);
                gpu->used += buffer->size;
                staging->used += buffer->size;
        } else {
                gpu->ordinary += message->length;
        }
        message->stage->gpu = gpu;
        message->stage->buffer = buffer;
        return true;
}

bool stage_digest_pieces(struct message *message, uint64_t piece)
{
        struct stage *stage = message->stage;

        stage->digest_piece = piece;
        stage->digests = malloc((message->length + piece - 1) / piece * sizeof(*stage->digests));
        return stage->digests;
}

void stage_free(struct message *message)
{
        struct stage *stage = message->stage;

        message->stage = NULL;
        if (!stage)
                return;
        if (stage->place)
                *stage->place = 0;
        free(stage->digests);
        if (stage->gpu && !stage->buffer) {
                stage->gpu->ordinary -= message->length;
                free(stage->bytes);
        }
        if (stage->buffer) {
                stage->gpu->used -= stage->buffer->size;
                stage->staging->used -= stage->buffer->size;
                DL_APPEND(stage->staging->idle, stage->buffer);
                tell_room(stage->staging);
        }
        free(stage);
}

/* ---- tasks ---- */

/* Whether the program has freed memory of the stream that it owns. Returns 0 or -errno as of space_check(). */
static int check(const struct stream *stream)
{
        int r = 0;

        for (size_t i = 0; i < stream->n && r == 0; i++)
                if (stream->segments[i].space)
                        r = space_check(stream->segments[i].space);
        return r;
}

int message_seal(struct message *message)
{
        return stream_checksum(message->stream, message->offset, message->length, &message->header.checksum);
}

int message_check(const struct message *message)
{
        uint64_t checksum = 0;
        int r = stream_checksum(message->stream, message->offset, message->length, &checksum);

        return r < 0 || checksum == message->header.checksum ? r : -EILSEQ;
}

/* Several threads take a piece each. 0 with *ret_more; -errno. */
static int digest_next(struct stage *stage, bool *ret_more)
{
        const struct message *m = stage->message;
        uint64_t piece = stage->digest_piece, from = atomic_fetch_add(&stage->digested, piece);

        if (from >= m->length)
                return 0;
        *ret_more = from + piece < m->length;
        return stream_checksum(m->stream, m->offset + from, *ret_more ? piece : m->length - from,
                               &stage->digests[from / piece]);
}

/* All but the checksums. */
static int move_bytes(struct stage *stage)
{
        struct message *m = stage->message;
        int gpu = space_gpu(stream_next_space(m->stream, m->offset));
        int r = stage->steps & STAGING_CHECK ? check(m->stream) : 0;

        if (stage->pin && gpu >= 0)
                gpu_pin_use(stage->pin, (unsigned)gpu, m->length);
        if (r == 0 && (stage->steps & STAGING_LOAD))
                r = stream_load(m->stream, m->offset, stage->bytes, m->length);
        if (r == 0 && (stage->steps & STAGING_STORE))
                r = stream_store(m->stream, m->offset, stage->bytes, m->length);
        return r;
}

/*
 * Runs the steps of a stage. Pieces of digests are steps of their own: POOL_MORE lets another thread take the next one.
 */
static enum pool_verdict stage_task(struct pool_task *task)
{
        struct stage *stage = FERRY_CONTAINER_OF(task, struct stage, task);
        struct message *m = stage->message;
        bool more = false;
        int r = 0;

        if (stage->steps & ~(unsigned)STAGING_CHECKSUM) {
                r = move_bytes(stage);
                stage->steps &= STAGING_CHECKSUM;
        }
        if (r == 0 && stage->steps && stage->digests)
                r = digest_next(stage, &more);
        else if (r == 0 && stage->steps)
                r = stage->receives ? message_check(m) : message_seal(m);
        if (r < 0)
                stage->fault = r;
        return r == 0 && more ? POOL_MORE : POOL_DONE;
}

/* On the progress thread, after the task: the list's owner takes all that can be taken. */
static void stage_done(struct pool_task *task)
{
        struct stage *stage = FERRY_CONTAINER_OF(task, struct stage, task);

        stage->running = false;
        stage->ran(stage->message->link);
}

/*
 * Hands a stage to the pool: to the lane of its GPU, or, where all that is to do is to make checksums of host memory,
 * to the class for digests, with as many threads as the transport may use.
 */
static void run(struct message *message, unsigned steps, void (*ran)(struct link *link))
{
        struct stage *stage = message->stage;

        stage->steps = steps | (message->verify ? STAGING_CHECKSUM : 0U);
        stage->ran = ran;
        stage->running = true;
        stage->task = (struct pool_task){ .run = stage_task,
                                          .done = stage_done,
                                          .class = POOL_WORK,
                                          .devices = pool_devices_of(
                                                  stream_next_space(message->stream, message->offset), NULL) };
        if (!message->stream->off_host && stage->steps == STAGING_CHECKSUM) { /* then nothing fails */
                stage->task.class = POOL_DIGEST;
                stage->task.width = stage->staging->width;
        }
        pool_add_or_run(stage->staging->tasks, &stage->task);
}

void message_end(struct message *message, enum message_result result)
{
        if (message->done)
                message->done(message, result);
        stage_free(message);
        message_free(message);
}

/* The first message whose task has run, and that follows no other one of its transfer. */
static struct message *first_run(struct message *list)
{
        struct message *m, *before;

        DL_FOREACH (list, m) {
                if (m->stage->running)
                        continue;
                for (before = list; before != m && before->transfer != m->transfer; before = before->next)
                        ;
                if (before == m)
                        return m;
        }
        return NULL;
}

/* Takes it off the list, with *ret_result: how its task has ended. */
static struct message *take(struct message **list, enum message_result *ret_result)
{
        struct message *m = first_run(*list);

        if (!m)
                return NULL;
        DL_DELETE(*list, m);
        m->fault = m->stage->fault;
        *ret_result = m->stage->result;
        if (*ret_result == MESSAGE_OK && m->fault < 0)
                *ret_result = m->fault == -EILSEQ ? MESSAGE_DIFFERS : MESSAGE_FAULT;
        return m;
}

void stage_load(struct message *message, unsigned steps, void (*loaded)(struct link *link))
{
        DL_APPEND(message->link->loading, message);
        run(message, steps, loaded);
}

struct message *stage_take_loaded(struct link *link)
{
        enum message_result result;
        struct message *m;

        while ((m = take(&link->loading, &result))) {
                if (result == MESSAGE_OK && !link_is_usable(link))
                        result = MESSAGE_LOST;
                if (result == MESSAGE_OK)
                        break;
                message_end(m, result);
        }
        return m;
}

/* Ends the receives of a link whose bytes were stored. */
static void stored(struct link *link)
{
        enum message_result result;
        struct message *m;

        while ((m = take(&link->storing, &result)))
                message_end(m, result);
}

void stage_store(struct message *message, unsigned steps)
{
        message->stage->receives = true;
        DL_APPEND(message->link->storing, message);
        run(message, steps, stored);
}

/* Whether the bytes of a payload that came inline may wait for their GPU, beside those that do. */
static bool may_wait(struct staging *staging, const struct message *message)
{
        return gpu_of(staging, message->stream, message->offset)->ordinary + message->length <= STAGING_BYTES;
}

void stage_store_inline(struct staging *staging, struct message *message, const void *bytes)
{
        if (!message_begin(message)) {
                message_free(message);
        } else if (!message->stream->off_host) {
                (void)stream_store(message->stream, message->offset, bytes, message->length);
                message_end(message, message->verify && message_check(message) < 0 ? MESSAGE_DIFFERS : MESSAGE_OK);
        } else if (!may_wait(staging, message) || !stage_new_buffer(staging, message)) {
                message_end(message, MESSAGE_NO_MEMORY);
        } else {
                message->gpu_path = message_gpu_path(message, GPU_PATH_STAGED);
                memcpy(message->stage->bytes, bytes, message->length);
                stage_store(message, STAGING_STORE);
        }
}

/*
 * Ends the stage of a message that is not wanted any more. Returns true when no task is running; otherwise the message
 * ends with result once its task has.
 */
static bool stop(struct message *message, enum message_result result)
{
        struct stage *stage = message->stage;

        if (stage->running && !pool_remove(&stage->task)) {
                stage->result = result;
                atomic_store(&stage->digested, message->length); /* no further piece */
                return false;
        }
        stage->running = false;
        return true;
}

/* Cancels messages of a list. A callback of one may cancel others, so each round begins at the start of the list. */
static void cancel(struct message **list, const uint64_t *transfer, enum message_result result)
{
        struct message *m = *list, *next;

        while (m) {
                next = m->next;
                if ((!transfer || m->transfer == *transfer) && m->stage->result == MESSAGE_OK && stop(m, result)) {
                        DL_DELETE(*list, m);
                        message_end(m, result);
                        next = *list; /* done may have changed it */
                }
                m = next;
        }
}

void stage_cancel(struct link *link, const uint64_t *transfer, enum message_result result)
{
        cancel(&link->loading, transfer, result);
        cancel(&link->storing, transfer, result);
}
