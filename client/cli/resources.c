/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <string.h>

/*
 * The commands that show or remove what a worker has: ls, regions, show, cancel, rm, peers, connect, devices. What they
 * print is the worker's document, or a table of it (table.c). Members that are missing are shown as such: the
 * worker may be older.
 */

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

/* ---- ferry cancel, ferry rm ---- */

static int cancel_one(struct cli *cli, const char *id)
{
        return cli_result(&cli->worker, ferry_cancel_operation(cli->worker.ferry, id, NULL));
}

int cli_run_cancel(struct cli *cli, int argc, char **argv)
{
        return cli_each(cli, argc, argv, cancel_one);
}

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

/* ---- devices ---- */

static const struct table_column devices_memory[] = {
        { "MEMORY", "name", TABLE_TEXT },
        { "SIZE", "total_bytes", TABLE_BYTES },
        { "MODEL", "model", TABLE_TEXT },
};
static const struct table_column devices_ports[] = {
        { "RDMA PORT", "port", TABLE_TEXT },   { "STATE", "state", TABLE_TEXT }, { "LINK", "link_layer", TABLE_TEXT },
        { "MTU", "active_mtu", TABLE_NUMBER }, { "GIDS", "gids", TABLE_LIST },
};

/* One row a port, named as UCX_NET_DEVICES takes it. */
static struct json_object *devices_ports_of(struct json_object *devices)
{
        struct json_object *rows = json_object_new_array(), *nics, *ports, *number;
        for (size_t i = 0, n = member_list(devices, "rdma", &nics); i < n; i++) {
                struct json_object *nic = json_object_array_get_idx(nics, i);
                for (size_t j = 0, n_ports = member_list(nic, "ports", &ports); j < n_ports; j++) {
                        struct json_object *port = json_object_array_get_idx(ports, j);
                        char text[128];
                        if (!json_object_object_get_ex(port, "number", &number))
                                continue;
                        snprintf(text, sizeof(text), "%s:%d", member_text(nic, "name", "?"),
                                 json_object_get_int(number));
                        json_object_object_add(port, "port", json_object_new_string(text));
                        json_object_array_add(rows, json_object_get(port));
                }
        }
        return rows;
}

static void devices_print(struct json_object *devices)
{
        struct json_object *memory, *gpu, *missing, *rows = devices_ports_of(devices);
        char text[512];
        size_t n = member_list(devices, "memory", &memory), n_rows = json_object_array_length(rows);
        if (n)
                table_print(memory, n, devices_memory, FERRY_ARRAY_SIZE(devices_memory), 0);
        putchar('\n');
        if (n_rows)
                table_print(rows, n_rows, devices_ports, FERRY_ARRAY_SIZE(devices_ports), 0);
        else
                puts("No RDMA devices.");
        json_object_put(rows);
        table_format(devices, &(struct table_column){ "", "transports", TABLE_LIST }, text, sizeof(text));
        printf("\nTransports: %s\n", *text ? text : "none (ferryd --local or --data-listen opens one)");
        if (!json_object_object_get_ex(devices, "gpu_direct_rdma", &gpu))
                return;
        n = member_list(gpu, "missing", &missing);
        printf("GPU Direct RDMA: %s\n", n ? "not possible" : "possible");
        for (size_t i = 0; i < n; i++) {
                snprintf(text, sizeof(text), "%s", member_item(missing, i));
                cli_mask_controls(text);
                printf("  %s\n", text);
        }
}

int cli_run_devices(struct cli *cli, int argc, char **argv)
{
        struct json_object *devices = NULL;
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, "/v1/devices", "transports", json_type_array, &devices);
        if (status == CLI_OK && cli->json)
                status = table_print_document(devices);
        else if (status == CLI_OK)
                devices_print(devices);
        json_object_put(devices);
        return status;
}
