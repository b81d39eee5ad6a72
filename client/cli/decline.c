/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

#include "content.h"
#include "link.h"
#include "remote.h"
#include "table.h"

/* What the holder of an offer's metadata says to its worker: ferry decline, and ferry renew. */

enum { HELD_METADATA_MAX = 8 << 20 };

/* An offer as its holder has it. */
struct held {
        struct remote remote;            /* the metadata, and the worker if they were fetched from it */
        struct ferry_metadata *metadata; /* the same, decoded */
        struct cli_worker worker;        /* that the metadata name; opened unless they were fetched */
        char id[FERRY_ID_TEXT_SIZE], key[FERRY_KEY_TEXT_SIZE];
};

static void held_clear(struct held *held)
{
        remote_clear(&held->remote);
        ferry_metadata_free(held->metadata);
        worker_close(&held->worker);
        explicit_bzero(held->key, sizeof(held->key));
}

/* Reads metadata from a file or standard input, or fetches those of an offer. An exit status. */
static int held_read(struct cli *cli, const char *text, struct held *held)
{
        struct link link = { 0 };
        size_t size;
        bool fetch = strncmp(text, "nats://", 7) == 0 || strncmp(text, "tls://", 6) == 0 ||
                     link_parse(text, "operations", "op_", &link) == 0;
        link_clear(&link);
        return fetch ? remote_fetch(cli, text, FERRY_KIND_COUNT, &held->remote)
                     : content_slurp(text, HELD_METADATA_MAX, &held->remote.metadata, &size);
}

static int held_open(struct cli *cli, const char *text, struct held *held)
{
        struct ferry_json_errors errors = { 0 };
        int status = held_read(cli, text, held);
        if (status != CLI_OK)
                return status;
        int r = ferry_metadata_decode(held->remote.metadata, strlen(held->remote.metadata), "", &held->metadata,
                                      &errors);
        if (r < 0)
                return cli_usage_error("%s", strerror(-r));
        if (r > 0)
                return cli_usage_error("%s: these are not the metadata of an offer: %s", text,
                                       errors.n ? errors.items[0].detail : ferry_error_title(r));
        ferry_id_format("op_", held->metadata->operation, held->id);
        ferry_key_format(held->metadata->key, held->key);
        if (held->remote.worker.ferry)
                return CLI_OK;
        return *held->metadata->http ? cli_worker_named(cli, held->metadata->http, WORKER_ITSELF, &held->worker)
                                     : cli_connect(cli);
}

/* The worker of the offer; NULL = its metadata name no URL. */
static const struct cli_worker *held_worker(const struct held *held)
{
        return held->remote.worker.ferry ? &held->remote.worker : held->worker.ferry ? &held->worker : NULL;
}

/* As cli_result(): what is forbidden is so to whoever has the key, and no token would help. */
static int held_result(const struct cli_worker *worker, int r)
{
        return r == FERRY_E_FORBIDDEN ? cli_fail_with_code(CLI_PROBLEM, ferry_last_problem(worker->ferry)->code, "%s",
                                                           ferry_last_message(worker->ferry))
                                      : cli_result(worker, r);
}

static int held_print(const struct cli *cli, const struct ferry_offer_state *state)
{
        const char *status = state->status < 0 ? "" : ferry_status_name(state->status);
        if (!cli->json)
                return cli_print(*state->expires_at ? state->expires_at : status);
        struct json_object *document = json_object_new_object();
        json_object_object_add(document, "status", json_object_new_string(status));
        if (*state->expires_at)
                json_object_object_add(document, "expires_at", json_object_new_string(state->expires_at));
        int printed = table_print_document(document);
        json_object_put(document);
        return printed;
}

/* Tells the offer's own worker, or where its metadata name none, by way of ours. */
static int held_tell(struct cli *cli, const struct held *held, bool renews, struct ferry_offer_state *ret_state)
{
        const struct cli_worker *owner = held_worker(held), *worker = owner ? owner : &cli->worker;
        struct ferry *f = worker->ferry;
        int r;
        if (renews)
                r = owner ? ferry_renew_by_key(f, held->id, held->key, cli->ttl_ms, ret_state)
                          : ferry_renew_remote(f, held->remote.metadata, cli->ttl_ms, ret_state);
        else
                r = owner ? ferry_decline_operation(f, held->id, held->key, ret_state)
                          : ferry_decline_remote(f, held->remote.metadata, ret_state);
        return held_result(worker, r);
}

static int held_run(struct cli *cli, const char *text, bool renews)
{
        struct ferry_offer_state state = { 0 };
        struct held held = { 0 };
        int status = held_open(cli, text, &held);
        if (status == CLI_OK)
                status = held_tell(cli, &held, renews, &state);
        if (status == CLI_OK)
                status = held_print(cli, &state);
        held_clear(&held);
        return status;
}

int cli_run_decline(struct cli *cli, int argc, char **argv)
{
        return held_run(cli, argv[1], false);
}

int cli_run_renew(struct cli *cli, int argc, char **argv)
{
        return held_run(cli, argv[1], true);
}
