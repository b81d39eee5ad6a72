/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/*
 * ferry get, post, put and delete: any request of the REST interface, with the worker's address, token and
 * certificates. Bodies are streamed, but for that of a POST, which may be metadata, and is wiped.
 */

/* The size of "/v1/regions/ID/content", if someone watches how it comes. */
static uint64_t http_size(const struct cli *cli, const char *path)
{
        struct ferry_region region = { 0 };
        char id[FERRY_ID_SIZE];
        int end = 0;
        _Static_assert(FERRY_ID_SIZE > 31, "scanf's number");
        if (!progress_look_ms(0) || sscanf(path, "/v1/regions/%31[a-z0-9_]/content%n", id, &end) != 1 || !end ||
            path[end] || ferry_get_region(cli->worker.ferry, id, &region) != 0)
                return FERRY_SIZE_UNKNOWN;
        return region.size;
}

/*
 * One request. The body of a good answer goes to output as it comes, NULL = standard output, where --json makes it a
 * document. exchange->source_context is a struct content_stream. Returns an exit status.
 */
static int http_perform(struct cli *cli, const struct ferry_exchange *exchange, const char *path,
                        const struct content_output *output)
{
        struct content_stream to = { .fd = output ? output->fd : STDOUT_FILENO,
                                     .name = output ? output->file : "standard output",
                                     .text = !output };
        const struct content_stream *from = exchange->source ? exchange->source_context : NULL;
        struct ferry_exchange full = *exchange;
        struct ferry_answer answer;
        char *slashed = NULL;
        if (*path != '/' && strstr(path, "://"))
                return cli_usage_error("%s is a URL: give its path, such as /v1/worker, and name the worker by --url",
                                       path);
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (*path != '/' && asprintf(&slashed, "/%s", path) < 0)
                return cli_usage_error("%s", strerror(ENOMEM));
        full.path = slashed ? slashed : path;
        if (output || !cli->json) {
                full.sink = content_stream_write;
                full.sink_context = &to;
        }
        if (from)
                progress_begin("reading", from->name, exchange->source_size);
        else if (!isatty(to.fd))
                progress_begin("writing", to.name, http_size(cli, full.path));
        int r = ferry_exchange_perform(cli->worker.ferry, &full, &answer);
        if (r == 0)
                progress_end();
        status = content_stream_result(&cli->worker, from && (from->error || !to.error) ? from : &to, r);
        if (status == CLI_OK && answer.body_size)
                status = table_print_answer(answer.body);
        ferry_answer_clear(&answer);
        free(slashed);
        return status;
}

/* ---- ferry get ---- */

/* Whether what is there are bytes, which must not go to a terminal. */
static bool get_is_binary(const char *path)
{
        const char *end = path + strcspn(path, "?");
        return end - path >= 8 && strncmp(end - 8, "/content", 8) == 0;
}

int cli_run_get(struct cli *cli, int argc, char **argv)
{
        struct ferry_exchange exchange = { .method = "GET" };
        struct content_output output = { .fd = -1 };
        bool bytes = cli->output || get_is_binary(argv[1]);
        int status = bytes ? content_create(cli->output, &output) : CLI_OK;
        if (status == CLI_OK)
                status = http_perform(cli, &exchange, argv[1], bytes ? &output : NULL);
        return content_end(&output, status);
}

/* ---- ferry post ---- */

enum { POST_BODY_MAX = 64 * 1024 * 1024 };

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
                        int status =
                                content_slurp(*body == '@' ? body + 1 : body, POST_BODY_MAX, &data, &exchange.size);
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
