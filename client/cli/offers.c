/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <ferry/status.h>

#include "content.h"
#include "job.h"
#include "remote.h"

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

/* An accept that waits for another size would wait in vain: it is told. Its user named the size, ours the parts of it.
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

/* input, url: NULL = it has none. */
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
