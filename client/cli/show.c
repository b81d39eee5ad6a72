/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include "table.h"

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
                status = table_print_json(json, cli->json ? JSON_C_TO_STRING_PLAIN
                                                          : JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
        json_object_put(json);
        return status;
}
