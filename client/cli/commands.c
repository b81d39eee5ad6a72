/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { COMMAND_BODY_MAX = 64 * 1024 * 1024, COMMAND_WATCH_MS = 200 };

static int command_result(const struct cli *cli, int r)
{
        if (r == 0)
                return CLI_OK;
        if (r == -EPIPE)
                return CLI_PROBLEM; /* whoever read our output has seen enough */
        fprintf(stderr, "ferry: %s\n", ferry_last_message(cli->ferry));
        if (r > 0)
                return CLI_PROBLEM;
        return r == -EINVAL ? CLI_USAGE : CLI_UNREACHABLE;
}

static int command_write(void *context, const void *data, size_t size)
{
        const int *fd = context;
        while (size) {
                ssize_t n = write(*fd, data, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data = (const char *)data + n;
                size -= (size_t)n;
        }
        return 0;
}

static ssize_t command_read(void *context, void *buffer, size_t size)
{
        const int *fd = context;
        for (;;) {
                ssize_t n = read(*fd, buffer, size);
                if (n >= 0 || errno != EINTR)
                        return n < 0 ? -errno : n;
        }
}

/* One request; the body of a good answer goes to standard output as it comes. */
static int command_exchange(struct cli *cli, const struct ferry_exchange *exchange, const char *path)
{
        struct ferry_exchange full = *exchange;
        struct ferry_answer answer;
        char *slashed = NULL;
        int out = STDOUT_FILENO, status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (*path != '/' && asprintf(&slashed, "/%s", path) < 0)
                return cli_usage_error("%s", strerror(ENOMEM));
        full.path = slashed ? slashed : path;
        full.sink = command_write;
        full.sink_context = &out;
        int r = ferry_exchange_perform(cli->ferry, &full, &answer);
        ferry_answer_clear(&answer);
        free(slashed);
        return command_result(cli, r);
}

static int command_version(struct cli *cli, int argc, char **argv)
{
        printf("ferry %s\n", ferry_version());
        return CLI_OK;
}

static int command_get(struct cli *cli, int argc, char **argv)
{
        return command_exchange(cli, &(struct ferry_exchange){ .method = "GET" }, argv[1]);
}

static int command_delete(struct cli *cli, int argc, char **argv)
{
        return command_exchange(cli, &(struct ferry_exchange){ .method = "DELETE" }, argv[1]);
}

/* "-" is standard input. */
static int command_open(const char *name, int *ret_fd)
{
        int fd = strcmp(name, "-") == 0 ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_usage_error("%s: %s", name, strerror(errno));
        *ret_fd = fd;
        return CLI_OK;
}

/* The whole file, for free(). */
static int command_slurp(const char *name, char **ret_data, size_t *ret_size)
{
        int fd = -1, status = command_open(name, &fd);
        if (status != CLI_OK)
                return status;
        char *data = NULL;
        size_t size = 0;
        FILE *memory = open_memstream(&data, &size);
        char piece[65536];
        ssize_t n = memory ? 0 : -ENOMEM;
        size_t total = 0;
        while (memory && (n = command_read(&fd, piece, sizeof(piece))) > 0 && total <= COMMAND_BODY_MAX)
                total += fwrite(piece, 1, (size_t)n, memory);
        close(fd);
        if (memory && fclose(memory) != 0 && n >= 0)
                n = -ENOMEM;
        explicit_bzero(piece, sizeof(piece));
        if (n < 0 || total > COMMAND_BODY_MAX) {
                free(data);
                return cli_usage_error("%s: %s", name, n < 0 ? strerror((int)-n) : "too large for a body");
        }
        *ret_data = data;
        *ret_size = size;
        return CLI_OK;
}

static int command_post(struct cli *cli, int argc, char **argv)
{
        struct ferry_exchange exchange = { .method = "POST" };
        char *data = NULL;
        if (argc > 2) {
                const char *body = argv[2];
                exchange.content_type = "application/json";
                if (*body == '@' || strcmp(body, "-") == 0) {
                        int status = command_slurp(*body == '@' ? body + 1 : body, &data, &exchange.size);
                        if (status != CLI_OK)
                                return status;
                        exchange.body = data;
                } else {
                        exchange.body = body;
                        exchange.size = strlen(body);
                }
        }
        int status = command_exchange(cli, &exchange, argv[1]);
        if (data)
                explicit_bzero(data, exchange.size);
        free(data);
        return status;
}

static int command_put(struct cli *cli, int argc, char **argv)
{
        struct stat file;
        int fd = -1, status = command_open(argv[2], &fd);
        if (status != CLI_OK)
                return status;
        struct ferry_exchange exchange = {
                .method = "PUT",
                .content_type = "application/octet-stream",
                .source = command_read,
                .source_context = &fd,
                .source_size = FERRY_SIZE_UNKNOWN,
        };
        if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
                off_t at = lseek(fd, 0, SEEK_CUR);
                exchange.source_size = at >= 0 && at < file.st_size ? (uint64_t)(file.st_size - at) : 0;
        }
        status = command_exchange(cli, &exchange, argv[1]);
        close(fd);
        return status;
}

