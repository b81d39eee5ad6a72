/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "local_internal.h"
#include "local_pair.h"
#include "moved_clock.h"

/* How a worker has the memory of its peers mapped, and what becomes of it. */

/* Whoever has the descriptor could write the memory of its owner otherwise. */
TEST_WITH(what_peers_get_cannot_be_written, setup, teardown)
{
        const struct memfd *lent;

        export_blocks(MIB, true);
        lent = from_block.memory.handles[a.transport->index];
        assert_int_equal(fcntl(lent->fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        assert_int_equal(fcntl(lent->fd, F_GETFD), FD_CLOEXEC);
        assert_ptr_equal(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, lent->fd, 0), MAP_FAILED);
}

/* The leases and the bounce buffers: a peer that could write or cut them would harm another one, or this worker. */
TEST(what_is_made_for_peers_is_written_by_its_maker_alone)
{
        struct memfd *memfd;
        char *own;

        assert_int_equal(memfd_new("ferry-link", 4096, (void **)&own, &memfd), 0);
        own[4095] = 'x';
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd->fd, 0), MAP_FAILED);
        assert_int_equal(pwrite(memfd->fd, "y", 1, 4095), -1);
        assert_int_equal(ftruncate(memfd->fd, 0), -1);
        assert_int_equal(ftruncate(memfd->fd, 8192), -1);
        assert_int_equal(fcntl(memfd->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        assert_int_equal(own[4095], 'x');
        assert_int_equal(munmap(own, 4096), 0);
        assert_null(memfd_drop(memfd));
}

TEST_WITH(a_worker_may_be_its_own_peer, setup, teardown)
{
        struct segment x, y;
        struct stream source, place;
        struct block out, in;
        struct link *link = worker_connect(&a, a.epoch);

        RUN_UNTIL(&a, NULL, link->state == LINK_UP && a.link && a.link->state == LINK_UP);
        block_new(&out, &a, 3 * MIB, true);
        block_new(&in, &a, 3 * MIB, true);
        stream_of_block(&source, &x, &out);
        stream_of_block(&place, &y, &in);
        carry(&a, link, &a, &source, &place, 0, 3 * MIB);
        assert_memory_equal(out.memory.address, in.memory.address, 3 * MIB);
        block_free(&out);
        block_free(&in);
        (a.transport->ops->fail)(link, FERRY_E_CANCELLED, "");
        RUN_UNTIL(&a, NULL, a.ended == 2);
}
TEST_AGAIN(a_worker_may_be_its_own_peer, threads, setup_threads, teardown)

TEST_WITH(memory_that_goes_is_unmapped_by_its_peers, setup, teardown)
{
        int before, open;

        export_blocks(MIB, true);
        before = count_mappings("ferry-test-block");
        open = count_descriptors();
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(count_mappings("ferry-test-block"), before + 1);
        assert_int_equal(count_descriptors(), open);
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        assert_int_equal(count_descriptors(), open - 1);
        assert_null(channel_of(a_to_b)->exports); /* there is a place for another one */
        RUN_UNTIL(&a, &b, count_mappings("ferry-test-block") == before);
        assert_int_equal(a.ended + b.ended, 0);
}

/* ---- many memories ---- */

/* Many memories of a that lie in the same file. */
enum { LENT = FRAME_MEMORIES_MAX + 500 };
static struct memory lent[LENT];

static void send_lent(size_t i)
{
        lent[i] = from_block.memory;
        lent[i].id = (UINT64_C(1) << 32) + i;
        from_segment = (struct segment){ lent[i].address, lent[i].size, &lent[i] };
        stream_of(&from, &from_segment, 1);
        send_it(lent[i].size);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(sent.result, MESSAGE_OK);
        assert_int_equal(b.received.result, MESSAGE_OK);
}

static struct mapping_pool *pool_of(const struct worker *worker)
{
        return &local_of(worker->transport)->mapped;
}

static bool is_mapped_by_b(size_t i)
{
        struct export *export;

        HASH_FIND(hh, channel_of(a_to_b)->exports, &lent[i].id, sizeof(lent[i].id), export);
        return export && export->state == EXPORT_MAPPED;
}

TEST_WITH(idle_memory_of_peers_does_not_stay_mapped_beyond_the_maximum, setup, teardown)
{
        enum { MAX = 16, N = 100 };

        export_blocks(64 << 10, true);
        pool_of(&b)->max = MAX;
        for (size_t i = 0; i < N; i++) {
                clear_place();
                send_lent(i);
                assert_memory_equal(to_block.memory.address, from_block.memory.address, 64 << 10);
                RUN_UNTIL(&a, &b, pool_of(&b)->n <= MAX);
                if (i >= MAX)
                        assert_false(is_mapped_by_b(i - MAX)); /* the one that was not used for longest */
                assert_true(is_mapped_by_b(i > 0 ? i - 1 : i));
        }
        RUN_UNTIL(&a, &b, count_mappings("ferry-test-block") == MAX + 2);
        clear_place();
        send_lent(0); /* it is lent again */
        assert_memory_equal(to_block.memory.address, from_block.memory.address, 64 << 10);
        assert_true(is_mapped_by_b(0));
        assert_int_equal(a.ended + b.ended, 0);
}

/* One that is used in between is not the longest idle one. */
TEST_WITH(memory_in_use_stays_mapped, setup, teardown)
{
        export_blocks(64 << 10, true);
        pool_of(&b)->max = 4;
        for (size_t i = 1; i < 20; i++) {
                send_lent(0);
                send_lent(i);
        }
        RUN_UNTIL(&a, &b, pool_of(&b)->n <= 4);
        assert_true(is_mapped_by_b(0));
}

/* The owner sends it before it hears that the peer would rather not have it. */
TEST_WITH(memory_that_is_asked_back_is_copied_until_it_is_taken, setup, teardown)
{
        export_blocks(64 << 10, true);
        send_lent(0);
        pool_of(&b)->max = 0;
        mapping_pool_trim(pool_of(&b));
        assert_int_equal(pool_of(&b)->n_asked, 1);
        clear_place();
        send_it(64 << 10);
        RUN_UNTIL(NULL, &b, b.received.done == 2);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_memory_equal(to_block.memory.address, from_block.memory.address, 64 << 10);
        RUN_UNTIL(&a, &b, pool_of(&b)->n == 0);
        assert_int_equal(pool_of(&b)->n_asked, 0);
        assert_int_equal(a.ended + b.ended, 0);
}

/* The deregistering UNMAP is on its way when the owner hears of it. */
TEST_WITH(memory_that_is_asked_back_may_be_deregistered_meanwhile, setup, teardown)
{
        export_blocks(MIB, true);
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        pool_of(&b)->max = 0;
        mapping_pool_trim(pool_of(&b));
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        RUN_UNTIL(&a, &b, pool_of(&b)->n == 0 && !a.transport->ops->progress(a.transport));
        assert_int_equal(a.ended + b.ended, 0);
}

/* A peer that was stopped would keep this worker from mapping what others lend. */
TEST_WITH(an_owner_that_does_not_take_memory_back_loses_its_link, setup, teardown)
{
        export_blocks(64 << 10, true);
        send_lent(0);
        pool_of(&b)->max = 0;
        mapping_pool_trim(pool_of(&b)); /* a reads no more */
        assert_int_equal(pool_of(&b)->n_asked, 1);
        later_us += 9000000;
        mapping_pool_trim(pool_of(&b));
        worker_step(NULL, &b);
        assert_int_equal(b.ended, 0);
        later_us += 1000001;
        lent[1] = from_block.memory;
        lent[1].id = 1;
        from_segment = (struct segment){ lent[1].address, lent[1].size, &lent[1] };
        send_it(64 << 10);
        RUN_UNTIL(NULL, &b, b.ended == 1);
        assert_int_equal(b.error, FERRY_E_PEER_LOST);
        assert_int_equal(pool_of(&b)->n, 0);
        RUN_UNTIL(&a, &b, a.ended == 1);
}

/* The owner takes the longest idle ones back by itself. */
TEST_WITH(a_link_maps_the_latest_memories_where_there_are_more_than_it_may, setup, teardown)
{
        export_blocks(8 << 10, true);
        for (size_t i = 0; i < LENT; i++)
                send_lent(i);
        assert_true(is_mapped_by_b(LENT - 1));
        assert_true(is_mapped_by_b(LENT - FRAME_MEMORIES_MAX / 2));
        assert_false(is_mapped_by_b(0));
        assert_null(channel_of(a_to_b)->leases.bounce); /* nothing was copied twice */
        assert_int_equal(a.ended + b.ended, 0);
}

/* Those that wait for the queue alone need no bounce buffer. */
TEST_WITH(a_short_queue_is_room_although_no_bounce_buffer_is_free, setup, teardown)
{
        struct channel *channel = channel_of(a_to_b);
        bool force_inline;

        export_blocks(MIB, false);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline), MIB);
        for (size_t i = 0; i < BOUNCE_BUFFERS; i++)
                channel->leases.bounce_owner[i] = 1;
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline), 0);
        channel->queue_bytes += CHANNEL_QUEUE_ROOM;
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 100, &force_inline), 0);
        channel->queue_bytes -= CHANNEL_QUEUE_ROOM;
        outgoing_tell_room(channel);
        assert_int_equal(a.room, 1);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 100, &force_inline), 100);
        memset(channel->leases.bounce_owner, 0, sizeof(channel->leases.bounce_owner));
}

