/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "gpu_fixture.h"
#include "unit.h"

/* The host's side of copies: its memory, which is pinned for them, and its threads. */

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
        buffer = gpu_host_new(1, GPU_SIZE);
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
        buffer = gpu_host_new(1, GPU_SIZE);
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
        host = gpu_host_new(0, GPU_SIZE);
        assert_non_null(host);
        assert_int_equal(load(space, host, memory, GPU_SIZE), 0);
        assert_int_equal(counts->pinned, pinned + GPU_SIZE);
        assert_int_equal(counts->pageable, pageable);
        assert_int_equal(counts->pins, pins + 1);
        gpu_host_free(0, host);
        set_faults("pin");
        host = gpu_host_new(0, GPU_SIZE);
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

TEST_GROUP(gpu_setup, gpu_teardown)
