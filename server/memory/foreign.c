/* SPDX-License-Identifier: Apache-2.0 */
#include "region_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "memory/gpu.h"

_Static_assert((int)SPACE_NO_GPU >= (int)GPU_MAX, "no GPU has the number");

/*
 * Copies go through the window of the thread, a memfd that is mapped: pwrite() reads foreign memory, and pread() writes
 * it, and both fail with EFAULT where an access by the process would raise SIGBUS or SIGSEGV. They are ordinary system
 * calls, which every container allows; process_vm_readv() is not.
 */
enum { WINDOW = 256 << 10 /* bytes; stays in the processor's caches */ };

struct foreign {
        struct space space;
        struct maps *maps; /* the table's */
};

/* ---- windows ---- */

static pthread_key_t window_key;

static void window_free(void *context)
{
        pages_free(context);
        free(context);
}

static void make_key(void)
{
        (void)pthread_key_create(&window_key, window_free);
}

static int window_new(struct pages **ret_window)
{
        struct pages *window = calloc(1, sizeof(*window));
        atomic_bool huge = false;
        int r = window ? pages_new(0, WINDOW, window) : -ENOMEM;

        if (r == 0) {
                r = pages_fill(window, 0, WINDOW, &huge);
                if (r == 0)
                        r = -pthread_setspecific(window_key, window);
                if (r < 0)
                        pages_free(window);
        }
        if (r < 0) {
                free(window);
                return r;
        }
        *ret_window = window;
        return 0;
}

/* Of the calling thread. 0 or -errno. */
static int window_get(struct pages **ret_window)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        if (!pages_may_have(WINDOW)) /* also of a window that is there: pwrite() would raise SIGXFSZ */
                return -EFBIG;
        (void)pthread_once(&once, make_key);
        *ret_window = pthread_getspecific(window_key);
        return *ret_window ? 0 : window_new(ret_window);
}

/* ---- copies ---- */

/* Why the kernel could not copy from or into memory that begins at address. */
static int cause_of(const struct foreign *foreign, const void *address, bool store)
{
        struct maps_facts facts;

        maps_look(foreign->maps, address, 1, &facts);
        if (!facts.mapped)
                return -ENXIO;
        return store && !facts.writable ? -EROFS : -ENODATA;
}

/* Moves size bytes between the window and memory. */
static int move(const struct foreign *foreign, const struct pages *window, uint8_t *address, size_t size, bool store)
{
        for (size_t done = 0; done < size;) {
                ssize_t n = store ? pread(window->fd, address + done, size - done, (off_t)done)
                                  : pwrite(window->fd, address + done, size - done, (off_t)done);

                if (n > 0)
                        done += (size_t)n;
                else if (n == 0 || errno == EFAULT)
                        return cause_of(foreign, address + done, store);
                else if (errno != EINTR)
                        return -errno;
        }
        return 0;
}

/* Copies between the window and memory of any space, and waits for it. */
static int copy_part(const struct space_ops *ops, const struct space *space, struct pages *window, uint8_t *address,
                     size_t size, bool store)
{
        int r, finished;

        if (space && space->ops == ops)
                return move(FERRY_CONTAINER_OF(space, struct foreign, space), window, address, size, store);
        r = store ? space_copy(space, address, NULL, window->address, size)
                  : space_copy(NULL, window->address, space, address, size);
        finished = space_finish(space, NULL);
        return r < 0 ? r : finished;
}

static int foreign_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                        size_t size);

static int foreign_finish(const struct space *space)
{
        (void)space;
        return 0;
}

/* foreign_copy finds out. */
static int foreign_check(const struct space *space)
{
        (void)space;
        return 0;
}

static const struct space_ops foreign_ops = {
        .copy = foreign_copy, .finish = foreign_finish, .check = foreign_check, .any = true
};

static int foreign_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                        size_t size)
{
        struct pages *window;
        int r = window_get(&window);

        for (size_t done = 0, part; done < size && r == 0; done += part) {
                part = size - done < WINDOW ? size - done : WINDOW;
                r = copy_part(&foreign_ops, from_space, window, (uint8_t *)(uintptr_t)from + done, part, false);
                if (r == 0)
                        r = copy_part(&foreign_ops, to_space, window, (uint8_t *)to + done, part, true);
        }
        return r;
}

/* ---- life ---- */

int foreign_adopt(struct maps *maps, void *address, size_t size, const struct space **ret_space, bool *ret_read_only)
{
        struct foreign *foreign;
        struct maps_facts facts;

        maps_look(maps, address, size, &facts);
        *ret_read_only = !facts.writable;
        *ret_space = NULL;
        if (facts.mapped && facts.steady)
                return 0;
        foreign = malloc(sizeof(*foreign));
        if (!foreign)
                return -ENOMEM;
        *foreign = (struct foreign){
                .space = { .ops = &foreign_ops, .foreign = true, .only_copied = true, .device = SPACE_NO_GPU },
                .maps = maps,
        };
        *ret_space = &foreign->space;
        return 0;
}

void foreign_free(const struct space *space)
{
        if (space)
                free(FERRY_CONTAINER_OF(space, struct foreign, space));
}

int foreign_check_writable(struct maps *maps, const void *address, size_t size)
{
        struct maps_facts facts;

        maps_look(maps, address, size, &facts);
        if (facts.writable)
                return 0;
        return facts.mapped ? -EROFS : -ENXIO;
}
