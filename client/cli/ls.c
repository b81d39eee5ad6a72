/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include "table.h"

enum { LS_PAGE = 1000 };

static const struct table_column ls_columns[] = {
        { "OPERATION", "id", TABLE_TEXT },      { "KIND", "kind", TABLE_TEXT },
        { "STATUS", "status", TABLE_TEXT },     { "DONE", "bytes_done", TABLE_BYTES },
        { "SIZE", "bytes_total", TABLE_BYTES }, { "TIME", "duration_us", TABLE_MICROS },
        { "AGE", "created_at", TABLE_AGE },     { "TRANSPORT", "transport", TABLE_TEXT },
        { "PEER", "peer", TABLE_PEER },         { "LABEL", "label", TABLE_TEXT },
};

/* Checks a name, in any case, and maps it to the worker's. */
static int ls_check(const char *what, const char *value, const char *(*name)(int), const char **ret_name)
{
        if (!value)
                return CLI_OK;
        for (int i = 0; name(i); i++) {
                if (strcasecmp(name(i), value) == 0) {
                        *ret_name = name(i);
                        return CLI_OK;
                }
        }
        return cli_usage_error("no %s %s (see ferry ls --help)", what, value);
}

static int ls_path(const struct cli *cli, const char *kind, const char *status, struct path *path)
{
        path_add(path, "/v1/operations");
        path_query_number(path, "limit", LS_PAGE);
        path_query(path, "kind", kind);
        path_query(path, "status", status);
        path_query(path, "label", cli->label);
        path_query(path, "done", cli->done ? "true" : cli->running ? "false" : NULL);
        path_query(path, "order", cli->newest ? "newest" : NULL);
        return table_path(path);
}

int cli_run_ls(struct cli *cli, int argc, char **argv)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        const char *kind = NULL, *status_name = NULL;
        struct json_object *list = NULL;
        int status = ls_check("kind", cli->kind, ferry_kind_name, &kind);
        if (status == CLI_OK)
                status = ls_check("status", cli->status, ferry_status_name, &status_name);
        if (status == CLI_OK && cli->done && cli->running)
                status = cli_usage_error("--done and --running exclude each other");
        if (status == CLI_OK)
                status = cli_connect(cli);
        if (status == CLI_OK)
                status = ls_path(cli, kind, status_name, &path);
        if (status == CLI_OK)
                status = table_get_all(&cli->worker, path.text.data, "operations", NULL, &list);
        if (status == CLI_OK)
                status = table_show(cli, list, ls_columns, FERRY_ARRAY_SIZE(ls_columns), "No operations.");
        json_object_put(list);
        return status;
}
