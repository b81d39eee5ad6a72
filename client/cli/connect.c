/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_run_connect(struct cli *cli, int argc, char **argv)
{
        struct ferry_peer peer = { 0 };
        struct cli_worker named = { 0 };
        int status = worker_resolve(argv[1], &named);
        if (status == CLI_OK)
                status = cli_connect(cli);
        if (status == CLI_OK)
                status = cli_result(&cli->worker, ferry_connect_peer(cli->worker.ferry, named.url, &peer));
        if (status == CLI_OK)
                status = cli_print(peer.json);
        ferry_peer_clear(&peer);
        worker_close(&named);
        return status;
}
