/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static int main_run(struct cli *cli, int argc, char **argv)
{
        const struct cli_command *command = cli->command;
        if (cli->help)
                return cli_run_help(cli, 2, (char *[]){ "help", (char *)(uintptr_t)command->name, NULL });
        if (argc - 1 > command->most && argv[argc - 1][0] == '@')
                return cli_usage_error("the worker stands before the command: ferry %s %s", argv[argc - 1],
                                       command->name);
        if (argc - 1 < command->least || argc - 1 > command->most)
                return cli_usage_error("usage: ferry %s%s%s", command->name, *command->arguments ? " " : "",
                                       command->arguments);
        progress_allow(!cli->quiet);
        int status = command->run(cli, argc, argv);
        progress_end();
        screen_close();
        return status;
}

/* A standard stream that is closed stays so: no file of ours takes its place, and its use fails. */
static void main_reserve_streams(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
                if (fcntl(fd, F_GETFD) < 0)
                        (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
}

int main(int argc, char **argv)
{
        struct cli cli = { .commands = cli_commands, .n_commands = cli_commands_count };
        main_reserve_streams();
        /* The names of files and what workers tell are UTF-8, whatever the user's language is. */
        (void)setlocale(LC_CTYPE, "C.UTF-8");
        int status = cli_options_parse(&cli, argc, argv);
        signals_install();
        if (status == CLI_OK && cli.version)
                status = cli_run_version(&cli, 1, argv);
        else if (status == CLI_OK && cli.command)
                status = main_run(&cli, cli.n_arguments, argv);
        else if (status == CLI_OK)
                status = cli.help ? cli_run_help(&cli, 1, argv) : cli_usage_error("no command (see ferry --help)");
        worker_close(&cli.worker);
        ferry_options_clear(&cli.base);
        if (status == CLI_OK)
                status = cli_flush();
        int number = signals_caught();
        if (!number || status == CLI_OK)
                return status;
        if (number == SIGALRM)
                return cli_fail(CLI_LATE, "not done within %" PRIu64 " ms: stopped", cli.timeout_ms);
        /* Dies of the signal, so that a shell sees it. */
        if (number != SIGPIPE)
                (void)cli_problem("%s: stopped%s", strsignal(number), cli.left ? "" : ", and nothing was left behind");
        signal(number, SIG_DFL);
        raise(number);
        return CLI_PROBLEM;
}