/* They were mapped once, and the link's bounce buffers are not mapped again. */
TEST_WITH(bounce_buffers_are_not_given_back, setup, teardown)
{
        struct frame idle = FRAME_OF(FRAME_IDLE, .id = FRAME_BOUNCE_ID);

        export_blocks(MIB, false);
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        pool_of(&b)->max = 0;
        mapping_pool_trim(pool_of(&b));
        assert_int_equal(pool_of(&b)->n_asked, 0);
        channel_post_frame(channel_of(b.link), idle, NULL); /* as a hostile peer would */
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done == 2);
        assert_memory_equal(to_block.memory.address, from_block.memory.address, MIB);
        assert_int_equal(a.ended + b.ended, 0);
}

/* The peer would end a link by which it is to map more. */
TEST_WITH(memory_beyond_what_one_link_may_map_is_copied, setup, teardown)
{
        struct channel *channel = channel_of(a_to_b);
        struct export taken[FRAME_MEMORIES_MAX - 1], *mapped; /* all but the bounce buffers */

        export_blocks(MIB, true);
        clear_place();
        for (size_t i = 0; i < UNIT_COUNT(taken); i++) {
                taken[i] = (struct export){ .id = (UINT64_C(1) << 32) + i, .state = EXPORT_MAPPED };
                HASH_ADD(hh, channel->exports, id, sizeof(taken[i].id), &taken[i]);
        }
        carry(&a, a_to_b, &b, &from, &to, 0, MIB);
        assert_memory_equal(to_block.memory.address, from_block.memory.address, MIB);
        HASH_FIND(hh, channel->exports, &from_block.memory.id, sizeof(from_block.memory.id), mapped);
        assert_null(mapped);
        for (size_t i = 0; i < UNIT_COUNT(taken); i++)
                HASH_DEL(channel->exports, &taken[i]);
}

