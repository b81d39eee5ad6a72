/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "http.h"

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
