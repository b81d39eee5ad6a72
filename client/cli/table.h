/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <json-c/json.h>

#include "cli.h"
#include "url.h"

/* JSON as a table or, with --json, as it came. */

enum table_type {
        TABLE_TEXT,
        TABLE_NUMBER,
        TABLE_BYTES,
        TABLE_AGE,    /* a time, as "3m" ago */
        TABLE_MICROS, /* as "1.3 ms" */
        TABLE_LIST,   /* texts, joined by blanks */
        TABLE_PEER,   /* a worker: its name, else its epoch */
        TABLE_PART,   /* bytes, as the percentage of "bytes_total" */
};

struct table_column {
        const char *title, *member;
        enum table_type type;
};

/* One value as text; "-" when the member is missing. */
void table_format(struct json_object *row, const struct table_column *column, char *text, size_t size);

/*
 * The first n elements under a title line, each column as wide as it must be. width: of the terminal, for which columns
 * are dropped from the right, and a text is cut, but no number; 0 = as wide as it gets.
 */
void table_print(struct json_object *array, size_t n, const struct table_column *columns, size_t n_columns,
                 size_t width);

/* Whether a path could be made. CLI_OK or CLI_USAGE. */
int table_path(const struct path *path);

/* Tells that a path of this worker answers with something else. CLI_UNREACHABLE. */
int table_nonsense(const struct cli_worker *worker, const char *path);

/* The value of a text, for json_object_put(); NULL where it is not JSON. */
struct json_object *table_parse(const char *text);

/* GET of a JSON document, whose member has that type, for json_object_put(). An exit status. */
int table_get(const struct cli_worker *worker, const char *path, const char *member, enum json_type type,
              struct json_object **ret_json);

/*
 * Every page of a list (path with its query, "?limit=…"), as one array for json_object_put(). ret_skipped: the sum of
 * their "skipped"; NULL = not wanted. An exit status.
 */
int table_get_all(const struct cli_worker *worker, const char *path, const char *member, int64_t *ret_skipped,
                  struct json_object **ret_array);

/* JSON to standard output: a document, indented by two blanks, or one of a stream, on a line. The exit status. */
int table_print_document(struct json_object *json);
int table_print_line(struct json_object *json);
/* The text of an answer as such a document; as it came if it is no JSON. */
int table_print_answer(const char *text);

/* The table of an array, or the array as JSON. An exit status. */
struct table {
        const struct table_column *columns;
        size_t n_columns;
        const char *empty;                        /* what stands in place of a table without rows */
        void (*prepare)(struct json_object *row); /* adds members that only the table has; NULL = none */
};
int table_show(const struct cli *cli, struct json_object *array, const struct table *table);

/* Connects, and shows every page of a list, as table_get_all() takes it. An exit status. */
int table_run(struct cli *cli, const char *path, const char *member, const struct table *table);

#endif
