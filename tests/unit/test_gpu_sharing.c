/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu_fixture.h"
#include "unit.h"

/* GPU memory that two processes have in common. */

/* The other process: opens what it gets, and answers with its first byte, or the error. */
static void serve_open(int fd)
{
        struct gpu_share share;

        while (read(fd, &share, sizeof(share)) == (ssize_t)sizeof(share)) {
                const struct space *space;
                const void *address;
                char byte = 0;
                int answer = gpu_open(&share, GPU_SIZE, &space, &address);

                if (answer == 0) {
                        answer = load(space, &byte, address, 1);
                        answer = answer == 0 ? byte : answer;
                        gpu_free(space);
                }
                if (write(fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
                        break;
        }
        _exit(0);
}

static int ask(int fd, const struct gpu_share *share)
{
        int answer;

        assert_int_equal(write(fd, share, sizeof(*share)), sizeof(*share));
        assert_int_equal(read(fd, &answer, sizeof(answer)), sizeof(answer));
        return answer;
}

static int other, other_pid;

/* CUDA cannot be used after a fork, so the other process begins before the first call. */
static int start_other(void **state)
{
        int fds[2];

        if (gpu_setup(state) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return -1;
        other_pid = fork();
        if (other_pid == 0) {
                (void)close(fds[0]);
                serve_open(fds[1]);
        }
        (void)close(fds[1]);
        other = fds[0];
        return other_pid < 0 ? -1 : 0;
}

static int stop_other(void **state)
{
        int status;

        (void)close(other);
        (void)gpu_teardown(state);
        return waitpid(other_pid, &status, 0) == other_pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

TEST(another_process_opens_what_is_shared)
{
        char *address = program_allocate(1, 2 * GPU_SIZE);
        const struct space *space;
        struct gpu_share share, wrong;

        assert_int_equal(gpu_adopt("cuda:1", address + 64, GPU_SIZE, &space, detail), 0);
        assert_int_equal(store(space, address + 64, "q", 1), 0);
        assert_int_equal(gpu_share(space, &share), 0);
        assert_int_equal(share.offset, 64);
        assert_int_equal(ask(other, &share), 'q');
        set_faults("range");
        assert_int_equal(ask(other, &share), 'q');
        set_faults("");
        wrong = share;
        wrong.offset = 2 * GPU_SIZE;
        assert_int_equal(ask(other, &wrong), -EBADMSG);
        wrong.offset = UINT64_MAX;
        assert_int_equal(ask(other, &wrong), -EBADMSG);
        wrong = share;
        wrong.device[0] ^= 1;
        assert_int_equal(ask(other, &wrong), -ENODEV);
        wrong = share;
        wrong.handle[0] ^= 1;
        assert_int_equal(ask(other, &wrong), -ENOTSUP);
        gpu_free(space);
        program_free(1, address);
}

TEST(a_process_opens_what_it_has_shared_itself)
{
        const struct space *space, *opened;
        struct gpu_share share;
        const void *address;
        void *memory;
        char byte;

        allocate("cuda:0", &space, &memory);
        assert_int_equal(store(space, memory, "s", 1), 0);
        assert_int_equal(gpu_share(space, &share), 0);
        assert_int_equal(gpu_open(&share, GPU_SIZE, &opened, &address), 0);
        assert_int_equal(load(opened, &byte, address, 1), 0);
        assert_int_equal(byte, 's');
        gpu_free(opened);
        assert_int_equal(gpu_open(&share, GPU_SIZE + 1, &opened, &address), -EBADMSG);
        gpu_free(space);
        set_faults("share");
        allocate("cuda:0", &space, &memory);
        assert_int_equal(gpu_share(space, &share), -ENOTSUP);
        gpu_free(space);
        set_faults("");
}

static time_t ahead_s; /* of CLOCK_REALTIME, which is set back once it was read */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
        int r = __real_clock_gettime(clock, now);

        if (clock == CLOCK_REALTIME)
                now->tv_sec += ahead_s;
        return r;
}

TEST(a_clock_that_is_set_back_prolongs_no_wait_for_a_peer)
{
        const struct space *space;
        struct timespec before, after;
        void *address;

        allocate("cuda:1", &space, &address);
        gpu_note_opened(space);
        ahead_s = 5;
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &before), 0);
        assert_false(gpu_await_closed(space, 10));
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &after), 0);
        ahead_s = 0;
        assert_true(after.tv_sec - before.tv_sec < 4);
        gpu_note_closed(space);
        assert_true(gpu_await_closed(space, 10));
        gpu_free(space);
}

/* A peer that stood still closes it later than a worker waits: ASan would see a use after the end. */
TEST(a_peer_may_close_what_was_freed)
{
        const struct space *space;
        void *address;

        allocate("cuda:1", &space, &address);
        gpu_note_opened(space);
        gpu_note_opened(space);
        gpu_free(space);
        gpu_note_closed(space);
        assert_false(gpu_await_closed(space, 1));
        gpu_note_closed(space);
}

TEST_GROUP(start_other, stop_other)
