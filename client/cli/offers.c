/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "job.h"
#include "remote.h"

/* ---- ferry offer ---- */

/* Offers the file's bytes in a region until a peer has read them. */
static int offer_run(struct job *job, const struct content_input *input)
{
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE };
        int status = job_make_region(job, input->size, job->cli->name);
        if (status == CLI_OK)
                status = content_fill(job->worker, &job->region, input);
        if (status == CLI_OK)
                status = job_make_operation(job, &spec, job->region.id, input->size);
        if (status == CLI_OK)
                status = job_announce(job, "Waiting for: ferry fetch %s -o FILE\n");
        if (status == CLI_OK)
                status = job_wait(job);
        return status == CLI_OK ? job_report(job) : status;
}

int cli_run_offer(struct cli *cli, int argc, char **argv)
{
        struct content_input input = { .fd = -1 };
        struct job job = { .cli = cli, .worker = &cli->worker };
        signals_limit(cli);
        int status = content_open(argv[1], &input);
        if (status == CLI_OK)
                status = cli_connect(cli);
        if (status == CLI_OK)
                status = offer_run(&job, &input);
        job_end(&job);
        content_close(&input);
        return status;
}

/* ---- ferry accept ---- */

/* Offers a region until a peer has written it, then saves it. */
static int accept_run(struct job *job, struct content_output *output, uint64_t size)
{
        struct ferry_operation_spec spec = { .kind = FERRY_WRITABLE };
        int status = content_reserved(output, size, content_reserve(output, size));
        if (status == CLI_OK)
                status = job_make_region(job, size, job->cli->name);
        if (status == CLI_OK)
                status = job_make_operation(job, &spec, job->region.id, size);
        if (status == CLI_OK)
                status = job_announce(job, "Waiting for: ferry send FILE %s\n");
        if (status == CLI_OK)
                status = job_wait(job);
        if (status == CLI_OK)
                status = content_save(job->worker, &job->region, output, size);
        status = content_end(output, status);
        return status == CLI_OK ? job_report(job) : status;
}

int cli_run_accept(struct cli *cli, int argc, char **argv)
{
        struct content_output output = { .fd = -1 };
        struct job job = { .cli = cli, .worker = &cli->worker };
        if (!cli->size || !cli->output)
                return cli_usage_error("usage: ferry accept -o FILE --size SIZE");
        signals_limit(cli);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = content_create(cli->output, &output);
        if (status == CLI_OK && output.fd == STDOUT_FILENO)
                return cli_usage_error("accept prints the URL on standard output: name a file with -o FILE");
        if (status == CLI_OK)
                status = accept_run(&job, &output, cli->size);
        job_end(&job);
        return status;
}

/* ---- ferry send ---- */

static int send_run(struct job *job, const struct remote *remote, const struct content_input *input)
{
        struct ferry_operation_spec spec = { .kind = FERRY_WRITE,
                                             .layout = FERRY_LAYOUT_STREAM,
                                             .remote_metadata = remote->metadata,
                                             .remote = remote->parts,
                                             .n_remote = remote->n_parts };
        if (remote->size != input->size)
                return cli_usage_error("%s has %" PRIu64 " bytes, and %" PRIu64
                                       " are accepted: ferry accept --size %" PRIu64,
                                       input->name, input->size, remote->size, input->size);
        int status = job_make_region(job, input->size, NULL);
        if (status == CLI_OK)
                status = content_fill(job->worker, &job->region, input);
        if (status == CLI_OK)
                status = job_make_operation(job, &spec, job->region.id, input->size);
        if (status == CLI_OK)
                status = job_wait(job);
        return status == CLI_OK ? job_report(job) : status;
}

int cli_run_send(struct cli *cli, int argc, char **argv)
{
        struct content_input input = { .fd = -1 };
        struct remote remote = { 0 };
        struct job job = { .cli = cli, .worker = &cli->worker };
        signals_limit(cli);
        int status = content_open(argv[1], &input);
        if (status == CLI_OK)
                status = cli_connect(cli);
        if (status == CLI_OK)
                status = remote_fetch(cli, argv[2], FERRY_WRITABLE, &remote);
        if (status == CLI_OK)
                status = send_run(&job, &remote, &input);
        job_end(&job);
        remote_clear(&remote);
        content_close(&input);
        return status;
}

/* ---- ferry fetch ---- */

/* Reserves disk space on a thread while the worker makes the region: if the file is in memory, both clear pages. */
struct fetch_room {
        struct content_output *output;
        uint64_t size;
        int result;
};

static void *fetch_reserve(void *context)
{
        struct fetch_room *room = context;
        room->result = content_reserve(room->output, room->size);
        return NULL;
}

static int fetch_prepare(struct job *job, struct content_output *output, uint64_t size)
{
        struct fetch_room room = { output, size, 0 };
        pthread_t thread;
        bool apart = pthread_create(&thread, NULL, fetch_reserve, &room) == 0;
        int status = job_make_region(job, size, NULL);
        if (apart)
                (void)pthread_join(thread, NULL);
        else
                (void)fetch_reserve(&room);
        return status == CLI_OK ? content_reserved(output, size, room.result) : status;
}

static int fetch_run(struct job *job, const struct remote *remote, struct content_output *output)
{
        struct ferry_operation_spec spec = { .kind = FERRY_READ,
                                             .remote_metadata = remote->metadata,
                                             .remote = remote->parts,
                                             .n_remote = remote->n_parts };
        int status = fetch_prepare(job, output, remote->size);
        spec.layout = FERRY_LAYOUT_STREAM; /* the offer may have several descriptors, the region here has one */
        if (status == CLI_OK)
                status = job_make_operation(job, &spec, job->region.id, remote->size);
        if (status == CLI_OK)
                status = job_wait(job);
        if (status == CLI_OK)
                status = content_save(job->worker, &job->region, output, remote->size);
        bool taken = output->fd == STDOUT_FILENO; /* by the bytes */
        status = content_end(output, status);
        return status == CLI_OK && !taken ? job_report(job) : status;
}

int cli_run_fetch(struct cli *cli, int argc, char **argv)
{
        struct content_output output = { .fd = -1 };
        struct remote remote = { 0 };
        struct job job = { .cli = cli, .worker = &cli->worker };
        signals_limit(cli);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = remote_fetch(cli, argv[1], FERRY_READABLE, &remote);
        if (status == CLI_OK)
                status = content_create(cli->output, &output);
        if (status == CLI_OK)
                status = fetch_run(&job, &remote, &output);
        job_end(&job);
        remote_clear(&remote);
        return status;
}
