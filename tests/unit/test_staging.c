/* SPDX-License-Identifier: Apache-2.0 */
#include "message/staging.h"

#include "base/space.h"
#include "unit.h"

/* The buffers that payloads of GPUs are staged in, and how GPUs share them. There is no driver here. */

enum { LENGTH = 4 << 20, GPUS = 8, BUFFERS = STAGING_BYTES / LENGTH };

struct bench {
        struct staging *staging;
        struct message messages[BUFFERS + GPUS];
        struct space spaces[GPUS];
        struct segment segments[GPUS], mixed[2];
        struct stream streams[GPUS], behind; /* behind: bytes of GPU 1, then of the host */
        size_t n;
        int rooms; /* how often there may be room */
};

static void ignore(void *context)
{
}

static void count_room(void *context)
{
        ((struct bench *)context)->rooms++;
}

static void bench_free(void *context)
{
        struct bench *b = context;

        while (b->n > 0)
                stage_free(&b->messages[--b->n]);
        staging_free(b->staging);
        for (unsigned i = 0; i < GPUS; i++)
                stream_clear(&b->streams[i]);
        stream_clear(&b->behind);
        free(b);
}

static struct bench *bench_new(void)
{
        struct bench *b = test_keep(calloc(1, sizeof(*b)), bench_free);

        assert_int_equal(staging_new(ignore, count_room, b, 1, &b->staging), 0);
        for (unsigned i = 0; i < GPUS; i++) {
                b->spaces[i].device = i;
                b->segments[i] = (struct segment){ (uint8_t *)b, LENGTH, NULL, &b->spaces[i] };
                assert_int_equal(stream_init(&b->streams[i], &b->segments[i], 1), 0);
        }
        b->mixed[0] = b->segments[1];
        b->mixed[1] = (struct segment){ (uint8_t *)b, LENGTH, NULL, NULL };
        assert_int_equal(stream_init(&b->behind, b->mixed, 2), 0);
        return b;
}

/* ---- host memory as the driver gives it, or not ---- */

enum { BUFFERS_MAX = 1024 };

static bool fails;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct {
        void *bytes;
        size_t size;
} live[BUFFERS_MAX];
static size_t live_bytes;

void *__wrap_gpu_host_new(unsigned gpu, size_t size);
void *__real_gpu_host_new(unsigned gpu, size_t size);
void __wrap_gpu_host_free(unsigned gpu, void *bytes);
void __real_gpu_host_free(unsigned gpu, void *bytes);

/* The size of the buffer becomes size; whose bytes are NULL: of a free place. */
static void note(const void *bytes, void *now, size_t size)
{
        size_t i = 0;

        (void)pthread_mutex_lock(&lock);
        while (i < BUFFERS_MAX - 1 && live[i].bytes != bytes)
                i++;
        live_bytes += size - live[i].size;
        live[i].bytes = now;
        live[i].size = size;
        (void)pthread_mutex_unlock(&lock);
}

void *__wrap_gpu_host_new(unsigned gpu, size_t size)
{
        void *bytes = fails ? NULL : __real_gpu_host_new(gpu, size);

        if (bytes)
                note(NULL, bytes, size);
        return bytes;
}

void __wrap_gpu_host_free(unsigned gpu, void *bytes)
{
        note(bytes, NULL, 0);
        __real_gpu_host_free(gpu, bytes);
}

static size_t live_now(void)
{
        size_t bytes;

        (void)pthread_mutex_lock(&lock);
        bytes = live_bytes;
        (void)pthread_mutex_unlock(&lock);
        return bytes;
}

/* Buffers that are being made. */
static size_t n_asked;

/* While a GPU stands still its tasks wait here. */
static bool stands_still;
static struct pool_task *standing[BUFFERS + GPUS];
static size_t n_standing;

void __wrap_pool_add_or_run(struct pool_user *user, struct pool_task *task);
void __real_pool_add_or_run(struct pool_user *user, struct pool_task *task);

void __wrap_pool_add_or_run(struct pool_user *user, struct pool_task *task)
{
        n_asked++;
        if (stands_still)
                standing[n_standing++] = task;
        else
                __real_pool_add_or_run(user, task);
}

/* ---- messages ---- */

static bool has_room(struct bench *b, unsigned gpu)
{
        return staging_has_room(b->staging, &b->streams[gpu], 0, LENGTH);
}

/* It has its share, so that no buffer is made for it either. */
static bool has_its_share(struct bench *b, unsigned gpu)
{
        size_t before = n_asked;

        return !has_room(b, gpu) && n_asked == before;
}

static void collect(struct bench *b)
{
        pool_wait(staging_tasks(b->staging));
        (void)pool_collect(staging_tasks(b->staging));
}

/* Takes a buffer, which is made if need be. */
static void take_of(struct bench *b, const struct stream *stream, uint64_t offset, uint64_t length)
{
        struct message *message = &b->messages[b->n];

        while (!staging_has_room(b->staging, stream, offset, length))
                collect(b);
        *message = (struct message){ .stream = stream, .offset = offset, .length = length };
        assert_true(stage_new_buffer(b->staging, message));
        b->n++;
}

static void take(struct bench *b, unsigned gpu)
{
        take_of(b, &b->streams[gpu], 0, LENGTH);
}

static void give_back(struct bench *b)
{
        stage_free(&b->messages[--b->n]);
}

TEST(a_gpu_that_stands_still_leaves_buffers_to_the_others)
{
        struct bench *b = bench_new();
        size_t share = BUFFERS / 2;

        for (unsigned gpu = 0; gpu < 4; gpu++, share /= 2) {
                for (size_t i = 0; i < share; i++)
                        take(b, gpu);
                assert_true(has_its_share(b, gpu));
        }
}

