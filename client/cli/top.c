/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "table.h"

enum { TOP_INTERVAL_MS = 1000, TOP_ROWS = 24, TOP_FRAME_LINES = 5 };

static const struct table_column top_columns[] = {
        { "OPERATION", "id", TABLE_TEXT },        { "KIND", "kind", TABLE_TEXT },
        { "STATUS", "status", TABLE_TEXT },       { "DONE", "bytes_done", TABLE_BYTES },
        { "SIZE", "bytes_total", TABLE_BYTES },   { "RATE/s", "rate", TABLE_BYTES },
        { "TRANSPORT", "transport", TABLE_TEXT }, { "LABEL", "label", TABLE_TEXT },
};

/* What was seen at one look. Rows are those of operations that run, or ended since the look before. */
struct top {
        struct cli *cli;
        bool live;
        struct json_object *seen; /* id → bytes_done, of the look before */
        uint64_t seen_ms;
};

static double top_member(struct json_object *object, const char *name)
{
        struct json_object *value;
        return json_object_object_get_ex(object, name, &value) ? json_object_get_double(value) : 0;
}

static bool top_done(struct json_object *operation)
{
        struct json_object *done;
        return json_object_object_get_ex(operation, "done", &done) && json_object_get_boolean(done);
}

/* Adds rates, and keeps what the next look compares with. Returns the sum of the rates. */
static double top_rates(struct top *top, struct json_object *list, struct json_object **rows, size_t *ret_n)
{
        struct json_object *seen = json_object_new_object(), *id, *before;
        uint64_t now = cli_clock_ms();
        double sum = 0;
        *ret_n = 0;
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *operation = json_object_array_get_idx(list, i);
                if (!json_object_object_get_ex(operation, "id", &id))
                        continue;
                bool known = json_object_object_get_ex(top->seen, json_object_get_string(id), &before);
                double bytes = top_member(operation, "bytes_done"),
                       moved = known ? bytes - json_object_get_double(before) : 0;
                double rate = now > top->seen_ms && moved > 0 ? moved * 1000 / (double)(now - top->seen_ms) : 0;
                if (top_done(operation) && !known)
                        continue;
                if (!top_done(operation))
                        json_object_object_add(seen, json_object_get_string(id), json_object_new_double(bytes));
                if (rate > 0)
                        json_object_object_add(operation, "rate", json_object_new_double(rate));
                sum += rate;
                rows[(*ret_n)++] = operation;
        }
        json_object_put(top->seen);
        top->seen = seen;
        top->seen_ms = now;
        return sum;
}

static size_t top_rows(const struct top *top)
{
        struct winsize window = { 0 };
        if (!top->live)
                return SIZE_MAX;
        size_t rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row ? window.ws_row : TOP_ROWS;
        return rows > TOP_FRAME_LINES ? rows - TOP_FRAME_LINES : 1;
}

static int top_draw(struct top *top, struct json_object *worker, struct json_object *list)
{
        size_t n = json_object_array_length(list), most = top_rows(top);
        struct json_object **rows = calloc(n + 1, sizeof(*rows)), *name = NULL;
        char rate[32];
        if (!rows)
                return cli_usage_error("memory is short");
        json_object_object_get_ex(worker, "name", &name);
        cli_bytes_format(rate, sizeof(rate), top_rates(top, list, rows, &n));
        if (top->live)
                fputs("\033[H\033[J", stdout);
        printf("%s at %s, up %.0f s: %zu operations, %s/s\n\n", json_object_get_string(name), top->cli->worker.url,
               top_member(worker, "uptime_ms") / 1000, n, rate);
        table_print(stdout, rows, n < most ? n : most, top_columns, sizeof(top_columns) / sizeof(top_columns[0]));
        if (n > most)
                printf("… and %zu more\n", n - most);
        (void)fflush(stdout);
        free(rows);
        return CLI_OK;
}

static int top_look(struct top *top)
{
        struct json_object *worker = NULL, *list = NULL;
        int status = table_get(&top->cli->worker, "/v1/worker", &worker);
        if (status == CLI_OK)
                status = table_get_all(&top->cli->worker, "/v1/operations?limit=1000", "operations", &list);
        if (status == CLI_OK && top->cli->json)
                status = cli_print(json_object_to_json_string_ext(list, JSON_C_TO_STRING_NOSLASHESCAPE));
        else if (status == CLI_OK)
                status = top_draw(top, worker, list);
        json_object_put(worker);
        json_object_put(list);
        return status;
}

int cli_run_top(struct cli *cli, int argc, char **argv)
{
        struct top top = { .cli = cli, .live = isatty(STDOUT_FILENO) && !cli->json };
        uint64_t interval = TOP_INTERVAL_MS;
        uint64_t left = top.live ? 0 : 1; /* 0 = for ever */
        if (cli->interval && (!cli_duration_parse(cli->interval, &interval) || interval > INT32_MAX))
                return cli_usage_error("not a duration: %s", cli->interval);
        if (cli->count && !cli_number_parse(cli->count, &left))
                return cli_usage_error("not a number of looks: %s", cli->count);
        int status = cli_connect(cli);
        while (status == CLI_OK) {
                status = top_look(&top);
                if (left && --left == 0)
                        break;
                if (status == CLI_OK && !signals_caught())
                        (void)poll(NULL, 0, (int)interval);
                if (signals_caught())
                        break;
        }
        json_object_put(top.seen);
        return signals_caught() ? CLI_OK : status;
}
