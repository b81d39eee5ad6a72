/* SPDX-License-Identifier: Apache-2.0 */
#include "content.h"
#include "job.h"

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
