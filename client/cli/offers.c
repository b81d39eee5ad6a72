/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/json.h>
#include <ferry/metadata.h>
#include <ferry/status.h>

/*
 * ferry offer, fetch, accept and send (errand), and ferry decline and renew (held). An errand is a file, a region, and
 * an operation on it, in the order that its kind wants: whoever has the file fills the region first, whoever gets it
 * saves the region last. The end is the same for all: file, operation and region are complete, or are removed.
 */

/* ---- offer, accept, send, fetch ---- */

/*
 * ferry offer, fetch, accept and send: a file goes through a region, and an operation on it. Those that offer wait for
 * a peer; the others have the URL of an offer.
 */
struct errand {
        struct job job;
        enum ferry_kind kind;
        struct content_input input;   /* of offer and send */
        struct content_output output; /* of fetch and accept */
        struct remote remote;         /* the offer that fetch and send use */
        uint64_t size;
};

static bool errand_reads_file(const struct errand *e)
{
        return e->kind == FERRY_READABLE || e->kind == FERRY_WRITE;
}

static bool errand_offers(const struct errand *e)
{
        return ferry_kind_is_passive((int)e->kind);
}

/* ---- the region ---- */

/* Reserves disk space on a thread while the worker makes the region: if the file is in memory, both clear pages. */
struct errand_room {
        struct content_output *output;
        uint64_t size;
        int result;
};

static void *errand_reserve(void *context)
{
        struct errand_room *room = context;
        room->result = content_reserve(room->output, room->size);
        return NULL;
}

static int errand_make_region_and_room(struct errand *e)
{
        struct errand_room room = { &e->output, e->size, 0 };
        pthread_t thread;
        bool apart = pthread_create(&thread, NULL, errand_reserve, &room) == 0;
        int status = job_make_region(&e->job, e->size, NULL);
        if (apart)
                (void)pthread_join(thread, NULL);
        else
                (void)errand_reserve(&room);
        return status == CLI_OK ? content_reserved(&e->output, e->size, room.result) : status;
}

/* An offer is in no hurry: without room for the file it is not made. */
static int errand_prepare(struct errand *e)
{
        int status = CLI_OK;
        if (e->kind == FERRY_READ)
                return errand_make_region_and_room(e);
        if (e->kind == FERRY_WRITABLE)
                status = content_reserved(&e->output, e->size, content_reserve(&e->output, e->size));
        return status == CLI_OK ? job_make_region(&e->job, e->size, e->job.cli->name) : status;
}

/* ---- the bytes ---- */

static int errand_make_operation(struct errand *e)
{
        struct ferry_operation_spec spec = { .kind = e->kind };
        if (!errand_offers(e)) {
                spec.layout = FERRY_LAYOUT_STREAM; /* the offer may have several descriptors, the region here has one */
                spec.remote_metadata = e->remote.metadata;
                spec.remote = e->remote.parts;
                spec.n_remote = e->remote.n_parts;
        }
        int status = job_make_operation(&e->job, &spec, e->job.region.id, e->size);
        if (status == CLI_OK && errand_offers(e))
                status = job_announce(&e->job, e->kind == FERRY_READABLE ? "Waiting for: ferry fetch %s -o FILE\n"
                                                                         : "Waiting for: ferry send FILE %s\n");
        return status;
}

/* The errand once its ends are open. Returns an exit status. */
static int errand_run(struct errand *e)
{
        int status = errand_prepare(e);
        if (status == CLI_OK && errand_reads_file(e))
                status = content_fill(e->job.worker, &e->job.region, &e->input);
        if (status == CLI_OK)
                status = errand_make_operation(e);
        if (status == CLI_OK)
                status = job_wait(&e->job);
        if (status == CLI_OK && !errand_reads_file(e))
                status = content_save(e->job.worker, &e->job.region, &e->output, e->size);
        bool taken = e->output.fd == STDOUT_FILENO; /* by the bytes */
        status = content_end(&e->output, status);
        return status == CLI_OK && !taken ? job_report(&e->job) : status;
}

/* ---- its ends ---- */

/*
 * An accept that waits for another size would wait in vain: ferry send declines its offer. With --remote nothing is
 * declined, as the parts are those of our user, and not the whole offer.
 */
static int errand_compare(const struct errand *e)
{
        if (e->remote.size == e->size)
                return CLI_OK;
        if (!e->remote.n_parts)
                (void)ferry_decline_remote(e->job.worker->ferry, e->remote.metadata, NULL);
        return cli_usage_error("%s has %" PRIu64 " bytes, and %" PRIu64 " are accepted: ferry accept --size %" PRIu64,
                               e->input.name, e->size, e->remote.size, e->size);
}

/* Opens the file, the worker and the offer. input: the file to read, url: the offer; NULL = it has none. */
static int errand_open(struct errand *e, const char *input, const char *url)
{
        struct cli *cli = e->job.cli;
        int status = input ? content_open(input, &e->input) : CLI_OK;
        if (status == CLI_OK)
                status = cli_connect(cli);
        if (status == CLI_OK && url)
                status = remote_fetch(cli, url, input ? FERRY_WRITABLE : FERRY_READABLE, &e->remote);
        if (status == CLI_OK && !input)
                status = content_create(cli->output, &e->output);
        e->size = input ? e->input.size : url ? e->remote.size : cli->size;
        return status == CLI_OK && input && url ? errand_compare(e) : status;
}

static int errand_do(struct cli *cli, enum ferry_kind kind, const char *input, const char *url)
{
        struct errand e = { .job = { .cli = cli, .worker = &cli->worker },
                            .kind = kind,
                            .input = { .fd = -1 },
                            .output = { .fd = -1 } };
        signals_limit(cli);
        int status = errand_open(&e, input, url);
        if (status == CLI_OK && kind == FERRY_WRITABLE && e.output.fd == STDOUT_FILENO)
                status = cli_usage_error("accept prints the URL on standard output: name a file with -o FILE");
        if (status == CLI_OK)
                status = errand_run(&e);
        else
                status = content_end(&e.output, status);
        job_end(&e.job);
        remote_clear(&e.remote);
        content_close(&e.input);
        return status;
}

int cli_run_offer(struct cli *cli, int argc, char **argv)
{
        return errand_do(cli, FERRY_READABLE, argv[1], NULL);
}

int cli_run_fetch(struct cli *cli, int argc, char **argv)
{
        return errand_do(cli, FERRY_READ, NULL, argv[1]);
}

int cli_run_accept(struct cli *cli, int argc, char **argv)
{
        if (!cli->size || !cli->output)
                return cli_usage_error("usage: ferry accept -o FILE --size SIZE");
        return errand_do(cli, FERRY_WRITABLE, NULL, NULL);
}

int cli_run_send(struct cli *cli, int argc, char **argv)
{
        return errand_do(cli, FERRY_WRITE, argv[1], argv[2]);
}

/* ---- decline, renew ---- */

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

/* The worker of the offer, opened; NULL = its metadata name no URL. */
static const struct cli_worker *held_worker(const struct held *held)
{
        return held->remote.worker.ferry ? &held->remote.worker : held->worker.ferry ? &held->worker : NULL;
}

/*
 * The exit status of a call that a holder makes. cli_result() would advise to give a token where it is forbidden; but
 * the key decides that, and no token would help.
 */
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
