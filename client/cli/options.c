/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <ferry/commit.h>
#include <ferry/encoding.h>

/*
 * Options, and what help and manual say of them. Options and commands are tables; an option is tied to commands by the
 * words of its part. Errors go out as JSON as soon as -j or --json was seen anywhere, since reading the options may
 * fail itself.
 */

/* ---- options ---- */

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

/* Whether the option may be given with the command. */
static bool cli_option_applies(const struct ferry_option *option, const struct cli_command *command)
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

/* CLI_OK, or CLI_USAGE with a line that says what a wrong name may have meant. */
static int cli_command_find(const struct cli *cli, const char *name, const struct cli_command **ret_command)
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

/* ---- help, version ---- */

enum { HELP_LEFT = 30 };

/* The options that belong to a command, after a title if it has any. */
static void help_options(const struct cli *cli, const struct cli_command *command, const char *title)
{
        for (size_t i = 0; i < cli->base.n; i++) {
                const struct ferry_option *option = &cli->base.table[i];
                if (!cli_option_belongs(option, command))
                        continue;
                fputs(title, stdout);
                title = "";
                ferry_option_help(stdout, option);
        }
}

static void help_all(const struct cli *cli)
{
        char left[64];
        puts("Usage: ferry [@WORKER] COMMAND [ARGUMENT]... [OPTION]...\n"
             "Moves files and regions between Ferry workers, and shows what they do.\n\n"
             "Commands:");
        for (size_t i = 0; i < cli->n_commands; i++) {
                snprintf(left, sizeof(left), "%s %s", cli->commands[i].name, cli->commands[i].arguments);
                printf("  %-*s %s\n", HELP_LEFT, left, cli->commands[i].help);
        }
        help_options(cli, NULL, "\nOptions of every command (ferry COMMAND --help shows the others):\n");
        putchar('\n');
        ferry_wrap(stdout,
                   "@WORKER names a line of ~/.config/ferry/workers: NAME URL [token-file=FILE] [ca-file=FILE] "
                   "[cert=FILE] [key=FILE]. Options on the command line apply to the worker of --url or the first "
                   "@WORKER; for any other worker, its line in the file takes precedence.",
                   0);
        ferry_wrap(stdout,
                   "Exit status: 0 done; 1 the worker refused, or the operation did not complete; 2 wrong arguments, "
                   "or a local file failed; 3 no worker answered; 4 the time limit was reached.",
                   0);
}

static void help_one(const struct cli *cli, const struct cli_command *command)
{
        printf("Usage: ferry [@WORKER] %s %s%s[OPTION]...\n%c%s.\n", command->name, command->arguments,
               *command->arguments ? " " : "", toupper((unsigned char)command->help[0]), command->help + 1);
        if (command->text)
                ferry_wrap(stdout, command->text, 0);
        help_options(cli, command, "\nOptions:\n");
        puts("\nferry --help lists the options of every command, such as --url and --token-file.\n\nExamples:");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(command->examples); i++)
                printf("  %s\n", command->examples[i]);
}

/* ---- the same for the manual ---- */

static void help_mdoc_arguments(const char *arguments)
{
        for (const char *word = arguments; *word;) {
                size_t length = strcspn(word, " ");
                bool optional = *word == '[', more = length > 3 && strncmp(word + length - 3, "...", 3) == 0;
                size_t skip = optional ? 1 : 0, cut = (optional ? 1 : 0) + (more ? 3 : 0);
                if (word[skip] == '-')
                        printf(" %sFl %.*s", optional ? "Op " : "", (int)(length - skip - cut - 1), word + skip + 1);
                else
                        printf(" %sAr %.*s%s", optional ? "Op " : "", (int)(length - skip - cut), word + skip,
                               more ? " ..." : "");
                word += length + (word[length] == ' ');
        }
        putchar('\n');
}

/* A list of the options that belong to a command, if it has any. */
static void help_mdoc_options(const struct cli *cli, const struct cli_command *command)
{
        bool any = false;
        for (size_t i = 0; i < cli->base.n; i++) {
                const struct ferry_option *option = &cli->base.table[i];
                if (!cli_option_belongs(option, command))
                        continue;
                fputs(any ? ".It " : ".Bl -tag -width Ds\n.It ", stdout);
                any = true;
                if (option->letter)
                        printf("Fl %c , ", option->letter);
                printf("Fl -%s", option->name);
                printf(option->argument ? " Ar %s\n" : "\n", option->argument);
                printf("%c%s", toupper((unsigned char)option->text[0]), option->text + 1);
                printf(option->fallback ? " (default %s).\n" : ".\n", option->fallback);
                if (option->variable)
                        printf("Environment:\n.Ev %s .\n", option->variable);
        }
        if (any)
                puts(".El");
}

/* Each sentence on a line of its own. */
static void help_mdoc_text(const char *text)
{
        for (; *text; text++) {
                bool ends = text[0] == '.' && text[1] == ' ';
                putchar(*text);
                if (ends)
                        putchar('\n');
                text += ends;
        }
        putchar('\n');
}

static void help_mdoc(const struct cli *cli)
{
        puts(".Sh OPTIONS\nOptions may appear anywhere on the command line.");
        help_mdoc_options(cli, NULL);
        puts(".Sh COMMANDS\n.Bl -tag -width Ds");
        for (size_t i = 0; i < cli->n_commands; i++) {
                const struct cli_command *command = &cli->commands[i];
                printf(".It Cm %s", command->name);
                help_mdoc_arguments(command->arguments);
                printf("%c%s.\n", toupper((unsigned char)command->help[0]), command->help + 1);
                if (command->text)
                        help_mdoc_text(command->text);
                help_mdoc_options(cli, command);
                puts(".Bd -literal");
                for (size_t j = 0; j < FERRY_ARRAY_SIZE(command->examples); j++)
                        puts(command->examples[j]);
                puts(".Ed");
        }
        puts(".El");
}

int cli_run_help(struct cli *cli, int argc, char **argv)
{
        if (cli->mdoc) {
                help_mdoc(cli);
                return CLI_OK;
        }
        if (argc < 2) {
                help_all(cli);
                return CLI_OK;
        }
        const struct cli_command *command;
        int status = cli_command_find(cli, argv[1], &command);
        if (status == CLI_OK)
                help_one(cli, command);
        return status;
}

int cli_run_version(struct cli *cli, int argc, char **argv)
{
        if (!cli->json) {
                printf("ferry %s\n", ferry_full_version);
                return CLI_OK;
        }
        struct json_object *version = json_object_new_object();
        json_object_object_add(version, "version", json_object_new_string(ferry_version()));
        if (ferry_commit)
                json_object_object_add(version, "commit", json_object_new_string(ferry_commit));
        int status = table_print_document(version);
        json_object_put(version);
        return status;
}
