/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"

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
