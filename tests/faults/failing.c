/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Allocations, threads and clocks that a test makes fail in another process (failing.h). */

#define EXPORT __attribute__((visibility("default")))

enum { RANGES_MAX = 16 };

/* Not json-c, which up to 0.16 at least uses the copy of a key without looking whether it got one. */
static const char *const libraries[] = { "libmicrohttpd.", "libcurl", "libz." };

static struct failing *failing; /* NULL = no test listens */
static struct {
        uintptr_t start, end;
} ranges[RANGES_MAX];
static size_t n_ranges;

static int note_object(struct dl_phdr_info *info, size_t size, void *context)
{
        bool wanted = !*(int *)context; /* the first one is the program */

        *(int *)context += 1;
        for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
                wanted |= strstr(info->dlpi_name, libraries[i]) != NULL;
        for (int i = 0; wanted && i < info->dlpi_phnum && n_ranges < RANGES_MAX; i++) {
                const ElfW(Phdr) *part = &info->dlpi_phdr[i];

                if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
                        continue;
                ranges[n_ranges].start = info->dlpi_addr + part->p_vaddr;
                ranges[n_ranges++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        }
        return 0;
}

__attribute__((constructor)) static void find_test(void)
{
        const char *path = getenv("FERRY_FAILING");
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1, n = 0;
        void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*failing), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (fd >= 0)
                (void)close(fd);
        if (map == MAP_FAILED)
                return;
        (void)dl_iterate_phdr(note_object, &n);
        failing = map;
}

static bool is_counted(const void *caller)
{
        for (size_t i = 0; i < n_ranges; i++)
                if ((uintptr_t)caller >= ranges[i].start && (uintptr_t)caller < ranges[i].end)
                        return true;
        return false;
}

/* Whether this call is one that fails. */
static bool is_due(atomic_long *at, long fails)
{
        long now = atomic_load(at);

        do {
                if (!now)
                        return false;
        } while (!atomic_compare_exchange_weak(at, &now, now > 1 ? now - 1 : now == 1 ? 1 - fails : now + 1));
        return now <= 1;
}

static bool fails(const void *caller)
{
        if (!failing || !atomic_load(&failing->memory_at) || !is_counted(caller) ||
            !is_due(&failing->memory_at, atomic_load(&failing->memory_fails)))
                return false;
        atomic_fetch_add(&failing->memory_failed, 1);
        return true;
}

static void *next(const char *name)
{
        return dlsym(RTLD_NEXT, name);
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static void *none(void)
{
        errno = ENOMEM;
        return NULL;
}

EXPORT void *malloc(size_t size)
{
        return fails(__builtin_return_address(0)) ? none() : __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
        return fails(__builtin_return_address(0)) ? none() : __libc_calloc(n, size);
}

EXPORT void *realloc(void *block, size_t size)
{
        return fails(__builtin_return_address(0)) ? none() : __libc_realloc(block, size);
}

EXPORT void *reallocarray(void *block, size_t n, size_t size)
{
        size_t bytes;

        if (fails(__builtin_return_address(0)) || __builtin_mul_overflow(n, size, &bytes))
                return none();
        return __libc_realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
        return fails(__builtin_return_address(0)) ? none() : __libc_memalign(alignment, size);
}

EXPORT char *strdup(const char *text)
{
        size_t size = strlen(text) + 1;
        void *copy = fails(__builtin_return_address(0)) ? none() : __libc_malloc(size);

        return copy ? memcpy(copy, text, size) : NULL;
}

EXPORT char *strndup(const char *text, size_t most)
{
        size_t size = strnlen(text, most);
        char *copy = fails(__builtin_return_address(0)) ? none() : __libc_malloc(size + 1);

        if (!copy)
                return NULL;
        copy[size] = '\0';
        return memcpy(copy, text, size);
}

/* A library that prints when it is loaded, as UCX may. */
__attribute__((constructor)) static void print_when_loaded(void)
{
        static const char text[] = "loaded\n";

        if (getenv("FERRY_FAILING_PRINTS") && write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
                abort();
}

static void *thread_main(void *argument)
{
        (void)argument;
        for (;;)
                (void)pause();
        return NULL;
}

/* A library that starts a thread when it is loaded, as UCX may. */
__attribute__((constructor)) static void start_when_loaded(void)
{
        pthread_t thread;

        if (getenv("FERRY_FAILING_STARTS") && pthread_create(&thread, NULL, thread_main, NULL) != 0)
                abort();
}

/* What asprintf is in a program that is built fortified. */
EXPORT int __asprintf_chk(char **ret_text, int flag, const char *format, ...);
EXPORT int __asprintf_chk(char **ret_text, int flag, const char *format, ...)
{
        va_list arguments;
        int n;

        if (fails(__builtin_return_address(0))) {
                errno = ENOMEM;
                return -1;
        }
        va_start(arguments, format);
        n = vasprintf(ret_text, format, arguments);
        va_end(arguments);
        return n;
}

/* UCX 1.18 aborts the process where its own thread cannot be started: it makes that in its first context. */
static bool is_of_ucx(const void *caller)
{
        Dl_info library;
        const char *name = dladdr(caller, &library) && library.dli_fname ? strrchr(library.dli_fname, '/') : NULL;

        return name && strncmp(name, "/libuc", strlen("/libuc")) == 0;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
        static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

        if (!real)
                *(void **)&real = next("pthread_create");
        if (failing && !is_of_ucx(__builtin_return_address(0)) && is_due(&failing->threads_at, LONG_MAX))
                return EAGAIN;
        return real(thread, attributes, start, argument);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
        static int (*real)(clockid_t, struct timespec *);
        int r;

        if (!real)
                *(void **)&real = next("clock_gettime");
        r = real(clock, ret_time);
        if (r == 0 && failing && clock == CLOCK_REALTIME)
                ret_time->tv_sec += atomic_load(&failing->wall_shift_s);
        return r;
}
