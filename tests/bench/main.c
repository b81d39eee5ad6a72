/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "bench_internal.h"

bool bench_full;

static const struct {
        const char *name;
        void (*run)(void);
        const char *what;
} measurements[] = {
        { "bulk", bench_bulk, "256 MiB through the whole REST cycle, beside memcpy and bare UCX" },
        { "sizes", bench_sizes, "throughput over size, for the plot" },
        { "bytes", bench_bytes, "4 KiB on one host, the bytes alone, beside a bare Unix socket" },
        { "own", bench_own, "256 MiB out of memory that an embedding program owns, beside memcpy" },
        { "writes", bench_writes, "network writes beside reads, the bytes alone, over size" },
        { "threads", bench_threads, "local copies with --copy-threads 2 beside none" },
        { "small", bench_small, "4 KiB: three HTTP calls beside one GET /livez" },
        { "inside", bench_inside, "4 KiB between programs with a worker inside, from C and from asyncio" },
        { "nixl", bench_nixl, "4 KiB and 256 MiB on one host beside NIXL, where its wheel is installed" },
        { "wait", bench_wait, "from the last byte to the answer of who waits" },
        { "scatter", bench_scatter, "many descriptors beside one" },
        { "scale", bench_scale, "many live operations and parked waits: time and memory" },
        { "peers", bench_peers, "endpoints of many peers: a small transfer, a first connection, memory" },
        { "many", bench_many, "64 transfers at once: fairness, and throughput beside one" },
        { "batch", bench_batch, "64 reads of 4 KiB by one batch, beside two calls for each" },
        { "interference", bench_interference, "a small operation during a bulk transfer" },
        { "control", bench_control, "requests a second beside a bare libmicrohttpd" },
        { "idle", bench_idle, "CPU time of workers that have nothing to do" },
        { "start", bench_start, "time to the ready line, idle memory, the first transfer beside later ones" },
        { "regions", bench_regions, "large regions beside bare page faults, and what other clients notice" },
        { "fetch", bench_fetch, "ferry fetch of 1 GiB into a file in memory beside cp" },
        { "content", bench_content, "an operation's bytes over HTTP beside a download from a bare libmicrohttpd" },
        { "references", bench_references, "bare UCX beside ucx_perftest and iperf3: are the references good?" },
};

void bench_fail(const char *format, ...)
{
        va_list arguments;

        (void)fflush(stdout);
        (void)fputs("bench: ", stderr);
        va_start(arguments, format);
        (void)vfprintf(stderr, format, arguments);
        va_end(arguments);
        (void)fputc('\n', stderr);
        _exit(processes_end());
}

void bench_check(struct ferry *f, int result, const char *what)
{
        if (result != 0)
                bench_fail("%s: %s (%d)", what, ferry_last_message(f), result);
}

unsigned rounds(unsigned quick, unsigned full)
{
        return bench_full ? full : quick;
}

int main(int argc, char **argv)
{
        struct rlimit files;
        const size_t n = sizeof(measurements) / sizeof(measurements[0]);

        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
                for (size_t i = 0; i < n; i++)
                        (void)printf("%-14s%s\n", measurements[i].name, measurements[i].what);
                return EXIT_SUCCESS;
        }
        if (argc != 3 || (strcmp(argv[2], "quick") != 0 && strcmp(argv[2], "full") != 0))
                bench_fail("usage: ferry-bench MEASUREMENT quick|full; ferry-bench --list");
        bench_full = strcmp(argv[2], "full") == 0;
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        processes_init();
        for (size_t i = 0; i < n; i++) {
                if (strcmp(measurements[i].name, argv[1]) == 0) {
                        measurements[i].run();
                        return EXIT_SUCCESS;
                }
        }
        bench_fail("no measurement %s (see --list)", argv[1]);
}
