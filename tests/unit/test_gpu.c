/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/error.h>

#include "gpu_fixture.h"
#include "unit.h"

TEST(only_well_formed_names_are_gpus)
{
        unsigned n = 0;

        FOR_EACH_TEXT (text, "", "cuda", "cuda:", "cuda:-1", "cuda:01", "cuda:1 ", "cuda:0x1", "CUDA:0", "cpu:0",
                       "cuda:99999999999")
                assert_false(gpu_parse(text, &n));
        assert_true(gpu_parse("cuda:0", &n));
        assert_true(gpu_parse("cuda:17", &n));
        assert_int_equal(n, 17);
}

/* An IPC handle exposes the whole block of 2 MiB that small allocations of a process share. */
TEST(a_small_region_shares_no_block_of_the_driver)
{
        const struct space *space;
        cuda_context context;
        cuda_pointer base;
        void *address;
        char last = 1;
        size_t range;

        assert_int_equal(gpu_allocate("cuda:0", 1, &space, &address, detail), 0);
        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemGetAddressRange_v2, (cuda_pointer *, size_t *, cuda_pointer), &base, &range,
                              (cuda_pointer)(uintptr_t)address),
                         CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuDevicePrimaryCtxRelease_v2, (cuda_device), 0), CUDA_SUCCESS);
        assert_int_equal(range, 2 << 20);
        assert_int_equal(load(space, &last, (char *)address + range - 1, 1), 0);
        assert_int_equal(last, 0); /* not of what was freed there */
        gpu_free(space);
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
        char *address = program_allocate(0, GPU_SIZE);
        static char host[16];

        assert_int_equal(gpu_adopt("cuda:0", host, sizeof(host), &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "not memory of cuda:0"));
        assert_int_equal(gpu_adopt("cuda:1", address, GPU_SIZE, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(gpu_adopt("cuda:0", address + 1, GPU_SIZE, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "is smaller"));
        assert_int_equal(gpu_adopt("cuda:0", address, SIZE_MAX, &space, detail), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(gpu_adopt("cuda:9", address, GPU_SIZE, &space, detail), FERRY_E_UNKNOWN_DEVICE);
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
        assert_non_null(strstr(detail, "is smaller"));
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
        assert_int_equal(CALL(cuMemAlloc_v2, (cuda_pointer *, size_t), &pointer, GPU_SIZE), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        assert_int_equal(gpu_adopt("cuda:0", (void *)(uintptr_t)pointer, GPU_SIZE, &space, detail),
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
        assert_int_equal(CALL(cuMemAllocManaged, (cuda_pointer *, size_t, unsigned), &pointer, GPU_SIZE, 1),
                         CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        void *address = (void *)(uintptr_t)pointer;
        assert_int_equal(gpu_adopt("cuda:0", address, GPU_SIZE, &space, detail), 0);
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
        char *address = program_allocate(0, GPU_SIZE), *again;
        char byte;

        assert_int_equal(gpu_adopt("cuda:0", address + 4096, GPU_SIZE - 4096, &space, detail), 0);
        assert_int_equal(store(space, address + 4096, "x", 1), 0);
        program_free(0, address);
        assert_int_equal(load(space, &byte, address + 4096, 1), -EFAULT);
        /* The driver gives the same address to what comes next. */
        again = program_allocate(0, GPU_SIZE);
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
        char *address = program_allocate(0, GPU_SIZE), *again;

        assert_int_equal(gpu_adopt("cuda:0", address, GPU_SIZE, &space, detail), 0);
        assert_int_equal(space_copy(space, address, NULL, "x", 1), 0);
        program_free(0, address);
        assert_int_equal(space_copy(space, address, NULL, "y", 1), -EFAULT);
        assert_int_equal(space_finish(space, NULL), -EFAULT);

        address = program_allocate(0, GPU_SIZE);
        gpu_free(space);
        assert_int_equal(gpu_adopt("cuda:0", address, GPU_SIZE, &space, detail), 0);
        assert_int_equal(space_copy(space, address, NULL, "x", 1), 0);
        program_free(0, address);
        again = program_allocate(0, GPU_SIZE);
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
        buffer = gpu_host_new(3, GPU_SIZE);
        gpu_pin_use(&pin, 3, sizeof(pinned));
        gpu_pin_use(&pin, 3, 1);
        assert_true(gpu_is_pinned(&pin));
        assert_int_equal(CALL(cuDevicePrimaryCtxReset_v2, (cuda_device), 3), CUDA_SUCCESS);
        assert_int_equal(load(space, &byte, address, 1), -ENODEV);
        again = program_allocate(3, GPU_SIZE);
        assert_int_equal(load(space, &byte, address, 1), -ENODEV);
        assert_int_equal(store(space, address, "y", 1), -ENODEV);
        assert_int_equal(gpu_allocate("cuda:3", GPU_SIZE, &other, &unused, detail), FERRY_E_UNKNOWN_DEVICE);
        assert_non_null(strstr(detail, "reset"));
        assert_int_equal(gpu_adopt("cuda:3", again, GPU_SIZE, &other, detail), FERRY_E_UNKNOWN_DEVICE);
        memset(buffer, 7, GPU_SIZE); /* is still there */
        gpu_host_free(3, buffer);
        gpu_pin_end(&pin);
        gpu_free(space); /* and not what may have its address now */
        program_free(3, again);
        assert_int_equal(unsetenv("CUDA_STANDIN_DEVICES"), 0);
}

TEST(a_program_that_captures_a_graph_hinders_nothing)
{
        const struct space *allocated, *adopted;
        void *address, *memory = program_allocate(0, GPU_SIZE);
        void *buffer;
        cuda_pointer other;
        cuda_context context;
        char byte = 1;

        set_faults("capture");
        assert_int_equal(gpu_adopt("cuda:0", memory, GPU_SIZE, &adopted, detail), 0);
        allocate("cuda:0", &allocated, &address);
        assert_int_equal(store(adopted, memory, "x", 1), 0);
        assert_int_equal(space_copy(allocated, address, adopted, memory, 1), 0);
        assert_int_equal(space_finish(allocated, adopted), 0);
        assert_int_equal(load(allocated, &byte, address, 1), 0);
        assert_int_equal(byte, 'x');
        buffer = gpu_host_new(0, GPU_SIZE);
        assert_int_equal(counts->pins, 1);
        gpu_host_free(0, buffer);
        assert_int_equal(counts->pins, 0);
        gpu_free(allocated);
        gpu_free(adopted);

        /* The program's own mode is as it was. */
        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemAlloc_v2, (cuda_pointer *, size_t), &other, 1),
                         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        set_faults("");
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuDevicePrimaryCtxRelease_v2, (cuda_device), 0), CUDA_SUCCESS);
        program_free(0, memory);
}

TEST(a_gpu_that_is_gone_says_so)
{
        const struct space *space, *other;
        void *address;
        char byte;

        allocate("cuda:0", &space, &address);
        set_faults("gone");
        assert_int_equal(load(space, &byte, address, 1), -ENODEV);
        assert_int_equal(gpu_allocate("cuda:0", GPU_SIZE, &other, &address, detail), FERRY_E_UNKNOWN_DEVICE);
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

TEST_GROUP(gpu_setup, gpu_teardown)
