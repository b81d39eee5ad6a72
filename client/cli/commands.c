/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

enum { COMMAND_MANY = 1000 };

const struct cli_command cli_commands[] = {
        { "offer", "FILE", "offer a file, and wait until it has been fetched, once or --uses times",
          "Prints the URL for ferry fetch. - is standard input. The offer is withdrawn when the command ends, however "
          "it ends.",
          1, 1, cli_run_offer },
        { "fetch", "URL", "fetch an offer into a file",
          "URL is what ferry offer prints, @NAME/op_ID, ferry://NAME/op_ID, or nats://HOST:PORT/NAME/op_ID (through "
          "ferry-nats). Without -o the bytes go to standard output, which must not be a terminal. Until it is "
          "complete, the file is named FILE.part-PID. Symbolic links are followed.",
          1, 1, cli_run_fetch },
        { "accept", "-o FILE --size SIZE", "accept bytes from one peer into a file", "Prints the URL for ferry send.",
          0, 0, cli_run_accept },
        { "send", "FILE URL", "send a file to a peer that accepts it",
          "URL is what ferry accept prints, or @NAME/op_ID. - is standard input.", 2, 2, cli_run_send },
        { "copy", "FROM TO", "copy between two regions, or between a region and a file",
          "FROM and TO are each a region (rgn_ID, @NAME/rgn_ID, URL/v1/regions/rgn_ID) or a file; - is standard input "
          "or output. Between two workers, the worker of TO reads.",
          2, 2, cli_run_copy },
        { "spread", "FILE|OFFER WORKER...", "copy a file, or what a worker offers, to many workers",
          "WORKER is a URL or @NAME. Each worker reads from the one before it while that one is still reading, so all "
          "have the bytes in about the time of one copy, whatever the bandwidth of the source. Checksums verify the "
          "bytes on the way, digests at the end. Prints the new region of each worker; the regions stay. To fill an "
          "existing region from its start, give @NAME/rgn_ID or URL/v1/regions/rgn_ID in place of its worker. A worker "
          "that fails is left out, and the next one continues from an earlier one. Exits with 1 if any worker lacks "
          "the bytes.",
          2, COMMAND_MANY, cli_run_spread },
        { "decline", "METADATA", "say that an offer will not be used: it ends at once",
          "METADATA is a file, - for standard input, or the URL that ferry offer or accept prints. No worker of one's "
          "own "
          "is needed: the worker that the metadata name is asked, with the key in them; if it serves no HTTP, by way "
          "of "
          "the worker of --url. Prints what became of the offer: "
          "CANCELLED, or how it had ended before. Of an offer with several uses, one is taken.",
          1, 1, cli_run_decline },
        { "renew", "METADATA", "ask for an offer to be kept for longer",
          "METADATA is as for ferry decline. Prints when the offer will end, which is at most renew_max_ms after its "
          "creation.",
          1, 1, cli_run_renew },
        { "ls", "", "list operations", NULL, 0, 0, cli_run_ls },
        { "show", "[ID]", "print an operation, a region, the worker or its limits",
          "ID is op_ID, rgn_ID, worker (the default) or limits.", 0, 1, cli_run_show },
        { "wait", "OPERATION...", "wait until operations are done, and print them, one per line",
          "Reconnects to a lost worker until the time limit, or for a minute if --timeout is not given.", 1,
          COMMAND_MANY, cli_run_wait },
        { "cancel", "OPERATION...", "cancel operations", "Their memory may be reused once they are done.", 1,
          COMMAND_MANY, cli_run_cancel },
        { "rm", "ID...", "delete regions and operations (running ones are cancelled)", NULL, 1, COMMAND_MANY,
          cli_run_rm },
        { "regions", "", "list regions", NULL, 0, 0, cli_run_regions },
        { "peers", "", "list peers, and the transport to each", NULL, 0, 0, cli_run_peers },
        { "workers", "", "list the workers in the registry",
          "The registry is the worker's (ferryd --registry). Entries that do not describe a worker are counted on "
          "standard error. Commands that take the URL of another worker also take ferry://NAME for a registered one. "
          "Ctrl-C ends --watch.",
          0, 0, cli_run_workers },
        { "connect", "PEER", "connect the worker to a peer before the first transfer",
          "PEER is the URL or @NAME of another worker.", 1, 1, cli_run_connect },
        { "devices", "", "list memory devices, RDMA devices and transports", NULL, 0, 0, cli_run_devices },
        { "events", "", "print recent events of the worker, one per line",
          "Events concern operations, regions, peers and limits. Ctrl-C ends --follow.", 0, 0, cli_run_events },
        { "top", "", "watch transfers live",
          "Redraws on each event, and while bytes move. Ctrl-C ends it. Prints once if the output is not a terminal or "
          "TERM is dumb.",
          0, 0, cli_run_top },
        { "bench", "PEER", "measure reads from another worker",
          "PEER is the URL or @NAME of another worker. Creates a region on both workers and removes it. --size is the "
          "largest transfer.",
          1, 1, cli_run_bench },
        { "doctor", "[PEER]", "show what carries the bytes, and why nothing better does",
          "PEER is the URL or @NAME of another worker. Exits with 1 if something does not work.", 0, 1,
          cli_run_doctor },
        { "get", "PATH", "print a resource of the REST interface", NULL, 1, 1, cli_run_get },
        { "post", "PATH [JSON|@FILE|-]", "send JSON and print the answer", NULL, 1, 2, cli_run_post },
        { "put", "PATH FILE", "upload a file or standard input (-), for example to /v1/regions/ID/content", NULL, 2, 2,
          cli_run_put },
        { "delete", "PATH", "delete a resource", NULL, 1, 1, cli_run_delete },
        { "completion", "SHELL", "print the completion script for bash, zsh or fish", NULL, 1, 1, cli_run_completion },
        { "help", "[COMMAND]", "print help", NULL, 0, 1, cli_run_help },
        { "version", "", "print the version, and the commit that was built", NULL, 0, 0, cli_run_version },
};
const size_t cli_commands_count = FERRY_ARRAY_SIZE(cli_commands);
