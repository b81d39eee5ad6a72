/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ferry/worker.h>

#include "base/fork.h"

static _Thread_local char sentence[WORKER_ERROR_SIZE];

int worker_fail(int error, const char *format, ...)
{
        va_list arguments;

        if (!format) {
                (void)snprintf(sentence, sizeof(sentence), "%s",
                               error > 0 ? ferry_error_title(error) : strerror(-error));
                return error;
        }
        va_start(arguments, format);
        (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
        va_end(arguments);
        return error;
}

bool worker_is_ours(unsigned generation)
{
        if (generation == fork_generation())
                return true;
        (void)worker_fail(-ECHILD, "This worker was created before fork(); create one in this process");
        return false;
}

const char *ferry_worker_error(void)
{
        return sentence;
}
