/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void main_help(void)
{
        char left[64];
        puts("Usage: ferry [OPTION]... COMMAND [ARGUMENT]...\n"
             "Talks to a Ferry worker. Bodies go to standard output as they are, problems to standard error.\n\n"
             "Commands:");
        for (size_t i = 0; i < cli_commands_count; i++) {
                snprintf(left, sizeof(left), "%s %s", cli_commands[i].name, cli_commands[i].arguments);
                printf("  %-34s %s\n", left, cli_commands[i].help);
        }
        puts("\nOptions, each also as an environment variable:");
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                snprintf(left, sizeof(left), "--%s %s", option->name, option->argument ? option->argument : "");
                printf("  %-18s %-16s %s\n", left, option->environment ? option->environment : "", option->help);
        }
        puts("\nA TIME is 30s, 500ms, 2m or 1h. Exit status: 0 done; 1 the worker said no, or the operation did not\n"
             "complete; 2 wrong arguments or a file that fails; 3 no worker answered; 4 the time of wait was over.");
}

static int main_run(struct cli *cli, int argc, char **argv)
{
        for (size_t i = 0; i < cli_commands_count; i++) {
                const struct cli_command *command = &cli_commands[i];
                if (strcmp(command->name, argv[0]) != 0)
                        continue;
                if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                        printf("Usage: ferry [OPTION]... %s %s\n%s\n", command->name, command->arguments,
                               command->help);
                        return CLI_OK;
                }
                if (argc - 1 < command->least || argc - 1 > command->most)
                        return cli_usage_error("usage: ferry %s %s", command->name, command->arguments);
                return command->run(cli, argc, argv);
        }
        return cli_usage_error("no such command: %s (see ferry --help)", argv[0]);
}

int main(int argc, char **argv)
{
        struct cli cli = { 0 };
        int next, status = cli_options_parse(&cli, argc, argv, &next);
        if (status == CLI_OK && cli.help)
                main_help();
        else if (status == CLI_OK && cli.version)
                status = main_run(&cli, 1, (char *[]){ "version", NULL });
        else if (status == CLI_OK && next == argc)
                status = cli_usage_error("no command (see ferry --help)");
        else if (status == CLI_OK)
                status = main_run(&cli, argc - next, argv + next);
        ferry_free(cli.ferry);
        ferry_secret_free(cli.token);
        if (fflush(stdout) != 0 && status == CLI_OK)
                status = CLI_USAGE;
        return status;
}
