/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <ferry/ferry.h>
#include <ferry/options.h>
#include <ferry/util.h>

/* The ferry command: one thread, over libferry. */

/* Exit statuses. */
enum {
        CLI_OK = 0,
        CLI_PROBLEM = 1,     /* the worker refused, or the operation did not complete */
        CLI_USAGE = 2,       /* wrong arguments, or a local file failed */
        CLI_UNREACHABLE = 3, /* no answer, or not a worker's */
        CLI_LATE = 4,        /* the time limit was reached */
};

/* A worker and how to reach it. All strings are owned. */
struct cli_worker {
        char *url, *token_file, *ca_file, *cert, *key;
        struct ferry *ferry; /* made by worker_open */
        bool peer_token;     /* its token is that of --peer-token-file */
};

struct cli;
struct cli_command;
typedef int cli_run(struct cli *cli, int argc, char **argv);

/* What the command line and the environment say. */
struct cli {
        struct ferry_option_base base;
#define FERRY(part, letter, name, variable, kind, field, ...) FERRY_VALUE_##kind field;
#include <ferry/option_table.h>
        const struct cli_command *commands; /* all there are */
        size_t n_commands;
        const struct cli_command *command; /* NULL = none was given */
        char **arguments;                  /* the command's name and what it takes */
        int n_arguments;
        const char *named;        /* "@NAME" before it; NULL = none */
        bool left;                /* something that could not be removed: the user was told */
        struct cli_worker worker; /* the one that commands talk to */
};

/* One command. help, the man page and the completions come from this table. */
struct cli_command {
        const char *name, *arguments, *help;
        const char *text; /* what else the manual says; NULL = nothing */
        int least, most;  /* how many arguments */
        cli_run *run;
        const char *examples[2]; /* a test runs them, with workers a, b and c */
};
/* For main; everybody else has them in struct cli. */
extern const struct cli_command cli_commands[];
extern const size_t cli_commands_count;

/* What they run, each in the file of its noun. */
cli_run cli_run_accept, cli_run_bench, cli_run_cancel, cli_run_completion, cli_run_connect, cli_run_copy,
        cli_run_decline, cli_run_delete, cli_run_devices, cli_run_doctor, cli_run_fetch, cli_run_get, cli_run_help,
        cli_run_ls, cli_run_offer, cli_run_peers, cli_run_events, cli_run_post, cli_run_put, cli_run_regions,
        cli_run_renew, cli_run_rm, cli_run_send, cli_run_show, cli_run_spread, cli_run_top, cli_run_version,
        cli_run_wait, cli_run_workers;

/* ---- options.c ---- */

/*
 * Options stand anywhere; "--" ends them. Sets the command and its arguments, which take the place of argv. CLI_OK or
 * CLI_USAGE.
 */
int cli_options_parse(struct cli *cli, int argc, char **argv);

/* CLI_OK, or CLI_USAGE with a line that says what a wrong name may have meant. */
int cli_command_find(const struct cli *cli, const char *name, const struct cli_command **ret_command);
bool cli_option_applies(const struct ferry_option *option, const struct cli_command *command);
/* Whether help, the manual and the completions show an option with a command; NULL = with what every command has. */
bool cli_option_belongs(const struct ferry_option *option, const struct cli_command *command);

/* "unlimited", which is FERRY_USES_UNLIMITED, or a number from 1. false: neither. */
bool cli_uses_parse(const char *text, uint64_t *ret_uses);
/* "OFFSET:SIZE", each as ferry_size_parse takes it; SIZE is not 0. false: something else. */
bool cli_part_parse(const char *text, struct ferry_range *ret_part);

/* ---- link.c ---- */

/*
 * Host, IPv6 addresses in their brackets, and port of "HOST:PORT" or of a URL, whose port may be that of its scheme.
 * false: there is none, as in "unix:/PATH".
 */
bool cli_host_port(const char *text, char *host, size_t host_size, char *port, size_t port_size);

/* ---- worker.c ---- */

/* Frees everything. */
void worker_close(struct cli_worker *worker);

/* The worker of --url, @NAME or the default. CLI_OK or CLI_USAGE. */
int cli_connect(struct cli *cli);
/* Connects, and runs one for each argument after the first. Returns the worst status. */
int cli_each(struct cli *cli, int argc, char **argv, int (*one)(struct cli *cli, const char *argument));

/* The URL and the settings of "@NAME" in the file of workers, or a URL. CLI_OK or CLI_USAGE. */
int worker_resolve(const char *name, struct cli_worker *worker);

/* Prints the names in the file of workers, "@NAME" on a line each. */
void worker_names_print(void);

enum worker_role {
        WORKER_OWN,    /* the one of --url or the first @NAME */
        WORKER_ITSELF, /* the same as its own peer: --peer-token-file is for it */
        WORKER_OTHER,
};

/*
 * Opens it. Options are for our own worker: there they win over the file of workers. What the file says of another one
 * wins over them. The environment comes last. CLI_OK or CLI_USAGE.
 */
int worker_open_with_settings(struct cli *cli, struct cli_worker *worker, enum worker_role role);

/* ---- workers.c ---- */

