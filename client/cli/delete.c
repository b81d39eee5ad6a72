/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

int cli_run_delete(struct cli *cli, int argc, char **argv)
{
        return http_perform(cli, &(struct ferry_exchange){ .method = "DELETE" }, argv[1], NULL);
}
