/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/space.h"
#include "base/util.h"
#include "pull.h"
#include "unit.h"

enum { SIZE = 64, NUMBER = 5 };

/* ---- payloads that a device copies, which reads later than it is told to ---- */

struct device {
        struct space space;
        int copy_result;
};

static struct lease_slot slot;
static bool ends_lease; /* while copies are waited for */
static int finish_result;
static unsigned n_queued;

static int copy_later(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                      size_t size)
{
        n_queued++;
        return FERRY_CONTAINER_OF(to_space ? to_space : from_space, struct device, space)->copy_result;
}

static int finish_copies(const struct space *space)
{
        if (ends_lease)
                lease_end(&slot);
        n_queued = 0;
        return finish_result;
}

static struct device device_of(void)
{
        static const struct space_ops ops = { .copy = copy_later, .finish = finish_copies };

        return (struct device){ .space = { .ops = &ops } };
}

/* A pull in two halves, whose lease is valid. */
struct scene {
        uint8_t from[SIZE], to[SIZE];
        struct memory memory;
        struct segment segments[2];
        struct mapping mappings[2]; /* of a half each */
        struct stream stream;
        struct message message;
        struct pull *pull;
};

static void scene_free(void *context)
{
        struct scene *s = context;

        stream_clear(&s->stream);
        free(s->pull);
        free(s);
}

static struct scene *scene_new(const struct space *from_space, const struct space *to_space)
{
        struct scene *s = test_keep(calloc(1, sizeof(*s)), scene_free);

        memset(s->from, 0xa5, SIZE);
        s->memory = (struct memory){ .address = s->to, .size = SIZE, .fd = -1 };
        s->pull = pull_new(2, 1);
        s->pull->digests = NULL;
        for (size_t i = 0; i < 2; i++) {
                size_t at = i * SIZE / 2;

                s->segments[i] = (struct segment){ s->to + at, SIZE / 2, &s->memory, i ? to_space : NULL };
                s->mappings[i] = (struct mapping){ .address = s->from, .fd = -1, .space = i ? NULL : from_space };
                s->pull->extents[i] = (struct pull_extent){ &s->mappings[i], at, SIZE / 2 };
        }
        assert_int_equal(stream_init(&s->stream, s->segments, 2), 0);
        s->message = (struct message){ .stream = &s->stream, .length = SIZE };
        s->pull->message = &s->message;
        s->pull->length = SIZE;
        s->pull->lease = &slot;
        s->pull->number = NUMBER;
        s->pull->n = 2;
        s->pull->from_gpu = from_space;
        s->pull->off_host = from_space || to_space;
        lease_grant(&slot, NUMBER);
        return s;
}

/* Copies the whole pull as one piece. */
static int copy_all(struct scene *s)
{
        struct piece piece;
        int r;

        assert_true(pull_take(s->pull, SIZE, &piece));
        r = piece_copy(&piece);
        pull_finish(&piece, r);
        return r;
}

TEST(a_lease_that_ends_before_the_device_has_read_all_is_noticed)
{
        struct device device = device_of();

        assert_int_equal(copy_all(scene_new(&device.space, NULL)), 0);
        ends_lease = true;
        assert_int_equal(copy_all(scene_new(&device.space, NULL)), -ESTALE);
        finish_result = -EIO;
        assert_int_equal(copy_all(scene_new(&device.space, NULL)), -ESTALE);
        ends_lease = false;
        finish_result = 0;
}

/* Of the peer's device and of the own one, when the copy was queued and when it was waited for. */
TEST(no_failure_of_a_device_is_taken_for_success)
{
        for (int peers = 0; peers < 2; peers++)
                FOR_EACH (int, late, false, true) {
                        struct device device = device_of();
                        struct scene *s = scene_new(peers ? &device.space : NULL, peers ? NULL : &device.space);

                        *(late ? &finish_result : &device.copy_result) = -EIO;
                        assert_int_equal(copy_all(s), -EIO);
                        assert_int_equal(n_queued, 0); /* it was waited for */
                        finish_result = 0;
                }
}

TEST(a_pull_that_nobody_wants_any_more_copies_nothing)
{
        struct device device = device_of();
        struct scene *s = scene_new(&device.space, NULL);
        struct piece piece;

        assert_true(pull_take(s->pull, SIZE, &piece));
        s->pull->result = MESSAGE_CANCELLED;
        assert_int_equal(piece_copy(&piece), -ECANCELED);
        pull_finish(&piece, -ECANCELED);
        assert_int_equal(s->pull->result, MESSAGE_CANCELLED);
        assert_int_equal(s->to[SIZE / 2], 0); /* the half of the host */
}