static atomic_size_t unmapped_here, largest_elsewhere;
static pthread_t here;

int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);

int __wrap_munmap(void *address, size_t size)
{
        if (pthread_equal(pthread_self(), here))
                atomic_fetch_add(&unmapped_here, size);
        else if (size > atomic_load(&largest_elsewhere))
                atomic_store(&largest_elsewhere, size);
        return __real_munmap(address, size);
}

/* It frees the memory of a peer that has died, and may take seconds: others map and unmap between its pieces. */
TEST_WITH(large_memory_is_unmapped_by_another_thread, setup, teardown)
{
        enum { SIZE = (64 << 20) + 4096 };
        int before;

        here = pthread_self();
        export_blocks(SIZE, true);
        before = count_mappings("ferry-test-block");
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(count_mappings("ferry-test-block"), before + 1);
        atomic_store(&unmapped_here, 0);
        atomic_store(&largest_elsewhere, 0);
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        RUN_UNTIL(&a, &b, count_mappings("ferry-test-block") == before);
        assert_true(atomic_load(&unmapped_here) < SIZE);
        assert_in_range(atomic_load(&largest_elsewhere), 1, SIZE - 1);
}

static bool no_room; /* in the address space */
static atomic_int closed_here;

void *__real_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_close(int fd);
int __wrap_close(int fd);

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
        if (no_room) {
                errno = ENOMEM;
                return MAP_FAILED;
        }
        return __real_mmap64(address, size, protection, flags, fd, offset);
}

int __wrap_close(int fd)
{
        if (pthread_equal(pthread_self(), here))
                atomic_fetch_add(&closed_here, 1);
        return __real_close(fd);
}

/* Its last descriptor frees it, too. */
TEST_WITH(memory_that_is_read_unmapped_is_closed_by_another_thread, setup, teardown)
{
        int n;

        here = pthread_self();
        export_blocks(MIB, true);
        no_room = true;
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        no_room = false;
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_memory_equal(to_block.memory.address, from_block.memory.address, MIB);
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        n = count_descriptors();
        atomic_store(&closed_here, 0);
        RUN_UNTIL(&a, &b, count_descriptors() == n - 1);
        assert_int_equal(atomic_load(&closed_here), 0);
}

/* The process has other mappings, too: idle ones make room. */
TEST_WITH(memory_that_was_read_is_mapped_once_there_is_room, setup, teardown)
{
        int open;

        export_blocks(64 << 10, true);
        for (size_t i = 0; i < 10; i++)
                send_lent(i);
        open = count_descriptors();
        no_room = true;
        clear_place();
        send_lent(10);
        assert_memory_equal(to_block.memory.address, from_block.memory.address, 64 << 10);
        assert_int_equal(count_descriptors(), open + 1);
        RUN_UNTIL(&a, &b, pool_of(&b)->n == 9);
        assert_false(is_mapped_by_b(0));
        no_room = false;
        send_lent(10);
        assert_int_equal(count_descriptors(), open);
        assert_int_equal(count_mappings("ferry-test-block"), 9 + 2);
}

TEST_WITH(memory_that_goes_may_still_be_named_by_what_was_taken_back, setup, teardown)
{
        export_blocks(MIB, true);
        send_it(MIB);
        a.transport->ops->cancel(a_to_b, TRANSFER);
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        RUN_UNTIL(&a, &b, b.received.done);
        assert_int_equal(b.received.result, MESSAGE_LEASE_ENDED);
        RUN_UNTIL(&a, &b, !a.transport->ops->progress(a.transport));
        assert_int_equal(a.ended + b.ended, 0);
}
