/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/encoding.h>

#include "cli.h"

bool cli_uses_parse(const char *text, uint64_t *ret_uses)
{
        if (strcmp(text, "unlimited") != 0)
                return ferry_uint_parse(text, (UINT64_C(1) << 53) - 1, ret_uses) && *ret_uses > 0;
        *ret_uses = FERRY_USES_UNLIMITED;
        return true;
}

bool cli_part_parse(const char *text, struct ferry_range *ret_part)
{
        char offset[32];
        const char *colon = strchr(text, ':');
        if (!colon || (size_t)(colon - text) >= sizeof(offset))
                return false;
        memcpy(offset, text, (size_t)(colon - text));
        offset[colon - text] = '\0';
        *ret_part = (struct ferry_range){ 0 };
        return ferry_size_parse(offset, &ret_part->offset) && ferry_size_parse(colon + 1, &ret_part->size) &&
               ret_part->size > 0;
}

static bool cli_uses_valid(const char *text)
{
        uint64_t uses;
        return cli_uses_parse(text, &uses);
}

static bool cli_part_valid(const char *text)
{
        struct ferry_range part;
        return cli_part_parse(text, &part);
}

static const struct ferry_option options_table[] = {
#define FERRY(...) FERRY_OPTION_ROW(struct cli, __VA_ARGS__)
#include <ferry/option_table.h>
};
_Static_assert(FERRY_ARRAY_SIZE(options_table) <= FERRY_OPTIONS_MAX, "each has a bit");

bool cli_option_applies(const struct ferry_option *option, const struct cli_command *command)
{
        size_t length = strlen(command->name);
        if (!option->part)
                return true;
        for (const char *at = option->part; (at = strstr(at, command->name)); at += length) {
                if ((at == option->part || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
                        return true;
        }
        return false;
}

bool cli_option_belongs(const struct ferry_option *option, const struct cli_command *command)
{
        if (!option->text)
                return false;
        return command ? option->part && cli_option_applies(option, command) : !option->part;
}

int cli_command_find(const struct cli *cli, const char *name, const struct cli_command **ret_command)
{
        for (size_t i = 0; i < cli->n_commands; i++) {
                if (strcmp(cli->commands[i].name, name) == 0) {
                        *ret_command = &cli->commands[i];
                        return CLI_OK;
                }
        }
        const char *near = ferry_suggest(name, &cli->commands[0].name, cli->n_commands, sizeof(cli->commands[0]));
        return near ? cli_usage_error("no command %s: did you mean %s?", name, near)
                    : cli_usage_error("no command %s (see ferry --help)", name);
}

/* "@prefill" before the command names the worker. */
static int options_operand(struct ferry_option_base *base, char *text, bool literal)
{
        struct cli *cli = (struct cli *)(void *)base;
        if (!literal && !cli->n_arguments && text[0] == '@' && text[1])
                cli->url = cli->named = text;
        else
                cli->arguments[cli->n_arguments++] = text;
        return 0;
}

static void options_misspelt(const char *wrong, const char *near)
{
        (void)cli_problem("the variable %s is unknown: did you mean %s?", wrong, near);
}

/* Before the options are read, which may fail. */
static bool options_want_json(int argc, char **argv)
{
        for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
                if (strcmp(argv[i], "-j") == 0 || strcmp(argv[i], "--json") == 0)
                        return true;
        return false;
}

int cli_options_parse(struct cli *cli, int argc, char **argv)
{
        struct ferry_option_base *base = &cli->base;
        *base = (struct ferry_option_base){ .program = "ferry",
                                            .table = options_table,
                                            .n = FERRY_ARRAY_SIZE(options_table) };
        cli->arguments = argv;
        cli_fail_in_json(options_want_json(argc, argv));
        ferry_variables_check(options_misspelt);
        ferry_options_default(base);
        int r = ferry_options_read(base, argc, argv, options_operand);
        argv[cli->n_arguments] = NULL;
        if (cli->named && !ferry_option_given(base, &cli->url)) /* the environment has none to say */
                cli->url = cli->named;
        if (r == 0)
                cli_fail_in_json(cli->json); /* it may stand in one word with others */
        else
                return cli_usage_error("%s", r == -EINVAL ? base->message : strerror(-r));
        if (cli->n_arguments == 0)
                return CLI_OK;
        int status = cli_command_find(cli, argv[0], &cli->command);
        for (size_t i = 0; status == CLI_OK && i < base->n; i++) {
                const struct ferry_option *option = &base->table[i];
                if (base->given >> i & 1 && !cli_option_applies(option, cli->command))
                        status = cli_usage_error("ferry %s has no option --%s (see ferry %s --help)", argv[0],
                                                 option->name, argv[0]);
        }
        return status;
}
