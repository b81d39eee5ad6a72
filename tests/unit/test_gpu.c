/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ferry/error.h>

#include "counts.h"
#include "cuda_internal.h"
#include "memory/gpu.h"
#include "unit.h"

/* On tests/cuda, which LD_LIBRARY_PATH names. What a program calls by itself goes to it directly. */

enum { SIZE = 3 << 20 };

static char faults[64], counts_path[64];
static struct standin_counts *counts; /* the driver's */
static char detail[GPU_DETAIL_SIZE];

#define CALL(name, type, ...) ((cuda_result(*) type)driver_symbol(#name))(__VA_ARGS__)

static void *driver_symbol(const char *name)
{
        static void *library;
        void *symbol;

        if (!library)
                library = dlopen("libcuda.so.1", RTLD_NOW);
        assert_non_null(library);
        symbol = dlsym(library, name);
        assert_non_null(symbol);
        return symbol;
}

static void set_faults(const char *words)
{
        FILE *file = fopen(faults, "we");

        assert_non_null(file);
        assert_true(fputs(words, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

/* What the program around the worker does: its own context, and memory in it. */
static void *program_allocate(int device, size_t size)
{
        cuda_context context;
        cuda_pointer pointer;

        assert_int_equal(CALL(cuInit, (unsigned), 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, device), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemAlloc_v2, (cuda_pointer *, size_t), &pointer, size), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        return (void *)(uintptr_t)pointer;
}

static void program_free(int device, void *address)
{
        cuda_context context;

        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, device), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemFree_v2, (cuda_pointer), (uintptr_t)address), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
}

static int store(const struct space *space, void *to, const void *from, size_t size)
{
        int r = space_copy(space, to, NULL, from, size), finished = space_finish(space, NULL);

        return r < 0 ? r : finished;
}

static int load(const struct space *space, void *to, const void *from, size_t size)
{
        int r = space_copy(NULL, to, space, from, size), finished = space_finish(NULL, space);

        return r < 0 ? r : finished;
}

static void allocate(const char *device, const struct space **space, void **address)
{
        assert_int_equal(gpu_allocate(device, SIZE, space, address, detail), 0);
}

TEST(only_well_formed_names_are_gpus)
{
        static const char *const wrong[] = { "",        "cuda",     "cuda:",  "cuda:-1", "cuda:01",
                                             "cuda:1 ", "cuda:0x1", "CUDA:0", "cpu:0",   "cuda:99999999999" };
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_false(gpu_parse(wrong[i], &n));
        assert_true(gpu_parse("cuda:0", &n));
        assert_true(gpu_parse("cuda:17", &n));
        assert_int_equal(n, 17);
}

TEST(memory_begins_as_zeros_and_keeps_what_is_stored)
{
        const struct space *space;
        char *here = malloc(SIZE), *zeros = calloc(1, SIZE);
        void *address;

        allocate("cuda:1", &space, &address);
        memset(here, 7, SIZE);
        assert_int_equal(load(space, here, address, SIZE), 0);
        assert_memory_equal(here, zeros, SIZE);
        memset(here, 9, SIZE);
        assert_int_equal(store(space, (char *)address + 100, here, 1000), 0);
        assert_int_equal(load(space, here, address, SIZE), 0);
        assert_int_equal(here[99], 0);
        assert_int_equal(here[100], 9);
        assert_int_equal(here[1099], 9);
        assert_int_equal(here[1100], 0);
        gpu_free(space);
        free(here);
        free(zeros);
}

/* Without this, the tests would prove nothing of host code that touches device memory, or that does not wait. */
TEST(the_standin_is_strict)
{
        const struct space *space;
        char here = 1;
        void *address;
        int status;
        pid_t child;

        allocate("cuda:0", &space, &address);
        assert_int_equal(space_copy(NULL, &here, space, address, 1), 0);
        assert_int_equal(here, 1);
        assert_int_equal(space_finish(NULL, space), 0);
        assert_int_equal(here, 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                (void)signal(SIGSEGV, SIG_DFL);
                *(volatile char *)address = 1;
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        gpu_free(space);
}

TEST(bytes_move_between_gpus)
{
        static const char *const devices[][2] = { { "cuda:0", "cuda:0" }, { "cuda:0", "cuda:1" } };

        for (size_t i = 0; i < 2; i++) {
                const struct space *from, *to;
                void *source, *target;
                char text[32];

                allocate(devices[i][0], &from, &source);
                allocate(devices[i][1], &to, &target);
                assert_int_equal(store(from, (char *)source + 5, "across", 7), 0);
                assert_int_equal(space_copy(to, target, from, (char *)source + 5, 7), 0);
                assert_int_equal(space_finish(to, from), 0);
                assert_int_equal(load(to, text, target, 7), 0);
                assert_string_equal(text, "across");
                gpu_free(from);
                gpu_free(to);
        }
}

TEST(what_is_no_memory_of_the_gpu_is_not_adopted)
{
        const struct space *space;
        char *address = program_allocate(0, SIZE);
        static char host[16];

        assert_int_equal(gpu_adopt("cuda:0", host, sizeof(host), &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "not memory of cuda:0"));
        assert_int_equal(gpu_adopt("cuda:1", address, SIZE, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(gpu_adopt("cuda:0", address + 1, SIZE, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "not so large"));
        assert_int_equal(gpu_adopt("cuda:0", address, SIZE_MAX, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(gpu_adopt("cuda:9", address, SIZE, &space, detail), FERRY_E_UNKNOWN_DEVICE);
        program_free(0, address);
}

/* As PyTorch does with expandable_segments: no allocation has all of a large tensor. */
static char *program_map(int device, size_t piece, size_t n)
{
        const int properties[8] = { 1, 0, 1, device }; /* of pinned memory on a device */
        cuda_pointer start;
        void *handle;

        assert_int_equal(CALL(cuMemAddressReserve, (cuda_pointer *, size_t, size_t, cuda_pointer, uint64_t), &start,
                              n * piece, 0, 0, 0),
                         CUDA_SUCCESS);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(
                        CALL(cuMemCreate, (void **, size_t, const int *, uint64_t), &handle, piece, properties, 0),
                        CUDA_SUCCESS);
                assert_int_equal(CALL(cuMemMap, (cuda_pointer, size_t, size_t, void *, uint64_t), start + i * piece,
                                      piece, 0, handle, 0),
                                 CUDA_SUCCESS);
                assert_int_equal(CALL(cuMemRelease, (void *), handle), CUDA_SUCCESS);
        }
        return (char *)(uintptr_t)start;
}

TEST(memory_mapped_from_pieces_is_adopted_and_only_copied)
{
        enum { PIECE = 2 << 20, LENGTH = 5 << 20 };
        const struct space *space;
        struct gpu_share share;
        char *address = program_map(0, PIECE, 3), *here = malloc(LENGTH), *back = malloc(LENGTH);

        for (size_t i = 0; i < LENGTH; i++)
                here[i] = (char)(i / 4096);
        assert_int_equal(gpu_adopt("cuda:0", address + 100, 3 * PIECE - 99, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "not so large"));
        assert_int_equal(gpu_adopt("cuda:0", address + 100, LENGTH, &space, detail), 0);
        assert_true(space->only_copied);
        assert_int_equal(gpu_share(space, &share), -ENOTSUP);
        assert_int_equal(store(space, address + 100, here, LENGTH), 0);
        assert_int_equal(load(space, back, address + 100, LENGTH), 0);
        assert_memory_equal(back, here, LENGTH);
        gpu_free(space);
        free(here);
        free(back);
}

/* As PyCUDA's is: copies of the primary context do not reach it. */
TEST(memory_of_another_context_is_refused_with_the_reason)
{
        const struct space *space;
        cuda_context context;
        cuda_pointer pointer;

        assert_int_equal(CALL(cuInit, (unsigned), 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxCreate_v2, (cuda_context *, unsigned, cuda_device), &context, 0, 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemAlloc_v2, (cuda_pointer *, size_t), &pointer, SIZE), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        assert_int_equal(gpu_adopt("cuda:0", (void *)(uintptr_t)pointer, SIZE, &space, detail),
                         FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "primary"));
        program_free(0, (void *)(uintptr_t)pointer);
        free(context);
}

/* It may be on the host when a card or another process looks at the device. */
TEST(managed_memory_is_adopted_and_only_copied)
{
        const struct space *space;
        struct gpu_share share;
        cuda_context context;
        cuda_pointer pointer;
        char byte = 'm';

        assert_int_equal(CALL(cuInit, (unsigned), 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemAllocManaged, (cuda_pointer *, size_t, unsigned), &pointer, SIZE, 1), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        void *address = (void *)(uintptr_t)pointer;
        assert_int_equal(gpu_adopt("cuda:0", address, SIZE, &space, detail), 0);
        assert_true(space->only_copied);
        assert_int_equal(gpu_share(space, &share), -ENOTSUP);
        assert_int_equal(store(space, address, &byte, 1), 0);
        byte = 0;
        assert_int_equal(load(space, &byte, address, 1), 0);
        assert_int_equal(byte, 'm');
        gpu_free(space);
        program_free(0, address);
}

TEST(memory_that_the_program_frees_is_not_touched_again)
{
        const struct space *space;
        char *address = program_allocate(0, SIZE), *again;
        char byte;

        assert_int_equal(gpu_adopt("cuda:0", address + 4096, SIZE - 4096, &space, detail), 0);
        assert_int_equal(store(space, address + 4096, "x", 1), 0);
        program_free(0, address);
        assert_int_equal(load(space, &byte, address + 4096, 1), -EFAULT);
        /* The driver gives the same address to what comes next. */
        again = program_allocate(0, SIZE);
        if (again == address)
                assert_int_equal(store(space, address + 4096, "y", 1), -EFAULT);
        assert_non_null(strstr(space_error(-EFAULT), "freed"));
        gpu_free(space);
        program_free(0, again);
}

/* A check before the first copy does not find it. */
TEST(memory_that_the_program_frees_between_copies_fails_them)
{
        const struct space *space;
        char *address = program_allocate(0, SIZE), *again;

        assert_int_equal(gpu_adopt("cuda:0", address, SIZE, &space, detail), 0);
        assert_int_equal(space_copy(space, address, NULL, "x", 1), 0);
        program_free(0, address);
        again = program_allocate(0, SIZE);
        if (again == address)
                assert_int_equal(space_copy(space, address, NULL, "y", 1), 0);
        assert_int_equal(space_finish(space, NULL), -EFAULT);
        gpu_free(space);
        program_free(0, again);
}

/* A GPU that no other test uses, for it stays gone. */
TEST(a_gpu_that_the_program_has_reset_and_uses_again_is_gone)
{
        static char pinned[128 << 10];
        struct gpu_pin pin = { .address = pinned, .size = sizeof(pinned) };
        const struct space *space, *other;
        void *address, *unused;
        char *again, *buffer, byte;

        assert_int_equal(setenv("CUDA_STANDIN_DEVICES", "4", 1), 0);
        allocate("cuda:3", &space, &address);
        assert_int_equal(store(space, address, "x", 1), 0);
        buffer = gpu_host_new(3, SIZE);
        gpu_pin_use(&pin, 3, sizeof(pinned));
        gpu_pin_use(&pin, 3, 1);
        assert_true(gpu_is_pinned(&pin));
        assert_int_equal(CALL(cuDevicePrimaryCtxReset_v2, (cuda_device), 3), CUDA_SUCCESS);
        assert_int_equal(load(space, &byte, address, 1), -ENODEV);
        again = program_allocate(3, SIZE);
        assert_int_equal(load(space, &byte, address, 1), -ENODEV);
        assert_int_equal(store(space, address, "y", 1), -ENODEV);
        assert_int_equal(gpu_allocate("cuda:3", SIZE, &other, &unused, detail), FERRY_E_UNKNOWN_DEVICE);
        assert_non_null(strstr(detail, "reset"));
        assert_int_equal(gpu_adopt("cuda:3", again, SIZE, &other, detail), FERRY_E_UNKNOWN_DEVICE);
        memset(buffer, 7, SIZE); /* is still there */
        gpu_host_free(3, buffer);
        gpu_pin_end(&pin);
        gpu_free(space); /* and not what may have its address now */
        program_free(3, again);
        assert_int_equal(unsetenv("CUDA_STANDIN_DEVICES"), 0);
}

TEST(a_gpu_that_is_gone_says_so)
{
        const struct space *space, *other;
        void *address;
        char byte;

        allocate("cuda:0", &space, &address);
        set_faults("gone");
        assert_int_equal(load(space, &byte, address, 1), -ENODEV);
        assert_int_equal(gpu_allocate("cuda:0", SIZE, &other, &address, detail), FERRY_E_UNKNOWN_DEVICE);
        assert_non_null(strstr(detail, "gone"));
        set_faults("");
        gpu_free(space);
}

TEST(a_gpu_without_room_says_so)
{
        const struct space *space;
        void *address;

        assert_int_equal(gpu_allocate("cuda:0", SIZE_MAX / 2, &space, &address, detail), FERRY_E_NO_SPACE);
        assert_non_null(strstr(detail, "no room"));
}

/* The other process: opens what it gets, and answers with its first byte, or the error. */
static void serve_open(int fd)
{
        struct gpu_share share;

        while (read(fd, &share, sizeof(share)) == (ssize_t)sizeof(share)) {
                const struct space *space;
                const void *address;
                char byte = 0;
                int answer = gpu_open(&share, SIZE, &space, &address);

                if (answer == 0) {
                        answer = load(space, &byte, address, 1);
                        answer = answer == 0 ? byte : answer;
                        gpu_close(space);
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

        (void)snprintf(faults, sizeof(faults), "/tmp/ferry-unit-gpu-%d", (int)getpid());
        (void)snprintf(counts_path, sizeof(counts_path), "/tmp/ferry-unit-gpu-counts-%d", (int)getpid());
        counts = standin_counts_new(counts_path);
        if (!counts || setenv("CUDA_STANDIN_FAULTS", faults, 1) != 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
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
        (void)unlink(faults);
        (void)unlink(counts_path);
        return waitpid(other_pid, &status, 0) == other_pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

TEST(another_process_opens_what_is_shared)
{
        char *address = program_allocate(1, 2 * SIZE);
        const struct space *space;
        struct gpu_share share, wrong;

        assert_int_equal(gpu_adopt("cuda:1", address + 64, SIZE, &space, detail), 0);
        assert_int_equal(store(space, address + 64, "q", 1), 0);
        assert_int_equal(gpu_share(space, &share), 0);
        assert_int_equal(share.offset, 64);
        assert_int_equal(ask(other, &share), 'q');
        wrong = share;
        wrong.offset = 2 * SIZE;
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
        assert_int_equal(gpu_open(&share, SIZE, &opened, &address), 0);
        assert_int_equal(load(opened, &byte, address, 1), 0);
        assert_int_equal(byte, 's');
        gpu_close(opened);
        assert_int_equal(gpu_open(&share, SIZE + 1, &opened, &address), -EBADMSG);
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

TEST(host_memory_that_is_copied_again_is_pinned_until_it_goes)
{
        static char host[128 << 10];
        struct gpu_pin pin = { .address = host, .size = sizeof(host) }, inside = { .address = host, .size = 64 << 10 };
        struct gpu_pin small = { .address = host, .size = 4096 };
        int before = counts->pins;
        const struct space *space;
        void *memory;

        allocate("cuda:0", &space, &memory);
        gpu_pin_use(&pin, 0, sizeof(host));
        assert_int_equal(counts->pins, before); /* it may never be used again */
        gpu_pin_use(&pin, 0, 1);
        gpu_pin_use(&pin, 0, 1);
        assert_int_equal(counts->pins, before + 1);
        for (int i = 0; i < 3; i++) {
                gpu_pin_use(&inside, 0, sizeof(host)); /* the driver refuses what overlaps */
                gpu_pin_use(&small, 0, sizeof(host));
        }
        assert_int_equal(counts->pins, before + 1);
        gpu_pin_end(&inside);
        gpu_pin_end(&small);
        assert_int_equal(counts->pins, before + 1);
        gpu_pin_end(&pin);
        assert_int_equal(counts->pins, before);
        gpu_free(space);
}

TEST(memory_is_pinned_and_unpinned_by_the_gpu_that_copies_it)
{
        static char host[128 << 10];
        struct gpu_pin pin = { .address = host, .size = sizeof(host) };
        int before = counts->pins;
        const struct space *space, *hung;
        void *memory, *buffer;

        allocate("cuda:0", &hung, &memory);
        allocate("cuda:1", &space, &memory);
        set_faults("hung0");
        gpu_pin_use(&pin, 1, sizeof(host));
        gpu_pin_use(&pin, 1, 1);
        buffer = gpu_host_new(1, SIZE);
        assert_int_equal(counts->pins, before + 2);
        gpu_host_free(1, buffer);
        gpu_pin_end(&pin);
        assert_int_equal(counts->pins, before);
        set_faults("");
        gpu_free(space);
        gpu_free(hung);
}

static void *start_third(void *context)
{
        allocate("cuda:2", context, &(void *){ NULL });
        return NULL;
}

TEST(a_gpu_that_does_not_start_holds_up_no_other)
{
        const struct space *space, *third;
        pthread_t thread;
        void *memory, *buffer;

        assert_int_equal(setenv("CUDA_STANDIN_DEVICES", "3", 1), 0);
        allocate("cuda:1", &space, &memory);
        set_faults("hung2");
        assert_int_equal(pthread_create(&thread, NULL, start_third, &third), 0);
        while (counts->starting == 0)
                (void)sched_yield();
        buffer = gpu_host_new(1, SIZE);
        assert_non_null(buffer);
        gpu_host_free(1, buffer);
        gpu_free(space);
        allocate("cuda:0", &space, &memory);
        gpu_free(space);
        assert_int_equal(counts->starting, 1);
        set_faults("");
        assert_int_equal(pthread_join(thread, NULL), 0);
        gpu_free(third);
        assert_int_equal(unsetenv("CUDA_STANDIN_DEVICES"), 0);
}

TEST(a_buffer_is_pinned_from_the_start)
{
        uint64_t pageable = counts->pageable, pinned = counts->pinned;
        int pins = counts->pins;
        const struct space *space;
        void *memory, *host;

        allocate("cuda:0", &space, &memory);
        host = gpu_host_new(0, SIZE);
        assert_non_null(host);
        assert_int_equal(load(space, host, memory, SIZE), 0);
        assert_int_equal(counts->pinned, pinned + SIZE);
        assert_int_equal(counts->pageable, pageable);
        assert_int_equal(counts->pins, pins + 1);
        gpu_host_free(0, host);
        set_faults("pin");
        host = gpu_host_new(0, SIZE);
        assert_non_null(host);
        assert_int_equal(counts->pins, pins);
        gpu_host_free(0, host);
        set_faults("");
        gpu_host_free(0, NULL);
        gpu_free(space);
}

static void *copy_once(void *context)
{
        void **memory = context;
        char byte;

        assert_int_equal(load(memory[0], &byte, memory[1], 1), 0);
        return NULL;
}

TEST(threads_that_have_copied_may_end)
{
        const struct space *space;
        void *address;

        allocate("cuda:0", &space, &address);
        for (int i = 0; i < 3; i++) {
                void *memory[] = { (void *)(uintptr_t)space, address };
                pthread_t thread;

                assert_int_equal(pthread_create(&thread, NULL, copy_once, memory), 0);
                assert_int_equal(pthread_join(thread, NULL), 0);
        }
        gpu_free(space);
}

TEST_GROUP(start_other, stop_other)
