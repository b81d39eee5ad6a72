/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "content.h"
#include "job.h"

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
