/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "http.h"

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
