/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/commit.h>

#include "cli.h"

int cli_run_version(struct cli *cli, int argc, char **argv)
{
        if (!cli->json)
                printf("ferry %s\n", ferry_full_version);
        else if (ferry_commit)
                printf("{\"version\":\"%s\",\"commit\":\"%s\"}\n", ferry_version(), ferry_commit);
        else
                printf("{\"version\":\"%s\"}\n", ferry_version());
        return CLI_OK;
}
