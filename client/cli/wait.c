/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"

enum { WAIT_WATCH_MS = 200 };

/* The operation as the worker tells it, then how it ended. */
static int wait_report(struct cli *cli, const struct ferry_operation *operation)
{
        char path[64 + FERRY_ID_SIZE];
        struct ferry_answer answer;
        snprintf(path, sizeof(path), "/v1/operations/%s", operation->id);
        int r = ferry_request(cli->worker.ferry, "GET", path, NULL, NULL, 0, &answer);
        int status = r == 0 && answer.body ? cli_print(answer.body) : cli_result(&cli->worker, r);
        ferry_answer_clear(&answer);
        return status == CLI_OK ? cli_operation_result(operation) : status;
}

int cli_run_wait(struct cli *cli, int argc, char **argv)
{
        struct cli_progress progress = cli_progress_make(cli);
        struct ferry_watch watch = { .timeout_ms = FERRY_FOREVER, .interval_ms = WAIT_WATCH_MS };
        struct ferry_operation operation = { 0 };
        if (cli->timeout && !cli_duration_parse(cli->timeout, &watch.timeout_ms))
                return cli_usage_error("not a duration: %s", cli->timeout);
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (progress.stream) {
                watch.progress = cli_progress_show;
                watch.context = &progress;
        }
        int r = ferry_watch_operation(cli->worker.ferry, argv[1], &watch, &operation);
        cli_progress_end(&progress);
        if (r == -ETIMEDOUT && cli->timeout && operation.id[0]) {
                fprintf(stderr, "ferry: %s is not done yet\n", operation.id);
                status = CLI_LATE;
        } else {
                status = r == 0 ? wait_report(cli, &operation) : cli_result(&cli->worker, r);
        }
        ferry_operation_clear(&operation);
        return status;
}
