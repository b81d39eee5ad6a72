/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "worker_error.h"
#include "worker_internal.h"

/* The program's sink, behind that of base/log.h. Never freed, as there. */
struct program_sink {
        void (*put)(void *context, const char *level, const char *line);
        void *context;
};

static void put_line(void *context, enum log_level level, const char *line)
{
        const struct program_sink *sink = context;

        sink->put(sink->context, log_level_name((int)level), line);
}

int ferry_worker_log(const char *level, void (*sink)(void *context, const char *level, const char *line), void *context)
{
        struct program_sink *behind = NULL;
        int number = level ? log_level_from_name(level) : 0;
        int r;

        if (number < 0)
                return worker_fail(-EINVAL, "\"%s\" is not one of error, warn, info, debug", level);
        if (sink) {
                behind = malloc(sizeof(*behind));
                if (!behind)
                        return worker_fail(-ENOMEM, NULL);
                *behind = (struct program_sink){ sink, context };
        }
        r = log_set_sink(sink ? put_line : NULL, behind);
        if (r < 0) {
                free(behind);
                return worker_fail(r, NULL);
        }
        if (level)
                log_set_level((enum log_level)number);
        return 0;
}
