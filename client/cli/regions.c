/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "table.h"

static const struct table_column regions_columns[] = {
        { "REGION", "id", TABLE_TEXT },   { "SIZE", "size", TABLE_BYTES },      { "DEVICE", "device", TABLE_TEXT },
        { "STATE", "state", TABLE_TEXT }, { "IN USE", "in_use", TABLE_NUMBER }, { "AGE", "created_at", TABLE_AGE },
        { "NAME", "name", TABLE_TEXT },   { "PATH", "path", TABLE_TEXT },
};

int cli_run_regions(struct cli *cli, int argc, char **argv)
{
        struct json_object *list = NULL;
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get_all(&cli->worker, "/v1/regions?limit=1000", "regions", NULL, &list);
        if (status == CLI_OK)
                status = table_show(cli, list, regions_columns, FERRY_ARRAY_SIZE(regions_columns), "No regions.");
        json_object_put(list);
        return status;
}
