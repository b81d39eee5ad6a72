/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

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
