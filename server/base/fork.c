/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/util.h"

enum { WORD_BITS = 64, FDS_MAX = 1 << 16 /* higher descriptors stay open in a child */ };

static atomic_uint generation;
static _Atomic uint64_t private_fds[FDS_MAX / WORD_BITS]; /* bit fd % 64 of word fd / 64 */

/* Must be async-signal-safe: other threads of the parent may have held any lock. */
static void in_child(void)
{
        atomic_fetch_add(&generation, 1);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(private_fds); i++)
                for (uint64_t bits = atomic_exchange(&private_fds[i], 0); bits; bits &= bits - 1)
                        (void)close((int)i * WORD_BITS + __builtin_ctzll(bits));
}

static void watch(void)
{
        (void)pthread_atfork(NULL, NULL, in_child);
}

static void watch_once(void)
{
        static pthread_once_t watched = PTHREAD_ONCE_INIT;

        (void)pthread_once(&watched, watch);
}

unsigned fork_generation(void)
{
        watch_once();
        return atomic_load_explicit(&generation, memory_order_relaxed);
}

void fork_private(int fd)
{
        watch_once();
        if (fd < FDS_MAX)
                atomic_fetch_or(&private_fds[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS));
}

int fork_private_close(int fd)
{
        if (fd < 0)
                return 0;
        if (fd < FDS_MAX)
                atomic_fetch_and(&private_fds[fd / WORD_BITS], ~(UINT64_C(1) << (fd % WORD_BITS)));
        return close(fd);
}