TEST(a_device_does_not_copy_from_memory_that_could_not_be_mapped)
{
        struct device device = device_of();
        struct scene *s = scene_new(NULL, &device.space);

        s->mappings[1].address = NULL;
        assert_int_equal(copy_all(s), -ENOMEM);
}

/* What is copied from a device into host memory, which stays as it was. */
TEST(what_a_device_has_copied_is_compared)
{
        FOR_EACH (int, differs, false, true) {
                struct device device = device_of();
                struct scene *s = scene_new(&device.space, NULL);
                uint64_t digest;

                s->mappings[1].space = &device.space;
                assert_int_equal(stream_checksum(&s->stream, 0, SIZE, &digest), 0);
                digest ^= (uint64_t)differs;
                s->pull->digests = &digest;
                assert_int_equal(copy_all(s), differs ? -EILSEQ : 0);
        }
}

/* Which piece is at fault is not for the threads' pace to say. */
TEST(of_pieces_that_fail_the_first_one_counts)
{
        FOR_EACH (int, late, false, true) {
                struct scene *s = scene_new(NULL, NULL);
                struct piece first, second;

                assert_true(pull_take(s->pull, SIZE / 4, &first));
                assert_true(pull_take(s->pull, SIZE / 4, &second));
                if (late)
                        pull_finish(&second, -EILSEQ);
                pull_finish(&first, -ESTALE);
                if (!late)
                        pull_finish(&second, -EILSEQ);
                assert_int_equal(s->pull->result, MESSAGE_LEASE_ENDED);
                assert_int_equal(s->pull->failed_at, 0);
                assert_false(pull_take(s->pull, SIZE, &first));
        }
}

/* Followers read up to there. */
TEST(bytes_count_from_the_first_one_on)
{
        struct scene *s = scene_new(NULL, NULL);
        struct piece first, second, third;

        assert_true(pull_take(s->pull, SIZE / 4, &first));
        assert_true(pull_take(s->pull, SIZE / 4, &second));
        pull_finish(&second, 0);
        assert_int_equal(pull_copied(s->pull), 0);
        assert_true(pull_take(s->pull, SIZE, &third));
        pull_finish(&first, 0);
        assert_int_equal(pull_copied(s->pull), SIZE / 2);
        pull_finish(&third, 0);
        assert_int_equal(pull_copied(s->pull), SIZE);
        assert_int_equal(s->pull->result, MESSAGE_OK);
}

/* ---- payloads that are read, where the address space has no room for the peer's memory ---- */

static int scratch_file(const void *bytes, size_t size)
{
        FILE *file = tmpfile();
        int fd;

        assert_non_null(file);
        fd = dup(fileno(file));
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, bytes, size, 0), size);
        assert_int_equal(fclose(file), 0);
        return fd;
}

TEST(a_piece_that_cannot_be_read_does_not_count)
{
        /* all of it, all but the last byte, nothing */
        FOR_EACH (size_t, size, SIZE, SIZE - 1, 0) {
                struct scene *s = scene_new(NULL, NULL);

                s->mappings[0].fd = s->mappings[1].fd = scratch_file(s->from, size);
                s->mappings[0].address = s->mappings[1].address = NULL;
                assert_int_equal(copy_all(s), size == SIZE ? 0 : -ESTALE);
                assert_int_equal(memcmp(s->to, s->from, SIZE) == 0, size == SIZE);
                (void)close(s->mappings[0].fd);
        }
        struct scene *s = scene_new(NULL, NULL); /* there is no file */
        s->mappings[0].address = s->mappings[1].address = NULL;
        assert_int_equal(copy_all(s), -ESTALE);
}

/* ---- payloads that this process copies ---- */

void __real_copy_past_caches(void *to, const void *from, size_t size);
void __wrap_copy_past_caches(void *to, const void *from, size_t size);

void __wrap_copy_past_caches(void *to, const void *from, size_t size)
{
        __real_copy_past_caches(to, from, size);
        if (ends_lease)
                lease_end(&slot);
}

TEST(a_piece_whose_lease_ends_while_it_is_copied_does_not_count)
{
        FOR_EACH (int, ends, false, true) {
                struct scene *s = scene_new(NULL, NULL);

                s->stream.total = PULL_PAST_CACHES;
                ends_lease = ends;
                assert_int_equal(copy_all(s), ends ? -ESTALE : 0);
                ends_lease = false;
        }
}
