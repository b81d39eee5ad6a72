/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli.h"

/* One end of a copy: a region of some worker, or a file. */
struct end {
        const char *text;
        bool is_region;
        struct cli_worker worker; /* of the region */
        struct ferry_region region;
};

static int end_open(struct cli *cli, struct end *end)
{
        struct link link = { 0 };
        int r = link_parse(end->text, "regions", "rgn_", &link);
        if (r < 0)
                return r == -EINVAL ? CLI_OK : cli_usage_error("%s", strerror(-r)); /* a file */
        end->is_region = true;
        int status = cli_worker_named(cli, link.worker ? link.worker : cli->worker.url, WORKER_OWN, &end->worker);
        if (status == CLI_OK)
                status = cli_result(&end->worker, ferry_get_region(end->worker.ferry, link.id, &end->region));
        link_clear(&link);
        return status;
}

static int copy_in(const char *file, const struct end *to)
{
        struct content_input input = { .fd = -1 };
        int status = content_open(file, &input);
        if (status == CLI_OK && input.size > to->region.size)
                status = cli_usage_error("%s has %" PRIu64 " bytes, and %s only %" PRIu64, input.name, input.size,
                                         to->region.id, to->region.size);
        if (status == CLI_OK)
                status = content_fill(&to->worker, &to->region, &input);
        content_close(&input);
        return status;
}

static int copy_out(const struct end *from, const char *file)
{
        struct content_output output = { .fd = -1 };
        int status = content_create(file, &output);
        if (status == CLI_OK)
                status = content_reserved(&output, from->region.size, content_reserve(&output, from->region.size));
        if (status == CLI_OK)
                status = content_save(&from->worker, &from->region, &output, from->region.size);
        return content_end(&output, status);
}

/* The target's worker reads from the source's. */
static int copy_across(struct cli *cli, struct end *from, struct end *to)
{
        struct job offer = { .cli = cli, .worker = &from->worker }, read = { .cli = cli, .worker = &to->worker };
        struct ferry_operation_spec readable = { .kind = FERRY_READABLE, .include_metadata = true };
        struct ferry_operation_spec spec = { .kind = FERRY_READ };
        uint64_t size = from->region.size;
        if (size > to->region.size)
                return cli_usage_error("%s has %" PRIu64 " bytes, and %s only %" PRIu64, from->region.id, size,
                                       to->region.id, to->region.size);
        int status = job_make_operation(&offer, &readable, from->region.id, size);
        spec.remote_metadata = offer.operation.metadata;
        if (status == CLI_OK)
                status = job_make_operation(&read, &spec, to->region.id, size);
        if (status == CLI_OK)
                status = job_wait(&read);
        if (status == CLI_OK)
                status = job_report(&read);
        job_end(&read);
        job_end(&offer);
        return status;
}

int cli_run_copy(struct cli *cli, int argc, char **argv)
{
        struct end from = { .text = argv[1] }, to = { .text = argv[2] };
        signals_limit(cli);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = end_open(cli, &from);
        if (status == CLI_OK)
                status = end_open(cli, &to);
        if (status == CLI_OK) {
                if (from.is_region && to.is_region)
                        status = copy_across(cli, &from, &to);
                else if (to.is_region)
                        status = copy_in(from.text, &to);
                else if (from.is_region)
                        status = copy_out(&from, to.text);
                else
                        status = cli_usage_error("neither %s nor %s is a region (rgn_…): use cp", from.text, to.text);
        }
        worker_close(&from.worker);
        worker_close(&to.worker);
        return status;
}
