/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_run_version(struct cli *cli, int argc, char **argv)
{
        printf(cli->json ? "{\"version\":\"%s\"}\n" : "ferry %s\n", ferry_version());
        return CLI_OK;
}