static int command_connect(struct cli *cli, int argc, char **argv)
{
        struct ferry_peer peer;
        int out = STDOUT_FILENO, status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        int r = ferry_connect_peer(cli->ferry, argv[1], &peer);
        if (r != 0)
                return command_result(cli, r);
        r = command_write(&out, peer.json, strlen(peer.json));
        ferry_peer_clear(&peer);
        return r == 0 || r == -EPIPE ? command_result(cli, r) : cli_usage_error("%s", strerror(-r));
}

static int command_wait_report(struct cli *cli, const struct ferry_operation *operation)
{
        char *path = NULL;
        if (asprintf(&path, "/v1/operations/%s", operation->id) < 0)
                return cli_usage_error("%s", strerror(ENOMEM));
        struct ferry_answer answer;
        int out = STDOUT_FILENO, r = ferry_request(cli->ferry, "GET", path, NULL, NULL, 0, &answer);
        if (r == 0 && answer.body)
                r = command_write(&out, answer.body, answer.body_size);
        if (r == 0 && (!answer.body || !answer.body_size || answer.body[answer.body_size - 1] != '\n'))
                r = command_write(&out, "\n", 1);
        ferry_answer_clear(&answer);
        free(path);
        if (r != 0)
                return command_result(cli, r);
        if (operation->status == FERRY_COMPLETE)
                return CLI_OK;
        fprintf(stderr, "ferry: %s did not complete: %s%s%s\n", operation->id, operation->error_code,
                operation->error_detail[0] ? ": " : "", operation->error_detail);
        return CLI_PROBLEM;
}

static int command_wait(struct cli *cli, int argc, char **argv)
{
        static const struct option longs[] = { { "timeout", required_argument, NULL, 't' }, { 0 } };
        struct cli_progress progress = { .stream = stderr };
        struct ferry_watch watch = { .timeout_ms = FERRY_FOREVER, .interval_ms = COMMAND_WATCH_MS };
        struct ferry_operation operation = { 0 };
        optind = 0; /* glibc: start over, with other options */
        for (int c = getopt_long(argc, argv, "", longs, NULL); c != -1; c = getopt_long(argc, argv, "", longs, NULL)) {
                if (c != 't')
                        return CLI_USAGE;
                if (!cli_duration_parse(optarg, &watch.timeout_ms))
                        return cli_usage_error("not a duration: %s", optarg);
        }
        if (argc - optind != 1)
                return cli_usage_error("wait takes one operation id");
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (isatty(fileno(stderr))) {
                watch.progress = cli_progress_show;
                watch.context = &progress;
        }
        int r = ferry_watch_operation(cli->ferry, argv[optind], &watch, &operation);
        cli_progress_end(&progress);
        if (r == -ETIMEDOUT && watch.timeout_ms != FERRY_FOREVER && operation.id[0]) {
                fprintf(stderr, "ferry: %s is not done yet\n", operation.id);
                status = CLI_LATE;
        } else {
                status = r == 0 ? command_wait_report(cli, &operation) : command_result(cli, r);
        }
        ferry_operation_clear(&operation);
        return status;
}

const struct cli_command cli_commands[] = {
        { "version", "", "print the version of this program", 0, 0, command_version },
        { "get", "PATH", "print a resource", 1, 1, command_get },
        { "post", "PATH [JSON|@FILE|-]", "send JSON and print the answer", 1, 2, command_post },
        { "put", "PATH FILE|-", "send a file, for example into /v1/regions/ID/content", 2, 2, command_put },
        { "delete", "PATH", "delete a resource", 1, 1, command_delete },
        { "connect", "PEER-URL", "have the worker connect to another one beforehand", 1, 1, command_connect },
        { "wait", "OPERATION [--timeout TIME]", "wait until an operation is done and print it", 1, 3, command_wait },
};
const size_t cli_commands_count = sizeof(cli_commands) / sizeof(cli_commands[0]);