/*
 * Another one: "@NAME" of the file of workers, "ferry://NAME" of the registry, or a URL. same: its role where it is our
 * own, WORKER_ITSELF for the peer of a command, WORKER_OWN for one of several ends. CLI_OK or CLI_USAGE.
 */
int cli_worker_named(struct cli *cli, const char *name, enum worker_role same, struct cli_worker *ret_worker);

/* ---- result.c ---- */

/* The exit status of a call's result; tells on standard error, in one line, what went wrong and what to do. */
int cli_result(const struct cli_worker *worker, int r);

/* The same of a call that names a region. */
int cli_region_result(const struct cli_worker *worker, const struct ferry_region *region, int r);

/* The same for an operation that is done. */
int cli_operation_result(const struct ferry_operation *operation);

/* ---- output.c ---- */

/* One line on standard error, without the passwords of URLs. code: of a problem; NULL = none. Returns the status. */
int cli_fail_with_code(int status, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define cli_fail(status, ...) cli_fail_with_code(status, NULL, __VA_ARGS__)
/* From now on the lines are JSON. */
void cli_fail_in_json(bool json);
#define cli_usage_error(...) cli_fail(CLI_USAGE, __VA_ARGS__)
#define cli_problem(...) cli_fail(CLI_PROBLEM, __VA_ARGS__)

/*
 * What is there, at most size bytes, 0 = the end; or everything. They wait also where the other end of the descriptor
 * has made it non-blocking. Else a negative errno, -ECANCELED after a signal.
 */
ssize_t cli_read(int fd, void *buffer, size_t size);
int cli_write(int fd, const void *data, size_t size);

/* Whether a failure needs no line: the reader has closed the pipe, or a signal came that main tells of or top awaits.
 */
bool cli_is_silent(int r);

/* JSON or text to standard output, with a line break at its end. The exit status. */
int cli_print(const char *text);

/* What was printed by stdio goes out. The exit status. */
int cli_flush(void);

/* ---- text.c ---- */

/* What comes from a file's name or a worker must not control the terminal: each such character becomes a '?'. */
void cli_mask_controls(char *text);

/* Columns of a terminal that a text takes. */
size_t cli_text_width(const char *text);
/* Cuts a text to so many columns, of which the last one says that there is more. size: of the array. */
void cli_text_cut(char *text, size_t size, size_t columns);

void cli_bytes_format(char *text, size_t size, double bytes);

/* ---- signals.c ---- */

/*
 * SIGINT, SIGTERM, SIGHUP and SIGPIPE abort the calls of handles that are watched. Half a second later another one ends
 * the process. What nohup has ignored stays ignored.
 */
void signals_install(void);
/* After the time of --timeout, if it is given, the same is done, with SIGALRM. */
void signals_limit(const struct cli *cli);

void signals_watch(struct ferry *f);
void signals_unwatch(struct ferry *f);

/* The signal that came; 0 = none. */
int signals_caught(void);

/* Ends the calls of these handles with -ECANCELED until ferry_resume(). Safe in a handler. */
void signals_abort(void);

/* Called in the handler before another signal ends the process; NULL = nothing. */
void signals_before_death(void (*restore)(void));

/* Between the two no call is aborted: what was made must become known. */
void signals_defer(void);
void signals_resume(void);

/* ---- progress.c: one line on standard error for each phase of a command, drawn anew while it lasts ---- */

/* Whether it is a terminal whose lines can be drawn anew. That of TERM=dumb is none. */
bool cli_draws(int fd);
/* The width of a terminal, 80 where that is unknown. */
unsigned cli_columns(int fd);

/*
 * From now on phases are drawn, if standard error can be drawn on, and as long as this process is in the foreground.
 * Without this call the others do nothing.
 */
void progress_allow(bool allowed);

/*
 * A phase of total bytes begins, FERRY_SIZE_UNKNOWN or 0 = nobody knows how many; that before it ends. what: "reading",
 * which must stay; name: of a file, NULL = none. A phase that is over at once leaves no line.
 */
void progress_begin(const char *what, const char *name, uint64_t total);
void progress_move(uint64_t done);
/* The same, and a text behind the figures. */
void progress_tell(uint64_t done, const char *format, ...) __attribute__((format(printf, 2, 3)));
void progress_end(void);
/* Draws while a descriptor is not ready for events of poll(2). */
void progress_await(int fd, short events);
/* Before other text on the terminal: the line stays as it is, and the phase goes on below it. */
void progress_break(void);

/* For struct ferry_watch: an offer waits for its peer, then an operation moves its bytes. context is not used. */
int progress_operation(void *context, const struct ferry_operation *operation);

/* How often to look at what a worker does: as often as is drawn, or otherwise_ms. */
unsigned progress_look_ms(unsigned otherwise_ms);

/* ---- screen.c ---- */

/*
 * From now on the command draws on the whole of standard output, a terminal: on its alternate screen, without echo. The
 * key q is a SIGINT. An error message and the end of the command close it.
 */
void screen_open(void);
void screen_close(void);
/* Whether the terminal has another size, or was another program's meanwhile: calls were ended by signals_abort(). */
bool screen_wants_redraw(void);
void screen_redraws(void);

#endif
