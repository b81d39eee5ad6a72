/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "member.h"
#include "table.h"

/* ---- ferry peers ---- */

static const struct table_column peers_columns[] = {
        { "PEER", "worker", TABLE_TEXT },
        { "STATUS", "status", TABLE_TEXT },
        { "TRANSPORT", "transport", TABLE_TEXT },
        { "CONNECT", "connect_us", TABLE_MICROS },
        { "TRANSFERS", "transfers", TABLE_NUMBER },
        { "URL", "url", TABLE_TEXT },
        { "WHY", "why", TABLE_TEXT },
};

/* Adds the URL and one text: why the peer is not connected, or not by something better. */
static void peers_prepare(struct json_object *peer)
{
        struct json_object *error, *unused, *value;
        char why[512] = "";
        size_t used = 0;
        member_add_url(peer);
        if (json_object_object_get_ex(peer, "error", &error) && json_object_object_get_ex(error, "detail", &value)) {
                json_object_object_add(peer, "why", json_object_get(value));
                return;
        }
        for (size_t i = 0, n_unused = member_list(peer, "unused", &unused); i < n_unused; i++) {
                struct json_object *one = json_object_array_get_idx(unused, i);
                const char *transport = member_text(one, "transport", NULL), *reason = member_text(one, "reason", NULL);
                const char *retry = member_text(one, "retry_at", NULL);
                if (!transport || !reason)
                        continue;
                int n = snprintf(why + used, sizeof(why) - used, "%sno %s: %s%s%s", used ? "; " : "", transport, reason,
                                 retry ? ", tried again after " : "", retry ? retry : "");
                if (n < 0 || (size_t)n >= sizeof(why) - used)
                        break;
                used += (size_t)n;
        }
        if (used)
                json_object_object_add(peer, "why", json_object_new_string(why));
}

int cli_run_peers(struct cli *cli, int argc, char **argv)
{
        static const struct table table = { peers_columns, FERRY_ARRAY_SIZE(peers_columns),
                                            "Not connected to any worker.", peers_prepare };
        return table_run(cli, "/v1/peers?limit=1000", "peers", &table);
}

/* ---- ferry connect ---- */

int cli_run_connect(struct cli *cli, int argc, char **argv)
{
        struct ferry_peer peer = { 0 };
        struct cli_worker named = { 0 };
        int status = worker_resolve(argv[1], &named);
        if (status == CLI_OK)
                status = cli_connect(cli);
        if (status == CLI_OK)
                status = cli_result(&cli->worker, ferry_connect_peer(cli->worker.ferry, named.url, &peer));
        if (status == CLI_OK)
                status = table_print_answer(peer.json);
        ferry_peer_clear(&peer);
        worker_close(&named);
        return status;
}
