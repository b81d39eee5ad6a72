/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/copy.h"
#include "base/space.h"

/*
 * Copies of bulk: past the caches (copy.h), and of memory that is not the host's (space.h), whose own functions do
 * them. Any thread.
 */

/* ---- past the caches ---- */

#ifdef __SSE2__
#include <immintrin.h>

enum { LINE = 64, PAGE = 4096, PAGES = 4 };

/* A cache line, for processors without AVX and for the ends of a copy. */
static void copy_line(char *to, const char *from)
{
        __m128i parts[LINE / sizeof(__m128i)];

        for (size_t i = 0; i < LINE / sizeof(__m128i); i++)
                parts[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * sizeof(__m128i)));
        for (size_t i = 0; i < LINE / sizeof(__m128i); i++)
                _mm_stream_si128((__m128i *)(void *)(to + i * sizeof(__m128i)), parts[i]);
}

/* Two lines in four registers. */
struct run {
        __m256i parts[4];
};

#define AVX __attribute__((target("avx")))

AVX static inline struct run load_run(const char *from)
{
        const __m256i *in = (const __m256i *)(const void *)from;

        return (struct run){ { _mm256_loadu_si256(in), _mm256_loadu_si256(in + 1), _mm256_loadu_si256(in + 2),
                               _mm256_loadu_si256(in + 3) } };
}

AVX static inline void store_run(char *to, struct run run)
{
        __m256i *out = (__m256i *)(void *)to;

        _mm256_stream_si256(out, run.parts[0]);
        _mm256_stream_si256(out + 1, run.parts[1]);
        _mm256_stream_si256(out + 2, run.parts[2]);
        _mm256_stream_si256(out + 3, run.parts[3]);
}

/*
 * Copies two cache lines of each of four pages in turn, as glibc does: more memory banks work at a time. All loads come
 * before the stores: AMD's processors take a load for dependent on an earlier store at the same place of another page,
 * and a loop that loads and stores page after page makes 3.0 GB/s there instead of 8.2, at 256 MiB.
 */
AVX static void copy_pages(char *to, const char *from)
{
        for (size_t at = 0; at < PAGE; at += sizeof(struct run)) {
                struct run first = load_run(from + at);
                struct run second = load_run(from + at + PAGE);
                struct run third = load_run(from + at + 2 * PAGE);
                struct run fourth = load_run(from + at + 3 * PAGE);

                store_run(to + at, first);
                store_run(to + at + PAGE, second);
                store_run(to + at + 2 * PAGE, third);
                store_run(to + at + 3 * PAGE, fourth);
        }
}

void copy_past_caches(void *to, const void *from, size_t size)
{
        const bool pages = __builtin_cpu_supports("avx");
        char *out = to;
        const char *in = from;
        size_t head = -(uintptr_t)to % LINE;

        if (size < head + LINE) {
                memcpy(out, in, size);
                return;
        }
        memcpy(out, in, head);
        out += head;
        in += head;
        size -= head;
        for (; pages && size >= (size_t)PAGES * PAGE; size -= (size_t)PAGES * PAGE) {
                copy_pages(out, in);
                out += (size_t)PAGES * PAGE;
                in += (size_t)PAGES * PAGE;
        }
        for (; size >= LINE; size -= LINE) {
                copy_line(out, in);
                out += LINE;
                in += LINE;
        }
        memcpy(out, in, size);
}

void copy_past_caches_end(void)
{
        _mm_sfence(); /* orders the non-temporal stores before later ones */
}

#else

/*
 * Plain memcpy on arm64: it has STNP, but Neoverse and later Cortex cores detect streams of whole lines by themselves,
 * and do not allocate them in the cache. Plain stores need no fence either: the lock or system call that publishes the
 * bytes has one.
 */
void copy_past_caches(void *to, const void *from, size_t size)
{
        memcpy(to, from, size);
}

void copy_past_caches_end(void)
{
}

#endif

/* ---- off the host ---- */

int space_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from, size_t size)
{
        const struct space *space = to_space && (!from_space || !from_space->ops->any) ? to_space : from_space;

        if (space)
                return space->ops->copy(to_space, to, from_space, from, size);
        memcpy(to, from, size);
        return 0;
}

int space_finish(const struct space *to_space, const struct space *from_space)
{
        int to = to_space ? to_space->ops->finish(to_space) : 0;
        int from =
                from_space && (!to_space || from_space->ops != to_space->ops) ? from_space->ops->finish(from_space) : 0;

        return to < 0 ? to : from;
}

int space_check(const struct space *space)
{
        return space->ops->check(space);
}

const char *space_error(int error)
{
        switch (error) {
        case -EFAULT:
                return "the program has freed the GPU memory";
        case -ENODEV:
                return "a GPU is gone or was reset";
        case -EROFS:
                return "the program has mapped the memory read-only: as a destination, give memory that can be written";
        case -ENXIO:
                return "the program has unmapped the memory, or made it unreadable";
        case -ENODATA:
                return "the file behind the memory has become shorter than its mapping, or cannot be read or written";
        case -EMFILE:
        case -ENFILE:
                return "too many open files";
        case -EFBIG:
                return "the limit of a file's bytes (RLIMIT_FSIZE, ulimit -f) is too low to copy mapped files";
        case -ENOMEM:
        case -ENOSPC:
                return "out of memory";
        default:
                return "GPU memory could not be copied";
        }
}
