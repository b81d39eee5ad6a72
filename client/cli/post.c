/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"

enum { POST_BODY_MAX = 64 * 1024 * 1024 };

/* Reads a whole file, "-" = standard input, for free(). */
static int post_slurp(const char *name, char **ret_data, size_t *ret_size)
{
        int fd = strcmp(name, "-") == 0 ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_usage_error("%s: %s", name, strerror(errno));
        char *data = NULL, piece[65536];
        size_t size = 0, total = 0;
        FILE *memory = open_memstream(&data, &size);
        ssize_t n = memory ? 0 : -ENOMEM;
        while (memory && (n = http_read(&fd, piece, sizeof(piece))) > 0 && total <= POST_BODY_MAX)
                total += fwrite(piece, 1, (size_t)n, memory);
        close(fd);
        if (memory && fclose(memory) != 0 && n >= 0)
                n = -ENOMEM;
        explicit_bzero(piece, sizeof(piece));
        if (n < 0 || total > POST_BODY_MAX) {
                free(data);
                return cli_usage_error("%s: %s", name, n < 0 ? strerror((int)-n) : "too large for a body");
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
        int status = http_perform(cli, &exchange, argv[1], STDOUT_FILENO);
        if (data)
                explicit_bzero(data, exchange.size);
        free(data);
        return status;
}
