/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/*
 * ferry workers, and workers by name. What the worker of --url knows of its registry is listed, or watched: a request
 * is parked there until the registry's revision changes, and the lists before and after tell who joined and who left.
 */

#define WORKERS_PATH "/v1/peers?registry=1&limit=1000"

enum {
        WORKERS_WAIT_MS = 10000,
        WORKERS_REST_MS = 200, /* between two looks: a registry may end every watch at once */
};

static const struct table_column workers_columns[] = {
        { "NAME", "worker", TABLE_TEXT }, { "VERSION", "version", TABLE_TEXT }, { "STARTED", "started_at", TABLE_AGE },
        { "EPOCH", "epoch", TABLE_TEXT }, { "DATA", "data", TABLE_TEXT },       { "URL", "url", TABLE_TEXT },
};

/* What is in "addresses" as members of the worker. */
static void workers_flatten(struct json_object *worker)
{
        struct json_object *addresses, *data;
        if (json_object_object_get_ex(worker, "addresses", &addresses) &&
            json_object_object_get_ex(addresses, "data", &data))
                json_object_object_add(worker, "data", json_object_get(data));
        member_add_url(worker);
}

/* What was seen of the registry. */
struct workers {
        struct json_object *list;
        int64_t revision;
        int64_t skipped; /* values that are no worker's */
};

/* Tells how many values are no worker's, whenever that changes. */
static void workers_tell_skipped(int64_t skipped, int64_t before)
{
        if (skipped > 0 && skipped != before)
                (void)cli_problem("the registry has %" PRId64 " %s under its prefix that %s no worker's", skipped,
                                  skipped == 1 ? "value" : "values", skipped == 1 ? "is" : "are");
}

/* All pages, and the revision of the first: what changes meanwhile is seen at the next look. */
static int workers_list(struct cli *cli, uint64_t wait_ms, struct workers *seen, struct json_object **ret_list)
{
        int64_t before = seen->skipped;
        struct json_object *first = NULL, *value = NULL;
        char path[160];
        int status;
        if (wait_ms) {
                snprintf(path, sizeof(path), "/v1/peers?registry=1&limit=1&wait_ms=%" PRIu64 "&revision=%" PRId64,
                         wait_ms, seen->revision);
        } else {
                snprintf(path, sizeof(path), "/v1/peers?registry=1&limit=1");
        }
        status = table_get(&cli->worker, path, "peers", json_type_array, &first);
        if (status == CLI_OK && json_object_object_get_ex(first, "revision", &value))
                seen->revision = json_object_get_int64(value);
        json_object_put(first);
        if (status == CLI_OK)
                status = table_get_all(&cli->worker, WORKERS_PATH, "peers", &seen->skipped, ret_list);
        if (status == CLI_OK)
                workers_tell_skipped(seen->skipped, before);
        return status;
}

static bool workers_has(struct json_object *list, struct json_object *worker)
{
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *other = json_object_array_get_idx(list, i);
                if (strcmp(member_text(other, "epoch", ""), member_text(worker, "epoch", "")) == 0 &&
                    strcmp(member_text(other, "worker", ""), member_text(worker, "worker", "")) == 0)
                        return true;
        }
        return false;
}

/* One line for each that is in list and not in other. */
static int workers_tell(const struct cli *cli, const char *event, struct json_object *list, struct json_object *other)
{
        int status = CLI_OK;
        for (size_t i = 0; status == CLI_OK && i < json_object_array_length(list); i++) {
                struct json_object *worker = json_object_array_get_idx(list, i);
                if (workers_has(other, worker))
                        continue;
                if (cli->json) {
                        struct json_object *line = json_object_new_object();
                        json_object_object_add(line, "event", json_object_new_string(event));
                        json_object_object_add(line, "peer", json_object_get(worker));
                        status = table_print_line(line);
                        json_object_put(line);
                } else {
                        char name[128], url[512];
                        workers_flatten(worker);
                        table_format(worker, &(struct table_column){ "", "worker", TABLE_TEXT }, name, sizeof(name));
                        table_format(worker, &(struct table_column){ "", "url", TABLE_TEXT }, url, sizeof(url));
                        printf("%-6s %s %s\n", event, name, url);
                }
        }
        return status == CLI_OK ? cli_flush() : status;
}

static int workers_watch(struct cli *cli, struct workers *seen)
{
        int status = CLI_OK;
        while (status == CLI_OK) {
                struct json_object *now = NULL;
                (void)poll(NULL, 0, WORKERS_REST_MS);
                status = workers_list(cli, WORKERS_WAIT_MS, seen, &now);
                if (status == CLI_OK)
                        status = workers_tell(cli, "left", seen->list, now);
                if (status == CLI_OK)
                        status = workers_tell(cli, "joined", now, seen->list);
                if (now) {
                        json_object_put(seen->list);
                        seen->list = now;
                }
        }
        return signals_caught() ? CLI_OK : status;
}

/* The first look of a watch in JSON is events as well: one form for whoever reads them. */
static int workers_show(const struct cli *cli, struct json_object *list)
{
        static const struct table table = { workers_columns, FERRY_ARRAY_SIZE(workers_columns),
                                            "No worker is registered.", workers_flatten };
        struct json_object *none = json_object_new_array();
        int status;
        if (cli->watch && cli->json)
                status = workers_tell(cli, "joined", list, none);
        else
                status = table_show(cli, list, &table);
        json_object_put(none);
        return status == CLI_OK ? cli_flush() : status;
}

int cli_run_workers(struct cli *cli, int argc, char **argv)
{
        struct workers seen = { 0 };
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = workers_list(cli, 0, &seen, &seen.list);
        if (status == CLI_OK)
                status = workers_show(cli, seen.list);
        if (status == CLI_OK && cli->watch)
                status = workers_watch(cli, &seen);
        json_object_put(seen.list);
        return status;
}

/* ---- other workers, by name ---- */

/* The base URL of a worker, as the registry of the worker of --url says, for free(). */
static int workers_url(struct cli *cli, const char *name, char **ret_url)
{
        struct json_object *list = NULL;
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get_all(&cli->worker, WORKERS_PATH, "peers", NULL, &list);
        *ret_url = NULL;
        for (size_t i = 0; status == CLI_OK && !*ret_url && i < json_object_array_length(list); i++) {
                struct json_object *worker = json_object_array_get_idx(list, i);
                const char *text = member_text(worker, "worker", "");
                if (strcmp(text, name) != 0)
                        continue;
                workers_flatten(worker);
                *ret_url = strdup(member_text(worker, "url", ""));
                if (!*ret_url)
                        status = cli_usage_error("%s", strerror(ENOMEM));
        }
        if (status == CLI_OK && (!*ret_url || !**ret_url)) {
                status =
                        cli_problem("no worker %s is in the registry of %s (see ferry workers)", name, cli->worker.url);
                free(*ret_url);
                *ret_url = NULL;
        }
        json_object_put(list);
        return status;
}

int cli_worker_named(struct cli *cli, const char *name, enum worker_role same, struct cli_worker *ret_worker)
{
        struct cli_worker worker = { 0 };
        int status = strncmp(name, "ferry://", 8) == 0 ? workers_url(cli, name + 8, &worker.url)
                                                       : worker_resolve(name, &worker);
        /* Each worker's token is for that worker alone. */
        bool own = status == CLI_OK && cli->worker.url && strcmp(worker.url, cli->worker.url) == 0;
        if (status == CLI_OK)
                status = worker_open_with_settings(cli, &worker, own ? same : WORKER_OTHER);
        if (status == CLI_OK)
                *ret_worker = worker;
        else
                worker_close(&worker);
        return status;
}
