/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/variables.h>

#include "base/log.h"
#include "base/util.h"
#include "options.h"

#define SECOND UINT64_C(1000)
#define LISTEN_DEFAULT "127.0.0.1:9300"

void option_variable(const struct option *option, char text[OPTION_VARIABLE_SIZE])
{
        (void)snprintf(text, OPTION_VARIABLE_SIZE, "FERRY_%s", option->flag);
        for (char *c = text; *c; c++)
                *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* Formats an error message, and replaces control characters in it. */
static int complain(char message[OPTION_MESSAGE_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));
static int complain(char message[OPTION_MESSAGE_SIZE], const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(message, OPTION_MESSAGE_SIZE, format, arguments);
        va_end(arguments);
        for (char *c = message; *c; c++)
                if (iscntrl((unsigned char)*c))
                        *c = '?';
        return -EINVAL;
}

static bool duration_parse(const char *text, uint64_t *ret_ms)
{
        static const struct {
                const char *unit;
                uint64_t ms;
        } units[] = { { "ms", 1 }, { "s", SECOND }, { "m", 60 * SECOND }, { "h", 3600 * SECOND } };
        const char *unit;
        uint64_t n;

        unit = ferry_uint_read(text, &n);
        if (!unit)
                return false;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(units); i++)
                if (strcmp(unit, units[i].unit) == 0)
                        return !__builtin_mul_overflow(n, units[i].ms, ret_ms);
        return false;
}

static bool number_parse(const struct option *option, const char *text, uint64_t *ret_value)
{
        bool good;

        if (option->type == OPTION_SIZE)
                good = ferry_size_parse(text, ret_value);
        else if (option->type == OPTION_DURATION)
                good = duration_parse(text, ret_value);
        else
                good = ferry_uint_parse(text, UINT64_MAX, ret_value);
        return good && *ret_value >= option->min && *ret_value <= option->max;
}

static int refuse_number(const struct option *option, const char *source, const char *value,
                         char message[OPTION_MESSAGE_SIZE])
{
        switch (option->type) {
        case OPTION_SIZE:
                return complain(message,
                                "%s: \"%s\" is not a size like 64k, 1MiB or 2G, %" PRIu64 " to %" PRIu64 " bytes",
                                source, value, option->min, option->max);
        case OPTION_DURATION:
                return complain(message,
                                "%s: \"%s\" is not a time like 500ms, 30s, 10m or 2h, %" PRIu64 "ms to %" PRIu64 "s",
                                source, value, option->min, option->max / SECOND);
        default:
                return complain(message, "%s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64, source, value,
                                option->min, option->max);
        }
}

static int refuse_choice(const struct option *option, const char *source, const char *value,
                         char message[OPTION_MESSAGE_SIZE])
{
        return complain(message, "%s: \"%s\" is not one of %s", source, value, option->argument);
}

const char *option_list_add(struct option_list *list, const char *text)
{
        char **items = reallocarray(list->items, list->n + 1, sizeof(*items));

        if (!items)
                return NULL;
        list->items = items;
        items[list->n] = strdup(text);
        return items[list->n] ? items[list->n++] : NULL;
}

void option_list_clear(struct option_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                free(list->items[i]);
        free(list->items);
        *list = (struct option_list){ 0 };
}

static int text_check(const struct option *option, const char *source, const char *value,
                      char message[OPTION_MESSAGE_SIZE])
{
        if (!*value)
                return complain(message, "%s: the value is empty; it takes %s", source,
                                option->accepted ?: option->argument);
        if (option->accepts && !option->accepts(value))
                return complain(message, "%s: \"%s\" is not %s", source, value, option->accepted);
        return 0;
}

static int flag_set(void *target, const char *source, const char *value, char message[OPTION_MESSAGE_SIZE])
{
        bool on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;

        if (!on && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
                return complain(message, "%s: \"%s\" is not one of 1, true, 0, false", source, value);
        *(bool *)target = on;
        return 0;
}

int option_set(const struct option *option, struct options *options, const char *source, const char *value,
               char message[OPTION_MESSAGE_SIZE])
{
        void *target = (char *)options + option->offset;
        uint64_t number = 0;
        int r;

        switch (option->type) {
        case OPTION_FLAG:
                return flag_set(target, source, value, message);
        case OPTION_STRING:
                r = text_check(option, source, value, message);
                if (r)
                        return r;
                value = option_list_add(&options->kept, value);
                if (!value)
                        return -ENOMEM;
                *(const char **)target = value;
                return 0;
        case OPTION_LIST:
                r = text_check(option, source, value, message);
                return r ? r : option_list_add(target, value) ? 0 : -ENOMEM;
        case OPTION_CHOICE:
                for (unsigned i = 0; option->names[i]; i++)
                        if (strcmp(option->names[i], value) == 0) {
                                *(unsigned *)target = i;
                                return 0;
                        }
                return refuse_choice(option, source, value, message);
        default:
                if (!number_parse(option, value, &number))
                        return refuse_number(option, source, value, message);
                if (option->type == OPTION_UINT32)
                        *(uint32_t *)target = (uint32_t)number;
                else
                        *(uint64_t *)target = number;
                return 0;
        }
}

static int set_list_variable(const struct option *option, struct options *options, const char *variable,
                             const char *value, char message[OPTION_MESSAGE_SIZE])
{
        FERRY_CLEANUP(cleanup_free) char *copy = strdup(value);
        char *rest = copy, *item;
        int r;

        if (!copy)
                return -ENOMEM;
        while ((item = strsep(&rest, ","))) {
                item += strspn(item, " ");
                for (size_t length = strlen(item); length > 0 && item[length - 1] == ' '; length--)
                        item[length - 1] = '\0';
                r = option_set(option, options, variable, item, message);
                if (r)
                        return r;
        }
        return 0;
}

int options_environment(struct options *options, bool daemon, char message[OPTION_MESSAGE_SIZE])
{
        char variable[OPTION_VARIABLE_SIZE];

        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char *value;
                int r;

                option_variable(option, variable);
                value = option->not_in_environment || (option->daemon && !daemon) ? NULL : getenv(variable);
                if (!value || !*value)
                        continue;
                r = option->type == OPTION_LIST ? set_list_variable(option, options, variable, value, message)
                                                : option_set(option, options, variable, value, message);
                if (r)
                        return r;
        }
        return 0;
}

