/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

static int rm_one(struct cli *cli, const char *id)
{
        if (strncmp(id, "op_", 3) == 0)
                return cli_result(&cli->worker, ferry_delete_operation(cli->worker.ferry, id));
        if (strncmp(id, "rgn_", 4) == 0)
                return cli_result(&cli->worker, ferry_delete_region(cli->worker.ferry, id));
        return cli_usage_error("%s is neither an operation (op_…) nor a region (rgn_…)", id);
}

int cli_run_rm(struct cli *cli, int argc, char **argv)
{
        return cli_each(cli, argc, argv, rm_one);
}
