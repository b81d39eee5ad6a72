/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include <ferry/commit.h>

#include "table.h"

enum { HELP_LEFT = 30, HELP_WIDTH = 80 };

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
        puts("\n@WORKER names a line of ~/.config/ferry/workers: NAME URL [token-file=FILE] [ca-file=FILE] "
             "[cert=FILE]\n"
             "[key=FILE]. Options on the command line apply to the worker of --url or the first @WORKER; for any\n"
             "other worker, its line in the file takes precedence.\n"
             "Exit status: 0 done; 1 the worker refused, or the operation did not complete; 2 wrong arguments, or a\n"
             "local file failed; 3 no worker answered; 4 the time limit was reached.");
}

/* Breaks a paragraph into lines. */
static void help_paragraph(const char *text)
{
        size_t at = 0;
        for (size_t length; *text; text += length + (text[length] == ' ')) {
                length = strcspn(text, " ");
                if (at > 0)
                        putchar(at + 1 + length > HELP_WIDTH ? '\n' : ' ');
                at = at > 0 && at + 1 + length <= HELP_WIDTH ? at + 1 + length : length;
                printf("%.*s", (int)length, text);
        }
        putchar('\n');
}

static void help_one(const struct cli *cli, const struct cli_command *command)
{
        printf("Usage: ferry [@WORKER] %s %s%s[OPTION]...\n%c%s.\n", command->name, command->arguments,
               *command->arguments ? " " : "", toupper((unsigned char)command->help[0]), command->help + 1);
        if (command->text)
                help_paragraph(command->text);
        help_options(cli, command, "\nOptions:\n");
        puts("\nferry --help lists the options that every command takes, such as --url and --token-file.\n\nExamples:");
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