static void warn_misspelt(const char *wrong, const char *near)
{
        log_event(LOG_WARN, "unknown variable in the environment", LOG_S("variable", wrong),
                  LOG_S("did_you_mean", near));
}

void options_check_environment(void)
{
        ferry_variables_check(warn_misspelt);
}

const struct option *option_find(const char *flag, size_t length)
{
        for (size_t i = 0; i < option_count; i++)
                if (strlen(option_table[i].flag) == length && strncmp(option_table[i].flag, flag, length) == 0)
                        return &option_table[i];
        return NULL;
}

/* "--name" or "-h". */
static const struct option *argument_find(const char *argument, size_t length)
{
        if (argument[1] == '-')
                return option_find(argument + 2, length - 2);
        for (size_t i = 0; length == 2 && i < option_count; i++)
                if (option_table[i].letter && option_table[i].letter == argument[1])
                        return &option_table[i];
        return NULL;
}

static int arguments_parse(int argc, char *const *argv, struct options *options, char message[OPTION_MESSAGE_SIZE])
{
        bool seen[OPTIONS_MAX] = { false };
        char source[OPTION_VARIABLE_SIZE];

        for (int i = 1; i < argc; i++) {
                const char *argument = argv[i];
                size_t length = strcspn(argument, "=");
                const char *value = argument[length] ? argument + length + 1 : NULL;
                const struct option *option;
                int r;

                if (argument[0] != '-' || length < 2)
                        return complain(message, "unexpected argument \"%s\"; every value follows a flag", argument);
                option = argument_find(argument, length);
                if (!option)
                        return complain(message, "unknown flag \"%.*s\"; ferryd --help lists all", (int)length,
                                        argument);
                (void)snprintf(source, sizeof(source), "--%s", option->flag);
                if (!option->argument && value)
                        return complain(message, "%s takes no value", source);
                if (option->argument && !value) {
                        if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0)
                                return complain(message, "%s needs a value: %s", source,
                                                option->accepted ?: option->argument);
                        value = argv[++i];
                }
                /* A list on the command line replaces that of the environment; its own elements add up. */
                if (option->type == OPTION_LIST && !seen[option - option_table])
                        option_list_clear((struct option_list *)(void *)((char *)options + option->offset));
                seen[option - option_table] = true;
                r = option_set(option, options, source, option->argument ? value : "true", message);
                if (r)
                        return r;
                if (options->help || options->version)
                        return 0;
        }
        return 0;
}

void options_finish(struct options *options)
{
        struct worker_options *worker = &options->worker;

        worker->listen = (const char *const *)options->listen.items;
        worker->n_listen = options->listen.n;
        worker->allow_host = (const char *const *)options->allow_host.items;
        worker->n_allow_host = options->allow_host.n;
        worker->allow_peer = (const char *const *)options->allow_peer.items;
        worker->n_allow_peer = options->allow_peer.n;
        worker->allow_origin = (const char *const *)options->allow_origin.items;
        worker->n_allow_origin = options->allow_origin.n;
}

int options_parse(int argc, char *const *argv, struct options *ret_options, char message[OPTION_MESSAGE_SIZE])
{
        struct options options = { .log_level = LOG_INFO, .drain_timeout_ms = 30 * SECOND };
        int r;

        message[0] = '\0';
        /* First, so that --help works with any environment. */
        r = arguments_parse(argc, argv, &options, message);
        if (r == 0 && !options.help && !options.version) {
                options_clear(&options);
                options = (struct options){ .log_level = LOG_INFO, .drain_timeout_ms = 30 * SECOND };
                r = options_environment(&options, true, message);
                if (r == 0)
                        r = arguments_parse(argc, argv, &options, message);
                if (r == 0 && !options.listen.n && !option_list_add(&options.listen, LISTEN_DEFAULT))
                        r = -ENOMEM;
        }
        if (r) {
                options_clear(&options);
                return r;
        }
        options_finish(&options);
        *ret_options = options;
        return 0;
}

void options_clear(struct options *options)
{
        option_list_clear(&options->kept);
        option_list_clear(&options->listen);
        option_list_clear(&options->allow_host);
        option_list_clear(&options->allow_peer);
        option_list_clear(&options->allow_origin);
}
