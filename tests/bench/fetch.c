/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_internal.h"

/* ferry fetch into a file in memory, beside cp of a file there. */

enum { TRIES = 3 }; /* a round's figures are the quickest of these; regions.c tells why */

static void run_to_end(const char *const *arguments)
{
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC), status = finish(spawn(arguments, -1, null));

        (void)close(null);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                bench_fail("%s %s ended with status %#x", arguments[0], arguments[1], (unsigned)status);
}

/* The ferry of this build; its process too is part of what is measured. */
static double fetch_once(const struct pair *p, const char *region, const char *file)
{
        const struct ferry_descriptor from = { .region = region };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1 };
        char program[4096], url[512];
        struct ferry_operation offer;

        program_path("../../ferry", program, sizeof(program));
        bench_check(p->a.client, ferry_create_operation(p->a.client, &spec, &offer), "offer");
        (void)snprintf(url, sizeof(url), "%s/v1/operations/%s/metadata", p->a.url, offer.id);
        uint64_t start = now_ns();
        run_to_end((const char *const[]){ program, "fetch", url, "-o", file, "-u", p->b.url, NULL });
        double seconds = seconds_since(start);
        bench_check(p->a.client, ferry_delete_operation(p->a.client, offer.id), "delete the offer");
        ferry_operation_clear(&offer);
        return seconds;
}

static double copy_once(const char *source, const char *file)
{
        uint64_t start = now_ns();

        run_to_end((const char *const[]){ "cp", source, file, NULL });
        return seconds_since(start);
}

static void fetch_round(const struct pair *p, const char *region, const char *source, const char *file)
{
        double copied_s = 0, fetched_s = 0;

        for (int i = 0; i < TRIES; i++) {
                double seconds = copy_once(source, file);

                (void)unlink(file);
                copied_s = i == 0 || seconds < copied_s ? seconds : copied_s;
                seconds = fetch_once(p, region, file);
                (void)unlink(file);
                fetched_s = i == 0 || seconds < fetched_s ? seconds : fetched_s;
        }
        sample("s", copied_s, "fetch.cp");
        sample("s", fetched_s, "fetch.ferry");
}

void bench_fetch(void)
{
        unsigned n = rounds(3, 7);
        uint64_t size = GIB;
        char directory[] = "/dev/shm/ferry-bench-XXXXXX", source[64], file[64];
        struct region region;
        struct pair p;

        while (size > MIB && size * 5 > memory_available())
                size /= 2;
        if (size != GIB)
                note("fetch: of %llu MiB only, for lack of memory", (unsigned long long)(size / MIB));
        if (!mkdtemp(directory))
                bench_fail("no directory in /dev/shm");
        (void)snprintf(source, sizeof(source), "%s/source", directory);
        (void)snprintf(file, sizeof(file), "%s/file", directory);
        pair_start(&p, false, NULL);
        region_create(p.a.client, size, &region);
        region_map(&region);
        memset(region.memory, 7, size);
        (void)fetch_once(&p, region.info.id, source); /* connects, and is what cp copies */
        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                fetch_round(&p, region.info.id, source, file);
        }
        (void)unlink(source);
        (void)rmdir(directory);
        pair_stop(&p);
}
