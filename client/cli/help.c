/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "cli.h"

enum { HELP_LEFT = 30, HELP_WIDTH = 80 };

static void help_option(const struct cli_option *option)
{
        char left[64], letter[5] = "    ";
        if (option->letter)
                snprintf(letter, sizeof(letter), "-%c, ", option->letter);
        snprintf(left, sizeof(left), "%s--%s %s", letter, option->name, option->argument ? option->argument : "");
        printf("  %-*s %s%s%s\n", HELP_LEFT, left, option->help, option->environment ? ", $" : "",
               option->environment ? option->environment : "");
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
        puts("\nOptions of every command (ferry COMMAND --help shows the others):");
        for (size_t i = 0; i < cli_options_count; i++) {
                if (!cli_options[i].commands)
                        help_option(&cli_options[i]);
        }
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

static void help_one(const struct cli_command *command)
{
        printf("Usage: ferry [@WORKER] %s %s%s[OPTION]...\n%c%s.\n", command->name, command->arguments,
               *command->arguments ? " " : "", toupper((unsigned char)command->help[0]), command->help + 1);
        if (command->text)
                help_paragraph(command->text);
        const char *title = "\nOptions:\n";
        for (size_t i = 0; i < cli_options_count; i++) {
                if (!cli_options[i].commands || !cli_option_applies(&cli_options[i], command))
                        continue;
                fputs(title, stdout);
                title = "";
                help_option(&cli_options[i]);
        }
        puts("\nferry --help lists the options that every command takes, such as --url and --token-file.");
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
static void help_mdoc_options(const struct cli_command *command)
{
        bool any = false;
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                if (!cli_option_belongs(option, command))
                        continue;
                fputs(any ? ".It " : ".Bl -tag -width Ds\n.It ", stdout);
                any = true;
                if (option->letter)
                        printf("Fl %c , ", option->letter);
                printf("Fl -%s", option->name);
                printf(option->argument ? " Ar %s\n" : "\n", option->argument);
                printf("%c%s.\n", toupper((unsigned char)option->help[0]), option->help + 1);
                if (option->environment)
                        printf("Environment:\n.Ev %s .\n", option->environment);
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
        help_mdoc_options(NULL);
        puts(".Sh COMMANDS\n.Bl -tag -width Ds");
        for (size_t i = 0; i < cli->n_commands; i++) {
                const struct cli_command *command = &cli->commands[i];
                printf(".It Cm %s", command->name);
                help_mdoc_arguments(command->arguments);
                printf("%c%s.\n", toupper((unsigned char)command->help[0]), command->help + 1);
                if (command->text)
                        help_mdoc_text(command->text);
                help_mdoc_options(command);
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
                help_one(command);
        return status;
}
