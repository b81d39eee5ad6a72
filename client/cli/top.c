/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ferry/clock.h>

#include "cli.h"

/*
 * ferry top: operations, live. A round lists what runs, takes what has ended meanwhile from the events, and computes
 * rates by the bytes of the round before. While bytes move, a round begins every --interval; else only after an event.
 * On a terminal the screen is drawn whole each time.
 */

enum {
        TOP_ROWS = 24,
        TOP_FRAME_LINES = 5,
        TOP_LINE = 1024,
        TOP_TOLD_MS = 100, /* for so long after one event of an operation, a worker may leave out the next */
};

/* By how much they tell: a narrow terminal has the first ones. */
static const struct table_column top_columns[] = {
        { "OPERATION", "id", TABLE_TEXT },  { "DONE", "bytes_done", TABLE_PART },
        { "RATE/s", "rate", TABLE_BYTES },  { "SIZE", "bytes_total", TABLE_BYTES },
        { "STATUS", "status", TABLE_TEXT }, { "TRANSPORT", "transport", TABLE_TEXT },
        { "KIND", "kind", TABLE_TEXT },     { "PEER", "peer", TABLE_PEER },
        { "LABEL", "label", TABLE_TEXT },
};

struct top {
        struct cli *cli;
        bool live;
        char name[128];            /* of the worker */
        char *after;               /* the latest event that was seen; NULL = none yet */
        struct json_object *seen;  /* id → bytes moved, of the previous round; NULL = none yet */
        struct json_object *ended; /* id → operation, of the latest round that heard of any event */
        uint64_t seen_ms;
        uint64_t heard_ms; /* when the latest event was heard; 0 = never */
        bool heard;        /* since the previous round */
        bool moving;       /* bytes of an operation are on their way, which no event reports */
        bool settled;      /* what the round shows stays so until the next event */
};

static double top_number(struct json_object *object, const char *name)
{
        struct json_object *value;
        return json_object_object_get_ex(object, name, &value) ? json_object_get_double(value) : 0;
}

/* ---- events ---- */

static void top_hear(struct top *top)
{
        if (!top->heard) {
                json_object_put(top->ended);
                top->ended = json_object_new_object();
        }
        top->heard = true;
        top->heard_ms = ferry_clock_ms();
}

/* Keeps what has ended, and where to go on. Returns how many events there were. */
static size_t top_take(struct top *top, struct json_object *page)
{
        struct json_object *list, *operation;
        const char *next = member_text(page, "next", "");
        size_t n = member_list(page, "events", &list);
        if (n)
                top_hear(top);
        for (size_t i = 0; top->seen && i < n; i++) {
                struct json_object *event = json_object_array_get_idx(list, i);
                if (strcmp(member_text(event, "type", ""), "operation.ended") == 0 &&
                    json_object_object_get_ex(event, "operation", &operation))
                        json_object_object_add(top->ended, member_text(operation, "id", ""),
                                               json_object_get(operation));
        }
        free(top->after);
        top->after = strdup(next);
        return n;
}

/* Reads the events since the previous round; first waits up to wait_ms for one. */
static int top_listen(struct top *top, unsigned wait_ms)
{
        size_t n = 1;
        int status = CLI_OK;
        while (status == CLI_OK && n) {
                struct json_object *page = NULL;
                status = events_page(top->cli, top->after, wait_ms, &page);
                if (status == CLI_OK)
                        n = top_take(top, page);
                json_object_put(page);
                if (status == CLI_OK && !top->after)
                        return cli_usage_error("memory is short");
                if (wait_ms && n)
                        wait_ms = 0;
                else if (wait_ms)
                        n = 1; /* nothing yet */
        }
        return status;
}

/* ---- a look ---- */

/*
 * About the bytes that all uses have moved: bytes_done is that of the furthest, and a use that moved parts may have
 * moved fewer.
 */
static double top_moved(struct json_object *operation)
{
        double done = top_number(operation, "bytes_done");
        double uses = top_number(operation, "uses_done") * done;
        return done > uses ? done : uses;
}

