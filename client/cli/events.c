/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * ferry events and ferry wait. Events come page by page: a page says after which event the next one goes on, and
 * whether events were missed. A wait shows operations as the worker tells them, and exits by how they ended.
 */

/* ---- events ---- */

/* The members of an event's object that its line shows, if present. */
static const struct table_column events_columns[] = {
        { "", "id", TABLE_TEXT },           { "", "worker", TABLE_TEXT },    { "", "name", TABLE_TEXT },
        { "", "kind", TABLE_TEXT },         { "", "status", TABLE_TEXT },    { "", "bytes_done", TABLE_BYTES },
        { "", "bytes_total", TABLE_BYTES }, { "", "size", TABLE_BYTES },     { "", "used", TABLE_NUMBER },
        { "", "max", TABLE_NUMBER },        { "", "transport", TABLE_TEXT }, { "", "label", TABLE_TEXT },
};

/* One event as a line of JSON, or of text: time, type, what it is about, and the code of its error. */
static int events_print(const struct cli *cli, struct json_object *event)
{
        static const struct table_column time = { "", "time", TABLE_TEXT }, code = { "", "code", TABLE_TEXT };
        struct json_object *object, *error, *value;
        char type[64], family[16], text[256];
        if (cli->json)
                return table_print_line(event);
        table_format(event, &time, text, sizeof(text));
        table_format(event, &(struct table_column){ "", "type", TABLE_TEXT }, type, sizeof(type));
        printf("%s %s", text, type);
        snprintf(family, sizeof(family), "%.*s", (int)strcspn(type, "."), type);
        if (json_object_object_get_ex(event, family, &object)) {
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(events_columns); i++) {
                        if (!json_object_object_get_ex(object, events_columns[i].member, &value))
                                continue;
                        table_format(object, &events_columns[i], text, sizeof(text));
                        printf(" %s", text);
                }
                if (json_object_object_get_ex(object, "error", &error)) {
                        table_format(error, &code, text, sizeof(text));
                        printf(" %s", text);
                }
        }
        putchar('\n');
        return CLI_OK;
}

/* Reports missed events on standard error. */
static void events_missed(struct json_object *page)
{
        const char *missed = member_text(page, "missed", NULL);
        if (member_text(page, "restarted", NULL))
                (void)cli_problem("the worker was started anew");
        if (missed)
                (void)cli_problem("%s events were missed", missed);
}

int events_page(struct cli *cli, const char *after, unsigned wait_ms, struct json_object **ret_page)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        struct json_object *list;
        int r = ferry_list_events(cli->worker.ferry, after, cli->label, wait_ms, &text);
        if (r != 0)
                return cli_result(&cli->worker, r);
        struct json_object *page = table_parse(text);
        bool some = member_list(page, "events", &list) > 0;
        /* Whoever follows would be led in a circle. */
        bool circle = some && after && strcmp(member_text(page, "next", ""), after) == 0;
        if (circle || !json_object_object_get_ex(page, "events", &list) ||
            !json_object_is_type(list, json_type_array)) {
                json_object_put(page);
                return table_nonsense(&cli->worker, "/v1/events");
        }
        *ret_page = page;
        return CLI_OK;
}

int cli_run_events(struct cli *cli, int argc, char **argv)
{
        char *after = NULL;
        bool more = true;
        int status = cli_connect(cli);
        while (status == CLI_OK && more) {
                struct json_object *page = NULL, *list;
                const char *next;
                status = events_page(cli, after, cli->follow && after ? EVENTS_WAIT_MS : 0, &page);
                if (status != CLI_OK)
                        break;
                events_missed(page);
                size_t n = member_list(page, "events", &list);
                for (size_t i = 0; status == CLI_OK && i < n; i++)
                        status = events_print(cli, json_object_array_get_idx(list, i));
                if (status == CLI_OK)
                        status = cli_flush();
                free(after);
                after = (next = member_text(page, "next", NULL)) ? strdup(next) : NULL;
                more = after && (cli->follow || n > 0);
                json_object_put(page);
        }
        free(after);
        return cli->follow && signals_caught() ? CLI_OK : status;
}

/* ---- wait ---- */

/* Prints the operation as the worker shows it, then how it ended. */
static int wait_report(struct cli *cli, const struct ferry_operation *operation)
{
        char path[64 + FERRY_ID_SIZE];
        struct ferry_answer answer;
        snprintf(path, sizeof(path), "/v1/operations/%s", operation->id);
        int r = ferry_request(cli->worker.ferry, "GET", path, NULL, NULL, 0, &answer);
        int status = r == 0 && answer.body ? table_print_answer_line(answer.body) : cli_result(&cli->worker, r);
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
