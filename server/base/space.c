/* SPDX-License-Identifier: Apache-2.0 */
#include "base/space.h"

#include <errno.h>
#include <string.h>

int space_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from, size_t size)
{
        const struct space *space = to_space ? to_space : from_space;

        if (space)
                return space->ops->copy(to_space, to, from_space, from, size);
        memcpy(to, from, size);
        return 0;
}

int space_finish(const struct space *to_space, const struct space *from_space)
{
        const struct space *space = to_space ? to_space : from_space;

        return space ? space->ops->finish(space) : 0;
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
        case -ENOMEM:
                return "out of memory";
        default:
                return "GPU memory could not be copied";
        }
}