/* An offer of several uses is IN_PROGRESS between two of them as well, but expires then. */
static bool top_is_moving(struct json_object *operation)
{
        return strcmp(member_text(operation, "status", ""), "IN_PROGRESS") == 0 &&
               !json_object_object_get_ex(operation, "expires_at", NULL);
}

/* Adds the rate since the previous round, before which a new operation had moved nothing. Returns the rate. */
static double top_rate(const struct top *top, struct json_object *operation, uint64_t now_ms)
{
        struct json_object *before = NULL;
        double moved = top_moved(operation), rate;
        json_object_object_del(operation, "rate");
        if (!top->seen || now_ms <= top->seen_ms)
                return 0;
        if (json_object_object_get_ex(top->seen, member_text(operation, "id", ""), &before))
                moved -= json_object_get_double(before);
        rate = moved > 0 ? moved * 1000 / (double)(now_ms - top->seen_ms) : 0;
        if (rate > 0)
                json_object_object_add(operation, "rate", json_object_new_double(rate));
        return rate;
}

/*
 * Running, then ended operations with their rates, which stay until something else happens; keeps the values for the
 * next round. Returns the sum of rates.
 */
static double top_rows(struct top *top, struct json_object *running, struct json_object *rows)
{
        struct json_object *seen = json_object_new_object();
        uint64_t now_ms = ferry_clock_ms();
        double sum = 0;
        top->moving = false;
        for (size_t i = 0; i < json_object_array_length(running); i++) {
                struct json_object *operation = json_object_array_get_idx(running, i);
                const char *id = member_text(operation, "id", "");
                if (json_object_object_get_ex(top->ended, id, NULL))
                        continue;
                top->moving = top->moving || top_is_moving(operation);
                sum += top_rate(top, operation, now_ms);
                json_object_object_add(seen, id, json_object_new_double(top_moved(operation)));
                json_object_array_add(rows, json_object_get(operation));
        }
        json_object_object_foreach (top->ended, id, operation) {
                sum += top_rate(top, operation, now_ms);
                json_object_object_add(seen, id, json_object_new_double(top_moved(operation)));
                json_object_array_add(rows, json_object_get(operation));
        }
        top->heard = false;
        json_object_put(top->seen);
        top->seen = seen;
        top->seen_ms = now_ms;
        return sum;
}

static size_t top_height(const struct top *top)
{
        struct winsize window = { 0 };
        if (!top->live)
                return SIZE_MAX;
        size_t rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row ? window.ws_row : TOP_ROWS;
        return rows > TOP_FRAME_LINES ? rows - TOP_FRAME_LINES : 1;
}

/* Draws as many rows as the terminal has lines for. sum: bytes per second of all. */
static int top_draw(const struct top *top, struct json_object *rows, double sum)
{
        size_t n = json_object_array_length(rows), most = top_height(top);
        size_t width = top->live ? cli_columns(STDOUT_FILENO) : 0;
        char rate[32], title[TOP_LINE];
        cli_bytes_format(rate, sizeof(rate), sum);
        snprintf(title, sizeof(title), "%s/s, %zu operation%s, %s at %s%s", rate, n, n == 1 ? "" : "s", top->name,
                 top->cli->worker.url, top->live ? ", q quits" : "");
        if (width)
                cli_text_cut(title, sizeof(title), width);
        printf("%s%s\n\n", top->live ? "\033[H\033[J" : "", title);
        table_print(rows, n < most ? n : most, top_columns, FERRY_ARRAY_SIZE(top_columns), width);
        if (n > most)
                printf("%zu more\n", n - most);
        return cli_flush();
}

/* ---- the transport of what moves: an operation tells its own only when it has ended ---- */

static void top_add_transport(struct json_object *operation, struct json_object *peers)
{
        struct json_object *peer = NULL;
        if (json_object_object_get_ex(operation, "transport", NULL) ||
            !json_object_object_get_ex(operation, "peer", &peer))
                return;
        for (size_t i = 0; i < json_object_array_length(peers); i++) {
                struct json_object *other = json_object_array_get_idx(peers, i);
                const char *transport = member_text(other, "transport", NULL);
                if (transport && strcmp(member_text(other, "epoch", ""), member_text(peer, "epoch", "-")) == 0)
                        json_object_object_add(operation, "transport", json_object_new_string(transport));
        }
}

