/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <wchar.h>

#include <ferry/ferry.h>
#include <ferry/options.h>
#include <ferry/util.h>

#include "url.h"

struct cli;
struct cli_command;

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
        const char *name;
        const char *arguments; /* one word each: "[ID]" may be missing, "ID..." be several; options are none */
        const char *help;
        const char *text; /* what else the manual says; NULL = nothing */
        cli_run *run;
        const char *examples[2]; /* a test runs them, with workers a, b and c */
};

/* What they run, each in the file of its family. */
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

/* ---- output.c: what came of a call ---- */

/* The exit status of a call's result; tells on standard error, in one line, what went wrong and what to do. */
int cli_result(const struct cli_worker *worker, int r);

/* The exit status of a call that names a region; tells whether the region is gone because nothing used it. */
int cli_region_result(const struct cli_worker *worker, const struct ferry_region *region, int r);

/* The exit status of an operation that is done; tells why it did not complete, and what to do. */
int cli_operation_result(const struct ferry_operation *operation);

/* ---- output.c: output ---- */

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

/* Everything until the end, with a NUL behind, for ferry_secret_free(). 0; -EFBIG: more than max bytes; as cli_read. */
int cli_read_all(int fd, size_t max, char **ret_text, size_t *ret_size);

/* Whether a failure needs no line: the reader has closed the pipe, or a signal came that main tells of or top awaits.
 */
bool cli_is_silent(int r);

/*
 * A piece of a text to standard output. On a terminal what controls it is escaped, as by cli_text_escape(); elsewhere
 * the bytes stay what they are. As cli_write.
 */
int cli_write_text(const char *text, size_t size, mbstate_t *state);
/* JSON or text to standard output, with a line break at its end. The exit status. */
int cli_print(const char *text);

/* What was printed by stdio goes out. The exit status. */
int cli_flush(void);

/* ---- text.c ---- */

/* What comes from a file's name or a worker must not control the terminal: each such character becomes a '?'. */
void cli_mask_controls(char *text);

/*
 * The same of whole documents: each such character, but ends of lines and tabs, becomes an escape of JSON ("\u001b"),
 * so that JSON remains what it was. The text may be a piece of a longer one: state, zero-initialised, has what began at
 * the end of the piece before. For free(); NULL when memory is short.
 */
char *cli_text_escape(const char *text, size_t size, mbstate_t *state);

/* Columns of a terminal that a text takes. */
size_t cli_text_width(const char *text);
/* Cuts a text to so many columns, of which the last one says that there is more. size: of the array. */
void cli_text_cut(char *text, size_t size, size_t columns);

void cli_bytes_format(char *text, size_t size, double bytes);

/* ---- signals.c ---- */

/*
 * SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE abort the calls of handles that are watched. Another one, but SIGPIPE,
 * ends the process from half a second later on. What nohup has ignored stays ignored.
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
/* Moves on, and shows a text behind the figures. */
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

/* ---- members of answers ---- */

/* Members of an answer, which may be any JSON: what has another type than a worker's counts as missing. */

/* The text of a member, which the answer owns; none where it is missing or null. */
static inline const char *member_text(struct json_object *object, const char *name, const char *none)
{
        struct json_object *value;
        return json_object_object_get_ex(object, name, &value) && value ? json_object_get_string(value) : none;
}

/* The number of elements of a member that is a list, or 0. */
static inline size_t member_list(struct json_object *object, const char *name, struct json_object **ret_list)
{
        bool is_list =
                json_object_object_get_ex(object, name, ret_list) && json_object_is_type(*ret_list, json_type_array);
        return is_list ? json_object_array_length(*ret_list) : 0;
}

/* The first URL of a worker's or peer's addresses becomes a member of it, for a table. */
static inline void member_add_url(struct json_object *worker)
{
        struct json_object *addresses = NULL, *urls;
        json_object_object_get_ex(worker, "addresses", &addresses);
        if (member_list(addresses, "http", &urls))
                json_object_object_add(worker, "url", json_object_get(json_object_array_get_idx(urls, 0)));
}

/* The text of an element; "" where it is null. */
static inline const char *member_item(struct json_object *list, size_t i)
{
        const char *text = json_object_get_string(json_object_array_get_idx(list, i));
        return text ? text : "";
}

/* ---- table.c ---- */

/* JSON as a table or, with --json, as it came. */

enum table_type {
        TABLE_TEXT,
        TABLE_NUMBER,
        TABLE_BYTES,
        TABLE_AGE,    /* a time, as "3m" ago */
        TABLE_MICROS, /* as "1.3 ms" */
        TABLE_LIST,   /* texts, joined by blanks */
        TABLE_PEER,   /* a worker: its name, else its epoch */
        TABLE_PART,   /* bytes, as the percentage of "bytes_total" */
};

struct table_column {
        const char *title, *member;
        enum table_type type;
};

