/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include "table.h"

/* ---- ferry ls ---- */

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
        static const struct table table = { ls_columns, FERRY_ARRAY_SIZE(ls_columns), "No operations.", NULL };
        const char *kind = NULL, *status_name = NULL;
        int status = ls_check("kind", cli->kind, ferry_kind_name, &kind);
        if (status == CLI_OK)
                status = ls_check("status", cli->status, ferry_status_name, &status_name);
        if (status == CLI_OK && cli->done && cli->running)
                status = cli_usage_error("--done and --running exclude each other");
        if (status == CLI_OK)
                status = ls_path(cli, kind, status_name, &path);
        return status == CLI_OK ? table_run(cli, path.text.data, "operations", &table) : status;
}

/* ---- ferry regions ---- */

static const struct table_column regions_columns[] = {
        { "REGION", "id", TABLE_TEXT },   { "SIZE", "size", TABLE_BYTES },      { "DEVICE", "device", TABLE_TEXT },
        { "STATE", "state", TABLE_TEXT }, { "IN USE", "in_use", TABLE_NUMBER }, { "AGE", "created_at", TABLE_AGE },
        { "NAME", "name", TABLE_TEXT },   { "PATH", "path", TABLE_TEXT },
};

int cli_run_regions(struct cli *cli, int argc, char **argv)
{
        static const struct table table = { regions_columns, FERRY_ARRAY_SIZE(regions_columns), "No regions.", NULL };
        return table_run(cli, "/v1/regions?limit=1000", "regions", &table);
}

/* ---- ferry show ---- */

/* Shows any resource by its id, or the worker. */
int cli_run_show(struct cli *cli, int argc, char **argv)
{
        const char *id = argc > 1 ? argv[1] : "worker";
        const char *collection = "", *member = "id"; /* that every such answer has */
        enum json_type type = json_type_string;
        struct json_object *json = NULL;
        char path[128];
        if (strncmp(id, "op_", 3) == 0)
                collection = "operations/";
        else if (strncmp(id, "rgn_", 4) == 0)
                collection = "regions/";
        else if (strcmp(id, "limits") == 0)
                member = "wait_ms_max", type = json_type_int;
        else if (strcmp(id, "worker") == 0)
                member = "name";
        else
                return cli_usage_error("%s is neither an operation (op_…) nor a region (rgn_…), worker or limits", id);
        snprintf(path, sizeof(path), "/v1/%s%s", collection, id);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, path, member, type, &json);
        if (status == CLI_OK)
                status = table_print_document(json);
        json_object_put(json);
        return status;
}

/* ---- ferry rm ---- */

static int rm_one(struct cli *cli, const char *id)
{
        if (strncmp(id, "op_", 3) == 0)
                return cli_result(&cli->worker, ferry_delete_operation(cli->worker.ferry, id));
        if (strncmp(id, "rgn_", 4) == 0)
                return cli_result(&cli->worker, ferry_delete_region(cli->worker.ferry, id));
        return cli_usage_error("%s is neither an operation (op_…) nor a region (rgn_…)", id);
}

int cli_run_rm(struct cli *cli, int argc, char **argv)
{
        return cli_each(cli, argc, argv, rm_one);
}
