/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "content.h"
#include "job.h"
#include "remote.h"

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