/* One value as text; "-" when the member is missing. */
void table_format(struct json_object *row, const struct table_column *column, char *text, size_t size);

/*
 * The first n elements under a title line, each column as wide as it must be. width: of the terminal, for which columns
 * are dropped from the right, and a text is cut, but no number; 0 = as wide as it gets.
 */
void table_print(struct json_object *array, size_t n, const struct table_column *columns, size_t n_columns,
                 size_t width);

/* Whether a path could be made. CLI_OK or CLI_USAGE. */
int table_path(const struct path *path);

/* Tells that a path of this worker answers with something else. CLI_UNREACHABLE. */
int table_nonsense(const struct cli_worker *worker, const char *path);

/* The value of a text, for json_object_put(); NULL where it is not JSON. */
struct json_object *table_parse(const char *text);

/* GET of a JSON document, whose member has that type, for json_object_put(). An exit status. */
int table_get(const struct cli_worker *worker, const char *path, const char *member, enum json_type type,
              struct json_object **ret_json);

/*
 * Every page of a list (path with its query, "?limit=…"), as one array for json_object_put(). ret_skipped: the sum of
 * their "skipped"; NULL = not wanted. An exit status.
 */
int table_get_all(const struct cli_worker *worker, const char *path, const char *member, int64_t *ret_skipped,
                  struct json_object **ret_array);

/* JSON to standard output: a document, indented by two blanks, or one of a stream, on a line. The exit status. */
int table_print_document(struct json_object *json);
int table_print_line(struct json_object *json);
/* The text of an answer as such a document, or as such a line; as it came if it is no JSON. */
int table_print_answer(const char *text);
int table_print_answer_line(const char *text);

/* The table of an array, or the array as JSON. An exit status. */
struct table {
        const struct table_column *columns;
        size_t n_columns;
        const char *empty;                        /* what stands in place of a table without rows */
        void (*prepare)(struct json_object *row); /* adds members that only the table has; NULL = none */
};
int table_show(const struct cli *cli, struct json_object *array, const struct table *table);

/* Connects, and shows every page of a list, as table_get_all() takes it. An exit status. */
int table_run(struct cli *cli, const char *path, const char *member, const struct table *table);

/* ---- link.c ---- */

/*
 * A resource of any worker: "http://HOST:PORT/v1/operations/ID[/metadata]", "unix:/PATH:/v1/operations/ID[/metadata]",
 * "@NAME/ID", "ferry://NAME/ID" or "ID". Pure.
 */
struct link {
        char *worker; /* URL, "@NAME" or "ferry://NAME"; NULL = the one of --url */
        char *id;
};

/* collection: "operations" or "regions", whose ids begin with prefix. 0; -EINVAL; -ENOMEM. */
int link_parse(const char *text, const char *collection, const char *prefix, struct link *ret_link);
void link_clear(struct link *link);

/* The URL of an operation's metadata at a worker, for free(); NULL when memory is short. */
char *link_metadata(const char *worker_url, const char *id);

/* ---- local.c ---- */

/*
 * Whether process pid of this machine has the listening socket of url. A worker behind a tunnel, or in another pid
 * namespace, reports a pid that means another process here.
 */
bool local_is_worker(const char *url, pid_t pid);

/*
 * Opens a region of a local worker and maps it. NULL if it cannot; the caller then uses HTTP. The mapping has
 * region->size bytes.
 */
void *local_map(const char *url, const struct ferry_region *region, bool writable);

/*
 * Maps size bytes of a new, empty file with all huge pages present: copying to it takes a third of the time of write().
 * NULL if the file is not in memory (tmpfs) or is small, or the system has no huge pages; then use write(). Unmap with
 * munmap.
 */
void *mapping_new(int fd, size_t size);

/* ---- content.c ---- */

/*
 * Moves bytes between files and regions: through a mapping if the region's worker runs here as the same user, else over
 * HTTP.
 */

/*
 * A file to read, "-" = standard input. name is for messages. content_open() reads what has no size into memory, and
 * refuses what is empty; content_open_any() leaves it to be read to its end, with FERRY_SIZE_UNKNOWN. CLI_OK or
 * CLI_USAGE; CLI_PROBLEM after a signal.
 */
struct content_input {
        int fd;
        uint64_t size;
        const char *name;
        bool spooled; /* read already */
};
int content_open(const char *file, struct content_input *ret_input);
int content_open_any(const char *file, struct content_input *ret_input);
void content_close(struct content_input *input);

/* All of a file, "-" = standard input, at most max bytes, for free(), with a NUL behind. CLI_OK or CLI_USAGE;
 * CLI_PROBLEM after a signal. */
int content_slurp(const char *name, size_t max, char **ret_data, size_t *ret_size);

/*
 * Called again and again, asks the worker for a region with idle_ms so often that it stays. *last_ms: when it did; 0 at
 * the start. The result of the call.
 */
