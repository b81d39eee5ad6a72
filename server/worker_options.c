/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
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

/* Copies a text, which the options then borrow. NULL: no memory. */
static const char *keep(struct ferry_worker_options *options, const char *text)
{
        char **kept = reallocarray(options->kept, options->n_kept + 1, sizeof(*kept));

        if (!kept)
                return NULL;
        options->kept = kept;
        kept[options->n_kept] = strdup(text);
        return kept[options->n_kept] ? kept[options->n_kept++] : NULL;
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
        value = keep(options, value);
        if (!value)
                return worker_fail(-ENOMEM, NULL);
        return report(option_set(option, &options->parsed, name, value, message), message);
}

int ferry_worker_options_environment(struct ferry_worker_options *options)
{
        char variable[OPTION_VARIABLE_SIZE], message[OPTION_MESSAGE_SIZE] = "";
        int r = 0;

        for (size_t i = 0; i < option_count && r == 0; i++) {
                const struct option *option = &option_table[i];
                const char *value;

                option_variable(option, variable);
                value = option->daemon ? NULL : getenv(variable);
                if (!value || !*value)
                        continue;
                value = keep(options, value);
                r = value ? option_set_variable(option, &options->parsed, variable, value, message) : -ENOMEM;
        }
        return report(r, message);
}

struct ferry_worker_options *ferry_worker_options_free(struct ferry_worker_options *options)
{
        if (!options)
                return NULL;
        options_clear(&options->parsed);
        for (size_t i = 0; i < options->n_kept; i++)
                free(options->kept[i]);
        free(options->kept);
        free(options);
        return NULL;
}
