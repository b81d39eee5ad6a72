/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_run_connect(struct cli *cli, int argc, char **argv)
{
        struct ferry_peer peer = { 0 };
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        status = cli_result(&cli->worker, ferry_connect_peer(cli->worker.ferry, argv[1], &peer));
        if (status == CLI_OK)
                status = cli_print(peer.json);
        ferry_peer_clear(&peer);
        return status;
}
