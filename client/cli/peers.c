/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "table.h"

static const struct table_column peers_columns[] = {
        { "PEER", "worker", TABLE_TEXT },
        { "STATUS", "status", TABLE_TEXT },
        { "TRANSPORT", "transport", TABLE_TEXT },
        { "CONNECT", "connect_us", TABLE_MICROS },
        { "TRANSFERS", "transfers", TABLE_NUMBER },
        { "URL", "url", TABLE_TEXT },
        { "WHY", "why", TABLE_TEXT },
};

/* Adds one text: why the peer is not connected, or not by something better. */
static void peers_add_why(struct json_object *peer)
{
        struct json_object *error, *unused, *value;
        char why[512] = "";
        size_t used = 0;
        if (json_object_object_get_ex(peer, "error", &error) && json_object_object_get_ex(error, "detail", &value)) {
                json_object_object_add(peer, "why", json_object_get(value));
                return;
        }
        if (!json_object_object_get_ex(peer, "unused", &unused) || !json_object_is_type(unused, json_type_array))
                return;
        for (size_t i = 0; i < json_object_array_length(unused); i++) {
                struct json_object *one = json_object_array_get_idx(unused, i), *transport, *reason;
                if (!json_object_object_get_ex(one, "transport", &transport) ||
                    !json_object_object_get_ex(one, "reason", &reason))
                        continue;
                int n = snprintf(why + used, sizeof(why) - used, "%sno %s: %s", used ? "; " : "",
                                 json_object_get_string(transport), json_object_get_string(reason));
                if (n < 0 || (size_t)n >= sizeof(why) - used)
                        break;
                used += (size_t)n;
        }
        if (used)
                json_object_object_add(peer, "why", json_object_new_string(why));
}

static void peers_flatten(struct json_object *peer)
{
        struct json_object *addresses, *urls, *url;
        if (json_object_object_get_ex(peer, "addresses", &addresses) &&
            json_object_object_get_ex(addresses, "http", &urls) && json_object_is_type(urls, json_type_array) &&
            (url = json_object_array_get_idx(urls, 0)))
                json_object_object_add(peer, "url", json_object_get(url));
        peers_add_why(peer);
}

int cli_run_peers(struct cli *cli, int argc, char **argv)
{
        struct json_object *list = NULL;
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get_all(&cli->worker, "/v1/peers?limit=1000", "peers", NULL, &list);
        for (size_t i = 0; status == CLI_OK && !cli->json && i < json_object_array_length(list); i++)
                peers_flatten(json_object_array_get_idx(list, i));
        if (status == CLI_OK)
                status = table_show(cli, list, peers_columns, FERRY_ARRAY_SIZE(peers_columns),
                                    "Not connected to any worker.");
        json_object_put(list);
        return status;
}
