/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <ferry/ferry.h>

/* The ferry command: one thread, the public interface of libferry only. */

#define CLI_DEFAULT_URL "http://127.0.0.1:9300"

/* Exit statuses. */
enum {
        CLI_OK = 0,
        CLI_PROBLEM = 1,     /* the worker said no, or the operation did not complete */
        CLI_USAGE = 2,       /* wrong arguments, or a local file failed */
        CLI_UNREACHABLE = 3, /* no answer, or not a worker's */
        CLI_LATE = 4,        /* the time given to wait was over */
};

/* What the options before the command say. All strings are borrowed, but token. */
struct cli {
        const char *url, *token_file, *ca_file, *cert, *key;
        char *token; /* owned */
        bool help, version;
        struct ferry *ferry; /* owned; made when a command first needs it */
};

/* One option; its environment variable is used when it is not given. */
struct cli_option {
        const char *name, *argument, *environment, *help;
        size_t offset; /* in struct cli: const char *, or bool where argument is NULL */
};
extern const struct cli_option cli_options[];
extern const size_t cli_options_count;

struct cli_command {
        const char *name, *arguments, *help;
        int least, most; /* how many arguments */
        int (*run)(struct cli *cli, int argc, char **argv);
};
extern const struct cli_command cli_commands[];
extern const size_t cli_commands_count;

/* options.c. CLI_OK with *ret_next the index of the first argument that is no option. */
int cli_options_parse(struct cli *cli, int argc, char **argv, int *ret_next);

/* Reads the token file and makes the handle. CLI_OK or CLI_USAGE. */
int cli_connect(struct cli *cli);

/* "30s", "500ms", "2m", "1h", "1.5s"; a number alone is seconds. */
bool cli_duration_parse(const char *text, uint64_t *ret_ms);

/* One line on standard error; returns CLI_USAGE. */
int cli_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* progress.c: one line on a terminal, drawn anew. */
struct cli_progress {
        FILE *stream;
        bool drawn;
        uint64_t start_ms, start_bytes; /* 0 = nothing drawn yet */
};

/* For struct ferry_watch; context is a struct cli_progress. */
int cli_progress_show(void *context, const struct ferry_operation *operation);

/* Ends the line, when there is one. */
void cli_progress_end(struct cli_progress *progress);

#endif
