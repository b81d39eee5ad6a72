/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static int cancel_one(struct cli *cli, const char *id)
{
        return cli_result(&cli->worker, ferry_cancel_operation(cli->worker.ferry, id, NULL));
}

int cli_run_cancel(struct cli *cli, int argc, char **argv)
{
        return cli_each(cli, argc, argv, cancel_one);
}
