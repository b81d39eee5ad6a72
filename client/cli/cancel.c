/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

/* Cancels all of them. Returns the worst status. */
int cli_run_cancel(struct cli *cli, int argc, char **argv)
{
        int status = cli_connect(cli);
        for (int i = 1; status != CLI_USAGE && status != CLI_UNREACHABLE && i < argc; i++) {
                int one = cli_result(&cli->worker, ferry_cancel_operation(cli->worker.ferry, argv[i], NULL));
                status = one != CLI_OK ? one : status;
        }
        return status;
}
