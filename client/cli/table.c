/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/json.h>

/*
 * Documents as tables: the columns of a table are members of its rows, each with the form in which it is shown. Lists
 * are read page by page, and a page that leads back to itself is refused. What comes from a worker is masked in each
 * cell.
 */

enum { TABLE_COLUMNS = 12, TABLE_CELL = 128, TABLE_GAP = 2, TABLE_CUT_MIN = 8 /* columns of a text that is cut */ };

/* How long ago a time was, in the largest unit that fits; a text that is no time stays as it is. */
static void table_age(const char *text, char *cell, size_t size)
{
        static const struct {
                double seconds;
                const char *unit;
        } units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "m" }, { 1, "s" } };
        struct tm tm = { 0 };
        struct timespec now;
        if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm)) {
                snprintf(cell, size, "%s", text);
                return;
        }
        clock_gettime(CLOCK_REALTIME, &now);
        double age = difftime(now.tv_sec, timegm(&tm));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(units); i++) {
                if (age >= units[i].seconds) {
                        snprintf(cell, size, "%.0f%s", age / units[i].seconds, units[i].unit);
                        return;
                }
        }
        snprintf(cell, size, "now");
}

/* The elements of a list, as many as there is room for. */
static void table_list(struct json_object *array, char *cell, size_t size)
{
        size_t used = 0;
        *cell = '\0';
        for (size_t i = 0; json_object_is_type(array, json_type_array) && i < json_object_array_length(array); i++) {
                int n = snprintf(cell + used, size - used, "%s%s", i ? " " : "",
                                 json_object_get_string(json_object_array_get_idx(array, i)));
                if (n < 0 || (size_t)n >= size - used)
                        return;
                used += (size_t)n;
        }
}

static void table_peer(struct json_object *peer, char *cell, size_t size)
{
        struct json_object *name = NULL;
        if (!json_object_object_get_ex(peer, "worker", &name))
                (void)json_object_object_get_ex(peer, "epoch", &name);
        snprintf(cell, size, "%s", name ? json_object_get_string(name) : "-");
}

static void table_part(struct json_object *row, double bytes, char *cell, size_t size)
{
        struct json_object *total = NULL;
        double whole = json_object_object_get_ex(row, "bytes_total", &total) ? json_object_get_double(total) : 0;
        if (whole > 0)
                snprintf(cell, size, "%.0f%%", bytes < whole ? bytes * 100 / whole : 100);
        else
                snprintf(cell, size, "-");
}

void table_format(struct json_object *row, const struct table_column *column, char *text, size_t size)
{
        struct json_object *value = NULL;
        if (!json_object_object_get_ex(row, column->member, &value) || !value) {
                snprintf(text, size, "-");
                return;
        }
        switch (column->type) {
        case TABLE_TEXT:
        case TABLE_NUMBER:
                snprintf(text, size, "%s", json_object_get_string(value));
                break;
        case TABLE_BYTES:
                cli_bytes_format(text, size, json_object_get_double(value));
                break;
        case TABLE_AGE:
                table_age(json_object_get_string(value), text, size);
                break;
        case TABLE_MICROS:
                if (json_object_get_double(value) < 1000)
                        snprintf(text, size, "%.0f us", json_object_get_double(value));
                else
                        snprintf(text, size, "%.1f ms", json_object_get_double(value) / 1000);
                break;
        case TABLE_LIST:
                table_list(value, text, size);
                break;
        case TABLE_PEER:
                table_peer(value, text, size);
                break;
        case TABLE_PART:
                table_part(row, json_object_get_double(value), text, size);
                break;
        }
        cli_mask_controls(text);
}

static bool table_is_number(enum table_type type)
{
        return type == TABLE_NUMBER || type == TABLE_BYTES || type == TABLE_MICROS || type == TABLE_AGE ||
               type == TABLE_PART;
}

/* How many columns have room, of which the last may get a smaller width. */
static size_t table_fit(const struct table_column *columns, size_t n, size_t *widths, size_t width)
{
        size_t at = 0;
        for (size_t i = 0; width && i < n; i++) {
                size_t gap = i ? TABLE_GAP : 0, room = width > at + gap ? width - at - gap : 0;
                if (widths[i] > room) {
                        bool cut = i == 0 || (!table_is_number(columns[i].type) && room >= TABLE_CUT_MIN);
                        widths[i] = room;
                        return cut ? i + 1 : i;
                }
                at += gap + widths[i];
        }
        return n;
}

/* Numbers stand to the right of their column, texts to the left. */
static void table_line(char cells[][TABLE_CELL], const size_t *widths, const struct table_column *columns, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                bool number = table_is_number(columns[i].type);
                cli_text_cut(cells[i], TABLE_CELL, widths[i]);
                int blanks = (int)(widths[i] - cli_text_width(cells[i]));
                printf("%*s%s%*s", number ? blanks : 0, "", cells[i], number || i + 1 == n ? 0 : blanks, "");
                fputs(i + 1 < n ? "  " : "\n", stdout);
        }
}

