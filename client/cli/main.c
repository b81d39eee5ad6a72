/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The ferry command: the table of commands, from which help, manual and completions are made too, and the course of a
 * run: options, signals, the command, what is left to print, the exit status. After a signal the process dies of it, so
 * that a shell and its scripts see that.
 */

/* ---- the table of commands ---- */

/* clang-format off */
#define COMMAND(name, arguments, help, text, ...) { #name, arguments, help, text, cli_run_##name, { __VA_ARGS__ } }
/* clang-format on */

static const struct cli_command cli_commands[] = {
        COMMAND(offer, "FILE", "offer a file, and wait until it has been fetched, once or --uses times",
                "Prints the URL for ferry fetch. - is standard input. The offer is withdrawn when the command ends, "
                "however it ends.",
                "ferry offer weights.bin", "tar c checkpoint | ferry offer - --uses 2 --ttl 1h"),
        COMMAND(fetch, "URL", "fetch an offer into a file",
                "URL is what ferry offer prints, @NAME/op_ID, ferry://NAME/op_ID, or nats://HOST:PORT/NAME/op_ID "
                "(through ferry-nats). Without -o the bytes go to standard output, which must not be a terminal. Until "
                "it is complete, the file is named FILE.part-PID. Symbolic links are followed.",
                "ferry @b fetch @a/op_0123456789abcdef -o weights.bin",
                "ferry @b fetch @a/op_0123456789abcdef | tar x"),
        COMMAND(accept, "-o FILE --size SIZE", "accept bytes from one peer into a file",
                "Prints the URL for ferry send.", "ferry @b accept -o cache.bin --size 64M",
                "ferry @b accept -o cache.bin --size 1.5MiB --timeout 10m --label cache"),
        COMMAND(send, "FILE URL", "send a file to a peer that accepts it",
                "URL is what ferry accept prints, or @NAME/op_ID. - is standard input. If FILE has another size than "
                "is accepted, the offer is declined: ferry accept ends as well, and says so.",
                "ferry send cache.bin @b/op_0123456789abcdef",
                "ferry send page.bin @b/op_0123456789abcdef --remote 1M:64K"),
        COMMAND(copy, "FROM TO", "copy between two regions, or between a region and a file",
                "FROM and TO are each a region (rgn_ID, @NAME/rgn_ID, URL/v1/regions/rgn_ID) or a file; - is standard "
                "input or output. A file whose name begins with @ is ./@FILE. Between two workers, the worker of TO "
                "reads.",
                "ferry copy weights.bin rgn_0123456789abcdef",
                "ferry copy rgn_0123456789abcdef @b/rgn_fedcba9876543210"),
        COMMAND(spread, "FILE|OFFER WORKER...", "copy a file, or what a worker offers, to many workers",
                "WORKER is a URL or @NAME. Each worker reads from the one before it while that one is still reading, "
                "so all have the bytes in about the time of one copy, whatever the bandwidth of the source. Checksums "
                "verify the bytes on the way, digests at the end. Prints the new region of each worker; the regions "
                "stay. To fill an existing region from its start, give @NAME/rgn_ID or URL/v1/regions/rgn_ID in place "
                "of its worker. A worker that fails is left out, and the next one continues from an earlier one. Exits "
                "with 1 if any worker lacks the bytes.",
                "ferry @a spread weights.bin @b @c", "ferry spread @a/op_0123456789abcdef @b @c --name weights"),
        COMMAND(decline, "METADATA", "say that an offer will not be used: it ends at once",
                "METADATA is a file, - for standard input, or the URL that ferry offer or accept prints. No worker of "
                "one's own is needed: the worker that the metadata name is asked, with the key in them; if it serves "
                "no HTTP, by way of the worker of --url. Prints what became of the offer: CANCELLED, or how it had "
                "ended before. Of an offer with several uses, one is taken.",
                "ferry decline @a/op_0123456789abcdef", "ferry decline metadata.json"),
        COMMAND(renew, "METADATA", "ask for an offer to be kept for longer",
                "METADATA is as for ferry decline. Prints when the offer will end, which is at most renew_max_ms after "
                "its creation.",
                "ferry renew @a/op_0123456789abcdef --ttl 30m", "ferry renew - --ttl 1h <metadata.json"),
        COMMAND(ls, "", "list operations", NULL, "ferry ls --running",
                "ferry ls --kind read --status ERRORED --newest"),
        COMMAND(show, "[ID]", "print an operation, a region, the worker or its limits",
                "ID is op_ID, rgn_ID, worker (the default) or limits.", "ferry show",
                "ferry @b show op_0123456789abcdef"),
        COMMAND(wait, "OPERATION...", "wait until operations are done, and print them, one per line",
                "Reconnects to a lost worker until the time limit, or for a minute if --timeout is not given.",
                "ferry wait op_0123456789abcdef --timeout 30s",
                "ferry wait op_0123456789abcdef op_fedcba9876543210 --any"),
        COMMAND(cancel, "OPERATION...", "cancel operations", "Their memory may be reused once they are done.",
                "ferry cancel op_0123456789abcdef", "ferry @b cancel op_0123456789abcdef op_fedcba9876543210"),
        COMMAND(rm, "ID...", "delete regions and operations (running ones are cancelled)", NULL,
                "ferry rm rgn_0123456789abcdef", "ferry rm op_0123456789abcdef rgn_fedcba9876543210"),
        COMMAND(regions, "", "list regions", NULL, "ferry regions", "ferry @b regions --json"),
        COMMAND(peers, "", "list peers, and the transport to each", NULL, "ferry peers", "ferry @b peers --json"),
        COMMAND(workers, "", "list the workers in the registry",
                "The registry is the worker's (ferryd --registry). Entries that do not describe a worker are counted "
                "on standard error. Commands that take the URL of another worker also take ferry://NAME for a "
                "registered one. Ctrl-C ends --watch.",
                "ferry workers", "ferry workers --watch --json"),
        COMMAND(connect, "PEER", "connect the worker to a peer before the first transfer",
                "PEER is the URL or @NAME of another worker.", "ferry connect @b",
                "ferry @b connect http://127.0.0.1:9300"),
        COMMAND(devices, "", "list memory devices, RDMA devices and transports", NULL, "ferry devices",
                "ferry @b devices --json"),
        COMMAND(events, "", "print recent events of the worker, one per line",
                "Events concern operations, regions, peers and limits. Ctrl-C ends --follow.", "ferry events",
                "ferry events --follow --label cache"),
        COMMAND(top, "", "watch transfers live",
                "Redraws on each event, and while bytes move, on the alternate screen of the terminal. Operations "
                "that have ended stay until something else happens. A narrow terminal shows fewer columns. q or Ctrl-C "
                "ends it. Prints once if the output is not a terminal or TERM is dumb.",
                "ferry top", "ferry @b top --interval 200ms"),
        COMMAND(bench, "PEER", "measure reads from another worker",
                "PEER is the URL or @NAME of another worker. Creates a region on both workers and removes it. --size "
                "is the largest transfer.",
                "ferry bench @b", "ferry bench @b --size 4K --verify"),
        COMMAND(doctor, "[PEER]", "show what carries the bytes, and why nothing better does",
                "PEER is the URL or @NAME of another worker. Exits with 1 if something does not work.", "ferry doctor",
                "ferry doctor @b"),
        COMMAND(get, "PATH", "print a resource of the REST interface", NULL, "ferry get /v1/worker",
                "ferry get /v1/regions/rgn_0123456789abcdef/content -o region.bin"),
        COMMAND(post, "PATH [JSON|@FILE|-]", "send JSON and print the answer", NULL,
                "ferry post /v1/regions '{\"size\": 1048576}'", "ferry post /v1/operations @offer.json"),
        COMMAND(put, "PATH FILE", "upload a file or standard input (-), for example to /v1/regions/ID/content", NULL,
                "ferry put /v1/regions/rgn_0123456789abcdef/content weights.bin",
                "head -c 4096 weights.bin | ferry put /v1/regions/rgn_0123456789abcdef/content -"),
        COMMAND(delete, "PATH", "delete a resource", NULL, "ferry delete /v1/regions/rgn_0123456789abcdef",
                "ferry @b delete /v1/operations/op_0123456789abcdef"),
        COMMAND(completion, "SHELL", "print the completion script for bash, zsh or fish",
                "The script asks the worker of the line for ids and names, by operations, offers, regions or workers "
                "in place of SHELL, which list what there is, one on a line.",
                "source <(ferry completion bash)", "ferry @a completion operations"),
        COMMAND(help, "[COMMAND]", "print help", NULL, "ferry help fetch", "ferry fetch --help"),
        COMMAND(version, "", "print the version, and the commit that was built", NULL, "ferry version",
                "ferry --version"),
};

/*
 * Compares the number of arguments with what the help of the command names. Returns a number below 0: too few; above 0:
 * too many.
 */
static int main_compare(const struct cli_command *command, int n)
{
        const char *word = command->arguments;
        bool more = false;
        int least = 0, most = 0;
        for (size_t length; (length = strcspn(word, " ")); word += length + strspn(word + length, " ")) {
                if (*word == '-') { /* an option with its value */
                        length += 1 + strcspn(word + length + 1, " ");
                        continue;
                }
                least += *word != '[';
                most++;
                more = word[length - 1] == '.';
        }
        return n < least ? -1 : !more && n > most;
}

static int main_run(struct cli *cli, int argc, char **argv)
{
        const struct cli_command *command = cli->command;
        if (cli->help)
                return cli_run_help(cli, 2, (char *[]){ "help", (char *)(uintptr_t)command->name, NULL });
        int compared = main_compare(command, argc - 1);
        if (compared > 0 && argv[argc - 1][0] == '@')
                return cli_usage_error("the worker stands before the command: ferry %s %s", argv[argc - 1],
                                       command->name);
        if (compared != 0)
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
        struct cli cli = { .commands = cli_commands, .n_commands = FERRY_ARRAY_SIZE(cli_commands) };
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
