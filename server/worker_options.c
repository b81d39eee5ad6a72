/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "options.h"
#include "worker_error.h"
#include "worker_internal.h"

struct ferry_worker_options *ferry_worker_options_new(void)
{
        struct ferry_worker_options *options = calloc(1, sizeof(*options));

        if (options)
                worker_options_init(&options->values, false);
        else
                (void)worker_fail(-ENOMEM, NULL);
        return options;
}

/* Maps the result of a function of <ferry/options.h> to worker_fail. */
static int report(int r, const struct ferry_worker_options *options)
{
        return r == -EINVAL ? worker_fail(FERRY_E_INVALID_PARAMETER, "%s", options->values.base.message)
               : r          ? worker_fail(r, NULL)
                            : 0;
}

int ferry_worker_options_set(struct ferry_worker_options *options, const char *name, const char *value)
{
        const struct ferry_option *option = name ? ferry_option_find(&options->values.base, name) : NULL;

        if (!option)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "A worker has no option \"%s\"", name ?: "");
        if (!value)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The value of \"%s\" is missing", name);
        return report(ferry_option_set(&options->values.base, option, name, value), options);
}

int ferry_worker_options_environment(struct ferry_worker_options *options)
{
        int r = ferry_options_environment(&options->values.base);

        options_check_environment();
        return report(r, options);
}

struct ferry_worker_options *ferry_worker_options_free(struct ferry_worker_options *options)
{
        if (!options)
                return NULL;
        ferry_options_clear(&options->values.base);
        free(options);
        return NULL;
}
