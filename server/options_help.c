/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "options.h"

enum { HELP_WIDTH = 80, HELP_INDENT = 8 };

/* Words from the indentation to the width. */
static void print_wrapped(FILE *file, const char *text)
{
        size_t column = 0;

        while (*text) {
                size_t word = strcspn(text, " ");

                if (column && column + 1 + word > HELP_WIDTH) {
                        (void)fputc('\n', file);
                        column = 0;
                }
                if (column == 0)
                        column = (size_t)fprintf(file, "%*s", HELP_INDENT, "") + word;
                else
                        column += (size_t)fprintf(file, " ") + word;
                (void)fwrite(text, 1, word, file);
                text += word + strspn(text + word, " ");
        }
        (void)fputc('\n', file);
}

void options_help(FILE *file)
{
        const char *group = "";

        (void)fputs("Usage: ferryd [FLAG]...\n"
                    "A Ferry worker: moves memory between processes, on one machine or many.\n"
                    "\n"
                    "Prints one line of JSON on standard output when it is ready; logs to standard\n"
                    "error. SIGTERM drains and ends it. Each flag can also be set in the environment,\n"
                    "as FERRY_<FLAG> (FERRY_DATA_LISTEN=...; lists are comma-separated); the command\n"
                    "line takes precedence.\n",
                    file);
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];

                if (strcmp(group, option->group) != 0)
                        (void)fprintf(file, "\n%s:\n", option->group);
                group = option->group;
                (void)fputs("  ", file);
                if (option->letter)
                        (void)fprintf(file, "-%c, ", option->letter);
                (void)fprintf(file, "--%s%s%s\n", option->flag, option->argument ? " " : "", option->argument ?: "");
                print_wrapped(file, option->help);
        }
}
