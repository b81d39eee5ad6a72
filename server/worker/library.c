/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/fork.h"
#include "base/log.h"

/*
 * Services of the library for a program before it has a worker: the log, options, and the sentence of the last error.
 * The sentence is one buffer for each thread, so that a program that uses several threads reads its own; worker_fail()
 * is the only place that writes it.
 *
 * Contract: ferry/worker.h. Thread: any; options are used by one thread at a time.
 */

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

const char *ferry_worker_version(void)
{
        return FERRY_VERSION;
}

int ferry_worker_log(const char *level, void (*sink)(void *context, const char *level, const char *line), void *context)
{
        int r, number = level ? log_level_from_name(level) : 0;

        if (number < 0)
                return worker_fail(-EINVAL, "\"%s\" is not one of error, warn, info, debug", level);
        r = log_set_sink(sink, context);
        if (r < 0)
                return worker_fail(r, NULL);
        if (level)
                log_set_level((enum log_level)number);
        return 0;
}

/* ---- options ---- */

struct ferry_worker_options *ferry_worker_options_new(void)
{
        struct ferry_worker_options *options = calloc(1, sizeof(*options));

        if (options)
                worker_options_init(options, false);
        else
                (void)worker_fail(-ENOMEM, NULL);
        return options;
}

/* Maps the result of a function of <ferry/options.h> to worker_fail. */
static int report(int r, const struct ferry_worker_options *options)
{
        return r == -EINVAL ? worker_fail(FERRY_E_INVALID_PARAMETER, "%s", options->base.message)
               : r          ? worker_fail(r, NULL)
                            : 0;
}

int ferry_worker_options_set(struct ferry_worker_options *options, const char *name, const char *value)
{
        const struct ferry_option *option = name ? ferry_option_find(&options->base, name) : NULL;

        if (!option)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "A worker has no option \"%s\"", name ?: "");
        if (!value)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The value of \"%s\" is missing", name);
        return report(ferry_option_set(&options->base, option, name, value), options);
}

int ferry_worker_options_environment(struct ferry_worker_options *options)
{
        int r = ferry_options_environment(&options->base);

        options_check_environment();
        return report(r, options);
}

struct ferry_worker_options *ferry_worker_options_free(struct ferry_worker_options *options)
{
        if (!options)
                return NULL;
        ferry_options_clear(&options->base);
        free(options);
        return NULL;
}