int content_keep(const struct cli_worker *worker, const struct ferry_region *region, uint64_t *last_ms);

/* Fills a region. CLI_OK; else an exit status, with a message. */
int content_fill(const struct cli_worker *worker, const struct ferry_region *region, const struct content_input *input);

/* Source and sink of a request, which tell a fault of the file from one of the request. */
struct content_stream {
        int fd;
        const char *name;
        int error;       /* of the file */
        uint64_t done;   /* bytes, of which the phase is told */
        bool text;       /* it is standard output, for cli_write_text(): */
        mbstate_t state; /* of the text */
};
ssize_t content_stream_read(void *context, void *buffer, size_t size);
int content_stream_write(void *context, const void *data, size_t size);

/* The exit status of such a request, as cli_result(). */
int content_stream_result(const struct cli_worker *worker, const struct content_stream *stream, int r);

/*
 * A file to write, "-" = standard output, which must not be a terminal. It has another name, FILE.part-PID, until it is
 * complete. Symbolic links are followed.
 */
struct content_output {
        int fd;
        char *part;   /* NULL = written in place: a device, a pipe, a descriptor */
        char *target; /* what part becomes: the file, or the one that a symbolic link names */
        const char *file;
        void *map; /* mapping of a file in memory; NULL = use write() */
        uint64_t size;
};
int content_create(const char *file, struct content_output *ret_output);

/* Reserves space on the disk. 0 or -errno. */
int content_reserve(struct content_output *output, uint64_t size);

/* CLI_OK, or CLI_USAGE with a line about the failure r of content_reserve. */
int content_reserved(const struct content_output *output, uint64_t size, int r);

/* Saves a region to a file. CLI_OK; else an exit status, with a message. */
int content_save(const struct cli_worker *worker, const struct ferry_region *region,
                 const struct content_output *output, uint64_t size);

/* Closes the file: complete where status is CLI_OK, else removed. The status, which may get worse. */
int content_end(struct content_output *output, int status);

/* ---- remote.c ---- */

/* The offer of another worker, from its metadata. */
struct remote {
        struct cli_worker worker;
        char *metadata;            /* a secret */
        uint64_t size;             /* of all descriptors, or of the parts */
        struct ferry_range *parts; /* that --remote names; owned; NULL = all of it */
        size_t n_parts;
};

/*
 * Fetches the metadata of a passive operation of the kind, FERRY_READABLE or FERRY_WRITABLE, FERRY_KIND_COUNT = either,
 * and takes the parts that --remote names. An exit status. remote_clear in any case.
 */
int remote_fetch(struct cli *cli, const char *text, enum ferry_kind kind, struct remote *ret_remote);
void remote_clear(struct remote *remote);

/* ---- job.c ---- */

/* A region and an operation that a command makes, and removes however it ends. Zero-initialise. */
struct job {
        struct cli *cli;
        struct cli_worker *worker; /* borrowed */
        struct ferry_region region;
        struct ferry_operation operation;
        bool silent; /* the worker did not answer in time */
};

/* Makes the job's region, with --idle; name: NULL = that of the command. An exit status. */
int job_make_region(struct job *job, uint64_t size, const char *name);

/*
 * Makes the job's region, and does not wait until it is ready: its id is known at once, so that a signal need not wait
 * for it, and several workers make theirs together. idle_ms: after which without use the worker deletes it; 0 = it
 * stays. The result of the call; without an id it was no worker that answered.
 */
int job_begin_region(struct job *job, uint64_t size, const char *name, uint64_t idle_ms);
/* Waits until it is ready or has failed, for at most wait_ms. */
void job_watch_region(const struct job *job, uint64_t wait_ms);

/* Makes the job's operation, over size bytes of region_id. spec without descriptors. An exit status. */
int job_make_operation(struct job *job, struct ferry_operation_spec *spec, const char *region_id, uint64_t size);

/* Waits for its end, with progress. An exit status, CLI_LATE after --timeout. */
int job_wait(struct job *job);

/* Prints the operation as JSON where --json asks for it. An exit status. */
int job_report(struct job *job);

/* Cancels the operation if it still runs, and deletes whatever the job has made. Tells of what it must leave. */
void job_end(struct job *job);

/* Prints the URL of an offer's metadata. Returns an exit status. */
int job_announce(struct job *job, const char *use);

/* ---- events.c ---- */

enum { EVENTS_WAIT_MS = 10000 }; /* of one request; how late a worker that has stopped is noticed, too */

/*
 * Gets a page of the events after one (NULL = from the oldest kept), filtered by --label if given, for
 * json_object_put(). Waits up to wait_ms for the first. Returns an exit status.
 */
int events_page(struct cli *cli, const char *after, unsigned wait_ms, struct json_object **ret_page);

/* ---- completion_script.c ---- */

/* Prints the script for a shell. Returns false for a name that is no shell's. */
bool completion_script(const struct cli *cli, const char *shell);

#endif
