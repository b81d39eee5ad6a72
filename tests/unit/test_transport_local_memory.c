/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "local_internal.h"
#include "local_pair.h"

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

TEST_WITH(requests_are_bounded_by_the_chunk_size, setup, teardown)
{
        const struct stream own = { 0 };
        const struct transport_ops *ops = a.transport->ops;

        assert_int_equal(ops->request_size(a_to_b, &own, 0, 5), 5);
        assert_true(ops->request_size(a_to_b, &own, 0, UINT64_MAX) <= WIRE_CHUNK_MAX);
        assert_true(ops->window(a_to_b) >= ops->request_size(a_to_b, &own, 0, UINT64_MAX));
}
