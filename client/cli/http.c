/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "content.h"

/*
 * One request; the body of a good answer goes to output as it comes, NULL = standard output. A source's context is a
 * struct content_stream. An exit status.
 */
static int http_perform(struct cli *cli, const struct ferry_exchange *exchange, const char *path,
                        const struct content_output *output)
{
        struct content_stream to = { output ? output->fd : STDOUT_FILENO, output ? output->file : "standard output",
                                     0 };
        const struct content_stream *from = exchange->source ? exchange->source_context : NULL;
        struct ferry_exchange full = *exchange;
        struct ferry_answer answer;
        char *slashed = NULL;
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (*path != '/' && asprintf(&slashed, "/%s", path) < 0)
                return cli_usage_error("%s", strerror(ENOMEM));
        full.path = slashed ? slashed : path;
        full.sink = content_stream_write;
        full.sink_context = &to;
        int r = ferry_exchange_perform(cli->worker.ferry, &full, &answer);
        ferry_answer_clear(&answer);
        free(slashed);
        return content_stream_result(&cli->worker, from && (from->error || !to.error) ? from : &to, r);
}

/* ---- ferry get ---- */

static bool get_is_binary(const char *path)
{
        const char *end = path + strcspn(path, "?");
        return end - path >= 8 && strncmp(end - 8, "/content", 8) == 0;
}

int cli_run_get(struct cli *cli, int argc, char **argv)
{
        struct ferry_exchange exchange = { .method = "GET" };
        struct content_output output = { .fd = STDOUT_FILENO, .file = "standard output" };
        int status = CLI_OK;
        if (cli->output || get_is_binary(argv[1]))
                status = content_create(cli->output, &output);
        if (status == CLI_OK)
                status = http_perform(cli, &exchange, argv[1], &output);
        return content_end(&output, status);
}

/* ---- ferry post ---- */

enum { POST_BODY_MAX = 64 * 1024 * 1024 };

/* Reads a whole file, "-" = standard input, for free(). */
static int post_slurp(const char *name, char **ret_data, size_t *ret_size)
{
        struct content_input input;
        char *data = NULL, piece[65536];
        size_t size = 0, total = 0;
        int status = content_open_any(name, &input);
        if (status != CLI_OK)
                return status;
        FILE *memory = open_memstream(&data, &size);
        ssize_t n = memory ? 0 : -ENOMEM;
        while (memory && (n = cli_read(input.fd, piece, sizeof(piece))) > 0 && total <= POST_BODY_MAX)
                total += fwrite(piece, 1, (size_t)n, memory);
        content_close(&input);
        if (memory && fclose(memory) != 0 && n >= 0)
                n = -ENOMEM;
        explicit_bzero(piece, sizeof(piece));
        if (n < 0 || total > POST_BODY_MAX) {
                free(data);
                return cli_is_silent((int)n) ? CLI_PROBLEM
                                             : cli_usage_error("%s: %s", input.name,
                                                               n < 0 ? strerror((int)-n) : "too large for a body");
        }
        *ret_data = data;
        *ret_size = size;
        return CLI_OK;
}

int cli_run_post(struct cli *cli, int argc, char **argv)
{
        struct ferry_exchange exchange = { .method = "POST" };
        char *data = NULL;
        if (argc > 2) {
                const char *body = argv[2];
                exchange.content_type = "application/json";
                exchange.body = body;
                exchange.size = strlen(body);
                if (*body == '@' || strcmp(body, "-") == 0) {
                        int status = post_slurp(*body == '@' ? body + 1 : body, &data, &exchange.size);
                        if (status != CLI_OK)
                                return status;
                        exchange.body = data;
                }
        }
        int status = http_perform(cli, &exchange, argv[1], NULL);
        if (data)
                explicit_bzero(data, exchange.size);
        free(data);
        return status;
}

/* ---- ferry put and ferry delete ---- */

int cli_run_put(struct cli *cli, int argc, char **argv)
{
        struct content_input input;
        int status = content_open_any(argv[2], &input);
        if (status != CLI_OK)
                return status;
        struct content_stream stream = { .fd = input.fd, .name = input.name };
        struct ferry_exchange exchange = {
                .method = "PUT",
                .content_type = "application/octet-stream",
                .source = content_stream_read,
                .source_context = &stream,
                .source_size = input.size,
        };
        status = http_perform(cli, &exchange, argv[1], NULL);
        content_close(&input);
        return status;
}

int cli_run_delete(struct cli *cli, int argc, char **argv)
{
        return http_perform(cli, &(struct ferry_exchange){ .method = "DELETE" }, argv[1], NULL);
}
