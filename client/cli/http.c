/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct http_output {
        int fd, error;
};

static int http_write(void *context, const void *data, size_t size)
{
        struct http_output *output = context;
        output->error = cli_write(output->fd, data, size);
        return output->error;
}

ssize_t http_read(void *context, void *buffer, size_t size)
{
        const int *fd = context;
        for (;;) {
                ssize_t n = read(*fd, buffer, size);
                if (n >= 0 || errno != EINTR)
                        return n < 0 ? -errno : n;
        }
}

int http_perform(struct cli *cli, const struct ferry_exchange *exchange, const char *path, int fd)
{
        struct http_output output = { .fd = fd };
        struct ferry_exchange full = *exchange;
        struct ferry_answer answer;
        char *slashed = NULL;
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (*path != '/' && asprintf(&slashed, "/%s", path) < 0)
                return cli_usage_error("%s", strerror(ENOMEM));
        full.path = slashed ? slashed : path;
        full.sink = http_write;
        full.sink_context = &output;
        int r = ferry_exchange_perform(cli->worker.ferry, &full, &answer);
        ferry_answer_clear(&answer);
        free(slashed);
        if (output.error && output.error != -EPIPE)
                return cli_usage_error("%s: %s", cli->output ? cli->output : "standard output",
                                       strerror(-output.error));
        return cli_result(&cli->worker, r);
}
