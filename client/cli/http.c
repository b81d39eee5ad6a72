/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int http_perform(struct cli *cli, const struct ferry_exchange *exchange, const char *path,
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
