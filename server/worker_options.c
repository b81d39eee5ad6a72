/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "worker_error.h"
#include "worker_internal.h"

struct ferry_worker_options *ferry_worker_options_new(void)
{
        struct ferry_worker_options *options = calloc(1, sizeof(*options));

        if (!options)
                (void)worker_fail(-ENOMEM, NULL);
        return options;
}

/* Maps the result of a function of options.h to worker_fail. */
static int report(int r, const char *message)
{
        return r == -EINVAL ? worker_fail(FERRY_E_INVALID_PARAMETER, "%s", message) : r ? worker_fail(r, NULL) : 0;
}

int ferry_worker_options_set(struct ferry_worker_options *options, const char *name, const char *value)
{
        const struct option *option = name ? option_find(name, strlen(name)) : NULL;
        char message[OPTION_MESSAGE_SIZE] = "";

        if (!option || option->daemon)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "A worker has no option \"%s\"", name ?: "");
        if (!value)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The value of \"%s\" is missing", name);
        return report(option_set(option, &options->parsed, name, value, message), message);
}

int ferry_worker_options_environment(struct ferry_worker_options *options)
{
        char message[OPTION_MESSAGE_SIZE] = "";
        int r = options_environment(&options->parsed, false, message);

        options_check_environment();
        return report(r, message);
}

struct ferry_worker_options *ferry_worker_options_free(struct ferry_worker_options *options)
{
        if (!options)
                return NULL;
        options_clear(&options->parsed);
        free(options);
        return NULL;
}