TEST(each_gpu_may_have_one_buffer)
{
        struct bench *b = bench_new();

        for (unsigned gpu = 0; gpu < GPUS; gpu++)
                for (size_t i = BUFFERS >> (gpu + 1); i > 0; i--)
                        take(b, gpu);
        for (unsigned gpu = 6; gpu < GPUS; gpu++) {
                take(b, gpu);
                assert_true(has_its_share(b, gpu));
        }
}

TEST(a_buffer_that_is_given_back_makes_room)
{
        struct bench *b = bench_new();
        int before;

        for (size_t i = 0; i < BUFFERS / 2; i++)
                take(b, 0);
        assert_true(has_its_share(b, 0));
        before = b->rooms;
        give_back(b);
        assert_int_equal(b->rooms, before + 1);
        take(b, 0);
        assert_true(has_its_share(b, 0));
        take(b, 1);
}

TEST(a_buffer_that_has_been_made_makes_room)
{
        struct bench *b = bench_new();

        assert_false(has_room(b, 0));
        assert_int_equal(b->rooms, 0);
        collect(b);
        assert_int_equal(b->rooms, 1);
        assert_true(has_room(b, 0));
}

/* Its message takes ordinary memory, and the next one asks for a buffer again. */
TEST(buffers_that_could_not_be_made_take_no_place_of_others)
{
        struct bench *b = bench_new();

        fails = true;
        for (size_t i = 0; i < 2 * BUFFERS; i++) {
                assert_false(has_room(b, 0));
                collect(b);
                assert_int_equal(b->rooms, i + 1);
                assert_true(has_room(b, 0));
                take(b, 0);
                give_back(b);
        }
        fails = false;
        for (size_t i = 0; i < BUFFERS / 2; i++) {
                assert_false(has_room(b, 0));
                take(b, 0);
        }
}

/* Buffers of one size make way for those of another. */
TEST(no_more_memory_is_kept_than_may_be)
{
        struct bench *b = bench_new();

        for (uint64_t size = 256 << 10; size <= LENGTH; size *= 2) {
                for (size_t i = 0; i < BUFFERS / 2; i++)
                        take_of(b, &b->streams[0], 0, size);
                while (b->n > 0)
                        give_back(b);
        }
        for (unsigned gpu = 1; gpu < 3; gpu++)
                take_of(b, &b->streams[gpu], 0, STAGING_BYTES / 4);
        WAIT_UNTIL(live_now() <= STAGING_BYTES);
        take_of(b, &b->streams[1], 0, STAGING_BYTES / 4); /* what made way counts no more */
}

TEST(host_bytes_behind_a_gpu_are_charged_to_no_gpu)
{
        struct bench *b = bench_new();

        take_of(b, &b->behind, LENGTH, LENGTH);
        give_back(b);
        for (unsigned gpu = 0; gpu < 2; gpu++)
                for (size_t i = BUFFERS >> (gpu + 1); i > 0; i--)
                        take(b, gpu);
        assert_true(has_its_share(b, 0));
        assert_true(has_its_share(b, 1));
        assert_true(staging_has_room(b->staging, &b->behind, LENGTH, LENGTH));
}

TEST(idle_buffers_stay_where_the_one_that_is_wanted_cannot_be_made)
{
        const uint64_t small = 256 << 10, large = STAGING_BYTES / 2, medium = large / 2;
        struct bench *b = bench_new();

        take_of(b, &b->streams[0], 0, small);
        take_of(b, &b->streams[0], 0, small);
        give_back(b);
        /* Their buffers are being made until they are collected. */
        assert_false(staging_has_room(b->staging, &b->streams[1], 0, large));
        assert_false(staging_has_room(b->staging, &b->streams[2], 0, medium));
        assert_false(staging_has_room(b->staging, &b->streams[0], 0, medium));
        assert_true(staging_has_room(b->staging, &b->streams[0], 0, small));
}

/* ---- payloads that come inline ---- */

static int n_ended;
static enum message_result last_result;

static void note_end(struct message *message, enum message_result result)
{
        n_ended++;
        last_result = result;
}

static void store_inline(struct bench *b, struct link *link, unsigned gpu, const void *bytes)
{
        struct message *m = message_new(link->transport);

        assert_non_null(m);
        m->link = link;
        m->stream = &b->streams[gpu];
        m->length = LENGTH;
        m->done = note_end;
        stage_store_inline(b->staging, m, bytes);
}

TEST(payloads_that_come_inline_for_a_gpu_that_stands_still_are_bounded)
{
        struct bench *b = bench_new();
        const struct transport_handlers none = { 0 };
        struct transport transport = { 0 };
        struct link link = { .transport = &transport };
        void *bytes = unit_alloc(LENGTH);

        transport_init(&transport, NULL, "test", 0, &none);
        stands_still = true;
        for (size_t i = 0; i < BUFFERS; i++)
                store_inline(b, &link, 0, bytes);
        assert_int_equal(n_ended, 0);
        store_inline(b, &link, 0, bytes);
        assert_int_equal(n_ended, 1);
        assert_int_equal(last_result, MESSAGE_NO_MEMORY);
        store_inline(b, &link, 1, bytes); /* another GPU */
        assert_int_equal(n_ended, 1);
        standing[0]->done(standing[0]);
        assert_int_equal(n_ended, 2);
        assert_int_equal(last_result, MESSAGE_OK);
        store_inline(b, &link, 0, bytes);
        assert_int_equal(n_ended, 2);
        for (size_t i = 1; i < n_standing; i++)
                standing[i]->done(standing[i]);
        assert_int_equal(n_ended, BUFFERS + 3);
        stands_still = false;
        free(bytes);
}