static int top_add_transports(const struct top *top, struct json_object *rows)
{
        struct json_object *peers = NULL;
        if (!top->moving)
                return CLI_OK;
        int status = table_get_all(&top->cli->worker, "/v1/peers?limit=1000", "peers", NULL, &peers);
        for (size_t i = 0; status == CLI_OK && i < json_object_array_length(rows); i++) {
                struct json_object *row = json_object_array_get_idx(rows, i);
                if (top_is_moving(row))
                        top_add_transport(row, peers);
        }
        json_object_put(peers);
        return status;
}

/*
 * An operation that ends between the two requests is in both. What an event of that time tells, or what the worker
 * tells no event of because it comes too soon after another, the next look sees.
 */
static int top_look(struct top *top)
{
        struct json_object *running = NULL, *rows = json_object_new_array();
        uint64_t start_ms = ferry_clock_ms();
        int status =
                table_get_all(&top->cli->worker, "/v1/operations?done=false&limit=1000", "operations", NULL, &running);
        if (status == CLI_OK)
                status = top_listen(top, 0);
        top->settled = start_ms >= top->heard_ms + TOP_TOLD_MS;
        if (status == CLI_OK) {
                double sum = top_rows(top, running, rows);
                status = top_add_transports(top, rows);
                if (status == CLI_OK)
                        status = top->cli->json ? table_print_line(rows) : top_draw(top, rows, sum);
        }
        json_object_put(running);
        json_object_put(rows);
        return status;
}

static int top_name(struct top *top)
{
        struct ferry_worker_info worker = { 0 };
        int status = cli_result(&top->cli->worker, ferry_get_worker(top->cli->worker.ferry, &worker));
        snprintf(top->name, sizeof(top->name), "%s", worker.name);
        cli_mask_controls(top->name);
        ferry_worker_info_clear(&worker);
        return status;
}

/* Nothing moved before the event that ends the rest: a rate is one of an interval, however long the rest was. */
static int top_rest(struct top *top, uint64_t interval)
{
        int status = top_listen(top, EVENTS_WAIT_MS);
        uint64_t now_ms = ferry_clock_ms();
        if (now_ms > interval && top->seen_ms < now_ms - interval)
                top->seen_ms = now_ms - interval;
        return status;
}

/* Waits for what is to be drawn next. */
static int top_await(struct top *top)
{
        uint64_t interval = top->cli->interval_ms;
        if (!top->moving && interval < TOP_TOLD_MS)
                interval = TOP_TOLD_MS;
        if (!signals_caught() && !screen_wants_redraw())
                (void)poll(NULL, 0, interval < INT32_MAX ? (int)interval : INT32_MAX);
        if (top->moving || !top->settled || signals_caught() || screen_wants_redraw())
                return CLI_OK;
        return top_rest(top, interval);
}

/* Whether the screen is to be drawn anew. A request that ended because of that did not fail. */
static bool top_must_redraw(struct top *top, int *status)
{
        if (signals_caught() || !screen_wants_redraw())
                return false;
        screen_redraws();
        ferry_resume(top->cli->worker.ferry);
        if (*status == CLI_PROBLEM)
                *status = CLI_OK;
        return true;
}

int cli_run_top(struct cli *cli, int argc, char **argv)
{
        struct top top = { .cli = cli,
                           .live = cli_draws(STDOUT_FILENO) && !cli->json,
                           .ended = json_object_new_object() };
        uint64_t left = cli->count ? cli->count : top.live ? 0 : 1; /* 0 = no limit */
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = top_name(&top);
        if (status == CLI_OK && top.live)
                screen_open();
        while (status == CLI_OK && !signals_caught()) {
                status = top_look(&top);
                if (top_must_redraw(&top, &status))
                        continue;
                if (status != CLI_OK || (left && --left == 0))
                        break;
                status = top_await(&top);
                (void)top_must_redraw(&top, &status);
        }
        free(top.after);
        json_object_put(top.ended);
        json_object_put(top.seen);
        return signals_caught() ? CLI_OK : status;
}
