/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include "table.h"

/* Shows any resource by its id, or the worker. */
int cli_run_show(struct cli *cli, int argc, char **argv)
{
        char path[128] = "/v1/worker";
        const char *id = argc > 1 ? argv[1] : NULL;
        struct json_object *json = NULL;
        if (id && strncmp(id, "op_", 3) == 0)
                snprintf(path, sizeof(path), "/v1/operations/%s", id);
        else if (id && strncmp(id, "rgn_", 4) == 0)
                snprintf(path, sizeof(path), "/v1/regions/%s", id);
        else if (id && strcmp(id, "limits") == 0)
                snprintf(path, sizeof(path), "/v1/limits");
        else if (id && strcmp(id, "worker") != 0)
                return cli_usage_error("%s is neither an operation (op_…) nor a region (rgn_…), worker or limits", id);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, path, &json);
        if (status == CLI_OK && cli->json)
                status = cli_print(json_object_to_json_string_ext(json, JSON_C_TO_STRING_NOSLASHESCAPE));
        else if (status == CLI_OK)
                status = cli_print(json_object_to_json_string_ext(
                        json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(json);
        return status;
}
