/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

enum { COMMAND_MANY = 1000 };

const struct cli_command cli_commands[] = {
        { "offer", "FILE", "offer a file, and wait until a peer has it, or as many as --uses says",
          "Prints the URL that ferry fetch takes. - is standard input. The offer is withdrawn however the command "
          "ends.",
          1, 1, cli_run_offer },
        { "fetch", "URL", "fetch what a peer offers into a file",
          "URL is what ferry offer prints, @NAME/op_ID, ferry://NAME/op_ID, or nats://HOST:PORT/NAME/op_ID through "
          "ferry-nats. Without -o the bytes go to standard output, which must not be a terminal. Until the file is "
          "complete its name is FILE.part-PID. Symbolic links are followed.",
          1, 1, cli_run_fetch },
        { "accept", "-o FILE --size SIZE", "accept bytes of one peer into a file",
          "Prints the URL that ferry send takes.", 0, 0, cli_run_accept },
        { "send", "FILE URL", "send a file to a peer that accepts it",
          "URL is what ferry accept prints, or @NAME/op_ID. - is standard input.", 2, 2, cli_run_send },
        { "copy", "FROM TO", "copy between regions of workers, or a region and a file",
          "FROM and TO are a region (rgn_ID, @NAME/rgn_ID, URL/v1/regions/rgn_ID) or a file; - is standard input or "
          "output. Between two workers the worker of TO reads.",
          2, 2, cli_run_copy },
        { "spread", "FILE|OFFER WORKER...", "bring a file, or what a worker offers, to many workers",
          "Each worker, a URL or @NAME, reads from the one before it, while that still reads: all have the bytes in "
          "about the time of one, whatever the link of the source. They are checked by checksums on the way, and by "
          "digests at the end. Prints the region of each, which stays. In place of a worker, @NAME/rgn_ID or "
          "URL/v1/regions/rgn_ID is a region that it has already, to be filled from its start. A worker that fails is "
          "left out, and the next goes on from an earlier one. Exits with 1 where a worker lacks the bytes.",
          2, COMMAND_MANY, cli_run_spread },
        { "ls", "", "list operations", NULL, 0, 0, cli_run_ls },
        { "show", "[ID]", "print an operation, a region, the worker or its limits",
          "ID is op_ID, rgn_ID, worker or limits.", 0, 1, cli_run_show },
        { "wait", "OPERATION...", "wait until operations are done, and print them, one a line",
          "Reconnects to the worker until the time limit, by default for a minute.", 1, COMMAND_MANY, cli_run_wait },
        { "cancel", "OPERATION...", "cancel operations", "Their memory may be reused once they are done.", 1,
          COMMAND_MANY, cli_run_cancel },
        { "rm", "ID...", "delete operations (cancelling them) and regions", NULL, 1, COMMAND_MANY, cli_run_rm },
        { "regions", "", "list regions", NULL, 0, 0, cli_run_regions },
        { "peers", "", "list the workers that this one is connected to", NULL, 0, 0, cli_run_peers },
        { "workers", "", "list the workers in the registry",
          "The registry is that of the worker (ferryd --registry). Its values that are no worker's are counted "
          "on standard error. Commands that take the URL of another worker take "
          "ferry://NAME for one of the registry. Ctrl-C ends --watch.",
          0, 0, cli_run_workers },
        { "connect", "PEER", "connect the worker to another one before the first transfer",
          "PEER is the URL or @NAME of another worker.", 1, 1, cli_run_connect },
        { "devices", "", "list memory, RDMA devices and transports", NULL, 0, 0, cli_run_devices },
        { "events", "", "print recent events of the worker, one a line",
          "Events are of operations, regions, peers and limits. Ctrl-C ends --follow.", 0, 0, cli_run_events },
        { "top", "", "watch transfers live",
          "Redraws on each event, and while bytes move. Ctrl-C ends it. Prints once if the output is no terminal, or "
          "TERM is dumb.",
          0, 0, cli_run_top },
        { "bench", "PEER", "measure reads from another worker (URL or @NAME)",
          "Creates a region on both workers and removes it. --size is the largest transfer.", 1, 1, cli_run_bench },
        { "doctor", "[PEER]", "show what carries the bytes, and why nothing better does",
          "PEER is the URL or @NAME of another worker. Exits with 1 if something does not work.", 0, 1,
          cli_run_doctor },
        { "get", "PATH", "print a resource of the REST interface", NULL, 1, 1, cli_run_get },
        { "post", "PATH [JSON|@FILE|-]", "send JSON and print the answer", NULL, 1, 2, cli_run_post },
        { "put", "PATH FILE", "send a file or standard input (-), as into /v1/regions/ID/content", NULL, 2, 2,
          cli_run_put },
        { "delete", "PATH", "delete a resource", NULL, 1, 1, cli_run_delete },
        { "completion", "SHELL", "print the completion script of bash, zsh or fish", NULL, 1, 1, cli_run_completion },
        { "help", "[COMMAND]", "print help", NULL, 0, 1, cli_run_help },
        { "version", "", "print the version", NULL, 0, 0, cli_run_version },
};
const size_t cli_commands_count = FERRY_ARRAY_SIZE(cli_commands);
