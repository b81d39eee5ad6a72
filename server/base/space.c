/* SPDX-License-Identifier: Apache-2.0 */
#include "base/space.h"

#include <errno.h>
#include <string.h>

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