void table_print(struct json_object *array, size_t n, const struct table_column *columns, size_t n_columns,
                 size_t width)
{
        char cells[TABLE_COLUMNS][TABLE_CELL];
        size_t widths[TABLE_COLUMNS] = { 0 };
        for (size_t i = 0; i < n_columns; i++)
                widths[i] = strlen(columns[i].title);
        for (size_t row = 0; row < n; row++) {
                for (size_t i = 0; i < n_columns; i++) {
                        table_format(json_object_array_get_idx(array, row), &columns[i], cells[i], TABLE_CELL);
                        size_t cell = cli_text_width(cells[i]);
                        widths[i] = cell > widths[i] ? cell : widths[i];
                }
        }
        n_columns = table_fit(columns, n_columns, widths, width);
        for (size_t i = 0; i < n_columns; i++)
                snprintf(cells[i], TABLE_CELL, "%s", columns[i].title);
        table_line(cells, widths, columns, n_columns);
        for (size_t row = 0; row < n; row++) {
                for (size_t i = 0; i < n_columns; i++)
                        table_format(json_object_array_get_idx(array, row), &columns[i], cells[i], TABLE_CELL);
                table_line(cells, widths, columns, n_columns);
        }
}

int table_path(const struct path *path)
{
        if (path->error == 0)
                return CLI_OK;
        return cli_usage_error("%s", path->error == -EINVAL ? "an argument is too long" : strerror(-path->error));
}

int table_nonsense(const struct cli_worker *worker, const char *path)
{
        return cli_fail(CLI_UNREACHABLE, "%s%s is not what a worker answers (is this the URL of a ferryd?)",
                        worker->url, path);
}

struct json_object *table_parse(const char *text)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL;
        return text && ferry_json_parse(text, strlen(text), &json, &errors) == 0 ? json : NULL;
}

int table_get(const struct cli_worker *worker, const char *path, const char *member, enum json_type type,
              struct json_object **ret_json)
{
        struct json_object *found = NULL;
        struct ferry_answer answer;
        int r = ferry_request(worker->ferry, "GET", path, NULL, NULL, 0, &answer);
        struct json_object *json = r == 0 ? table_parse(answer.body) : NULL;
        ferry_answer_clear(&answer);
        if (r == 0 && (!json_object_object_get_ex(json, member, &found) || !json_object_is_type(found, type))) {
                json_object_put(json);
                return table_nonsense(worker, path);
        }
        *ret_json = json;
        return cli_result(worker, r);
}

/* Adds a page to a list. *at: the path of the page, then of the next one; without a text after the last. */
static int table_add_page(const struct cli_worker *worker, const char *path, const char *member, struct path *at,
                          int64_t *skipped, struct json_object *all)
{
        struct json_object *page = NULL, *list, *more;
        struct path next = { .queried = true };
        int status = table_get(worker, at->text.data, member, json_type_array, &page);
        for (size_t i = 0, n = member_list(page, member, &list); status == CLI_OK && i < n; i++)
                json_object_array_add(all, json_object_get(json_object_array_get_idx(list, i)));
        const char *after = member_text(page, "next", NULL);
        if (status == CLI_OK && after) {
                path_add(&next, path);
                path_query(&next, "after", after);
                status = table_path(&next);
                if (status == CLI_OK && strcmp(next.text.data, at->text.data) == 0) /* a circle */
                        status = table_nonsense(worker, path);
        }
        if (status == CLI_OK && json_object_object_get_ex(page, "skipped", &more))
                *skipped += json_object_get_int64(more);
        json_object_put(page);
        path_clear(at);
        *at = next;
        return status;
}

int table_get_all(const struct cli_worker *worker, const char *path, const char *member, int64_t *ret_skipped,
                  struct json_object **ret_array)
{
        int64_t skipped = 0;
        struct json_object *all = json_object_new_array();
        struct path at = { 0 };
        path_add(&at, path);
        int status = all ? table_path(&at) : cli_usage_error("%s", strerror(ENOMEM));
        while (status == CLI_OK && at.text.data)
                status = table_add_page(worker, path, member, &at, &skipped, all);
        path_clear(&at);
        if (status == CLI_OK)
                *ret_array = all;
        else
                json_object_put(all);
        if (status == CLI_OK && ret_skipped)
                *ret_skipped = skipped;
        return status;
}

static int table_print_json(struct json_object *json, int flags)
{
        const char *plain = json_object_to_json_string_ext(json, flags | JSON_C_TO_STRING_NOSLASHESCAPE);
        FERRY_CLEANUP(cleanup_free)
        char *text = plain ? cli_text_escape(plain, strlen(plain), &(mbstate_t){ 0 }) : NULL;
        return text ? cli_print(text) : cli_usage_error("%s", strerror(ENOMEM));
}

int table_print_document(struct json_object *json)
{
        return table_print_json(json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
}

int table_print_line(struct json_object *json)
{
        return table_print_json(json, JSON_C_TO_STRING_PLAIN);
}

static int table_print_text(const char *text, int (*print)(struct json_object *json))
{
        struct json_object *json = table_parse(text);
        int status = json ? print(json) : cli_print(text);
        json_object_put(json);
        return status;
}

int table_print_answer(const char *text)
{
        return table_print_text(text, table_print_document);
}

int table_print_answer_line(const char *text)
{
        return table_print_text(text, table_print_line);
}

int table_show(const struct cli *cli, struct json_object *array, const struct table *table)
{
        size_t n = json_object_array_length(array);
        if (cli->json)
                return table_print_document(array);
        for (size_t i = 0; table->prepare && i < n; i++)
                table->prepare(json_object_array_get_idx(array, i));
        if (n == 0)
                fprintf(stderr, "%s\n", table->empty);
        else
                table_print(array, n, table->columns, table->n_columns, 0);
        return CLI_OK;
}

int table_run(struct cli *cli, const char *path, const char *member, const struct table *table)
{
        struct json_object *list = NULL;
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get_all(&cli->worker, path, member, NULL, &list);
        if (status == CLI_OK)
                status = table_show(cli, list, table);
        json_object_put(list);
        return status;
}
