/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/clock.h>

#include "cli.h"

/*
 * ferry bench: reads of growing size from another worker, each measured as a program would see it (offer to done) and
 * as the worker measures the bytes alone. The median counts. One region on each worker serves all sizes; both are
 * removed however the command ends (job_end).
 */

enum {
        BENCH_ROUNDS = 200, /* of one size at most */
        BENCH_LEAST = 5,
        BENCH_MS = 400, /* time for one size, if the rounds are slow */
        BENCH_WAIT_MS = 30000,
};

static const uint64_t bench_sizes[] = { 4096, 65536, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30 };
static const uint64_t bench_largest = 64 << 20;

struct bench {
        struct cli *cli;
        struct cli_worker peer;
        struct job theirs, ours; /* the regions */
        uint64_t cycle_us[BENCH_ROUNDS], bytes_us[BENCH_ROUNDS];
        size_t rounds;
        char transport[64];
        struct json_object *report; /* with --json: an array */
        bool titled;
};

/* One round: an offer there, a read here, until it is done. */
static int bench_round(struct bench *b, uint64_t size)
{
        struct job offer = { .cli = b->cli, .worker = &b->peer }, read = { .cli = b->cli, .worker = &b->cli->worker };
        struct ferry_operation_spec readable = { .kind = FERRY_READABLE, .include_metadata = true };
        struct ferry_operation_spec spec = { .kind = FERRY_READ, .wait_ms = BENCH_WAIT_MS };
        uint64_t start = ferry_clock_us();
        int status = job_make_operation(&offer, &readable, b->theirs.region.id, size);
        spec.remote_metadata = offer.operation.metadata;
        if (status == CLI_OK)
                status = job_make_operation(&read, &spec, b->ours.region.id, size);
        uint64_t end = ferry_clock_us();
        if (status == CLI_OK)
                status = job_wait(&read);
        if (status == CLI_OK) {
                b->cycle_us[b->rounds] = end - start;
                b->bytes_us[b->rounds++] = read.operation.duration_us;
                snprintf(b->transport, sizeof(b->transport), "%s", read.operation.transport);
                cli_mask_controls(b->transport);
        }
        job_end(&read);
        job_end(&offer);
        return status;
}

static int bench_compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return x < y ? -1 : x > y;
}

/* A line of the table, or an object of the report: the medians of the rounds, in µs. */
static int bench_print(struct bench *b, uint64_t size)
{
        char bytes[32], rate[32];
        qsort(b->cycle_us, b->rounds, sizeof(*b->cycle_us), bench_compare);
        qsort(b->bytes_us, b->rounds, sizeof(*b->bytes_us), bench_compare);
        uint64_t cycle = b->cycle_us[b->rounds / 2], alone = b->bytes_us[b->rounds / 2];
        double per_second = (double)size * 1e6 / (double)(alone ? alone : 1);
        cli_bytes_format(bytes, sizeof(bytes), (double)size);
        cli_bytes_format(rate, sizeof(rate), per_second);
        if (b->report) {
                struct json_object *row = json_object_new_object();
                json_object_object_add(row, "size", json_object_new_int64((int64_t)size));
                json_object_object_add(row, "transport", json_object_new_string(b->transport));
                json_object_object_add(row, "cycle_us", json_object_new_int64((int64_t)cycle));
                json_object_object_add(row, "transfer_us", json_object_new_int64((int64_t)alone));
                json_object_object_add(row, "bytes_per_second", json_object_new_int64((int64_t)per_second));
                json_object_object_add(row, "rounds", json_object_new_int64((int64_t)b->rounds));
                json_object_array_add(b->report, row);
                return CLI_OK;
        }
        if (!b->titled)
                printf("%10s  %14s  %14s  %14s  %s\n", "SIZE", "OFFER TO DONE", "BYTES ALONE", "RATE", "TRANSPORT");
        b->titled = true;
        printf("%10s  %11" PRIu64 " us  %11" PRIu64 " us  %12s/s  %s\n", bytes, cycle, alone, rate, b->transport);
        return cli_flush();
}

static int bench_size(struct bench *b, uint64_t size)
{
        b->rounds = 0;
        int status = bench_round(b, size); /* the first round connects, and touches the pages */
        uint64_t end = ferry_clock_ms() + BENCH_MS;
        b->rounds = 0;
        while (status == CLI_OK && b->rounds < BENCH_ROUNDS && (b->rounds < BENCH_LEAST || ferry_clock_ms() < end))
                status = bench_round(b, size);
        return status == CLI_OK ? bench_print(b, size) : status;
}

/* All sizes of the table that are below the largest, and the largest. */
static int bench_run(struct bench *b, uint64_t largest)
{
        int status = job_make_region(&b->theirs, largest, NULL);
        if (status == CLI_OK)
                status = job_make_region(&b->ours, largest, NULL);
        for (size_t i = 0; status == CLI_OK && i < FERRY_ARRAY_SIZE(bench_sizes); i++) {
                if (bench_sizes[i] < largest)
                        status = bench_size(b, bench_sizes[i]);
        }
        if (status == CLI_OK)
                status = bench_size(b, largest);
        return status == CLI_OK && b->report ? table_print_document(b->report) : status;
}

int cli_run_bench(struct cli *cli, int argc, char **argv)
{
        struct bench *b = calloc(1, sizeof(*b));
        if (!b)
                return cli_usage_error("memory is short");
        b->cli = cli;
        b->report = cli->json ? json_object_new_array() : NULL;
        b->theirs = (struct job){ .cli = cli, .worker = &b->peer };
        b->ours = (struct job){ .cli = cli, .worker = &cli->worker };
        progress_allow(false); /* the table shows the progress */
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = cli_worker_named(cli, argv[1], WORKER_ITSELF, &b->peer);
        if (status == CLI_OK)
                status = bench_run(b, cli->size ? cli->size : bench_largest);
        job_end(&b->ours);
        job_end(&b->theirs);
        worker_close(&b->peer);
        json_object_put(b->report);
        free(b);
        return status;
}
