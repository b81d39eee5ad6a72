/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* Prints the operation as the worker shows it, then how it ended. */
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

/* The exit status of one of several. With --any only ended ones count. */
static int wait_result(const struct cli *cli, const struct ferry_operation_result *result, const char *id)
{
        if (result->problem)
                return cli_problem("%s: %s", id,
                                   result->problem->detail[0] ? result->problem->detail : result->problem->title);
        if (result->operation->done)
                return cli_operation_result(result->operation);
        if (!cli->any)
                (void)cli_problem("%s is not done yet", id);
        return cli->any ? CLI_OK : CLI_LATE;
}

/* Each operation or problem as the worker tells it, one a line. */
static int wait_print(struct cli *cli, int n, char **ids)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct json_object *page = NULL, *list;
        for (int i = 0; i < n; i++) {
                path_add(&path, i ? "," : "/v1/operations?ids=");
                path_add_segment(&path, ids[i]);
        }
        int status = table_path(&path);
        if (status == CLI_OK)
                status = table_get(&cli->worker, path.text.data, "operations", json_type_array, &page);
        if (status == CLI_OK && json_object_object_get_ex(page, "operations", &list)) {
                for (size_t i = 0; status == CLI_OK && i < json_object_array_length(list); i++)
                        status = table_print_line(json_object_array_get_idx(list, i));
        }
        json_object_put(page);
        return status;
}

/* Several, by one parked request. */
static int wait_many(struct cli *cli, int n, char **ids, uint64_t timeout_ms)
{
        struct ferry_operation_results results = { 0 };
        int r = ferry_wait_operations(cli->worker.ferry, (const char *const *)ids, (size_t)n,
                                      cli->any ? FERRY_WAIT_ANY : FERRY_WAIT_ALL, timeout_ms, &results);
        bool late = r == -ETIMEDOUT && timeout_ms != FERRY_FOREVER && results.n;
        int status = r == 0 ? wait_print(cli, n, ids) : late ? CLI_OK : cli_result(&cli->worker, r);
        for (size_t i = 0; status != CLI_UNREACHABLE && i < results.n; i++) {
                int one = wait_result(cli, &results.items[i], ids[i]);
                status = status == CLI_OK ? one : status;
        }
        ferry_operation_results_clear(&results);
        return late && status == CLI_OK ? CLI_LATE : status;
}

int cli_run_wait(struct cli *cli, int argc, char **argv)
{
        struct ferry_watch watch = { .timeout_ms = FERRY_FOREVER, .interval_ms = progress_look_ms(0) };
        struct ferry_operation operation = { 0 };
        int status = cli_connect(cli);
        if (status != CLI_OK)
                return status;
        if (ferry_option_given(&cli->base, &cli->timeout_ms))
                watch.timeout_ms = cli->timeout_ms;
        if (argc > 2)
                return wait_many(cli, argc - 1, argv + 1, watch.timeout_ms);
        if (watch.interval_ms)
                watch.progress = progress_operation;
        int r = ferry_watch_operation(cli->worker.ferry, argv[1], &watch, &operation);
        progress_end();
        if (r == -ETIMEDOUT && watch.timeout_ms != FERRY_FOREVER && operation.id[0]) {
                (void)cli_problem("%s is not done yet", operation.id);
                status = CLI_LATE;
        } else {
                status = r == 0 ? wait_report(cli, &operation) : cli_result(&cli->worker, r);
        }
        ferry_operation_clear(&operation);
        return status;
}
