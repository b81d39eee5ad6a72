/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_internal.h"

/* Runs sim_peers, whose output is ours. It is a program of its own because UCX is nothing for the others to load. */

enum { FEW = 100, NEW_A_ROUND = 8, FILES_A_PEER = 16 };

static void run_side(const char *side, unsigned many, unsigned n)
{
        char path[4096], few_text[16], many_text[16], n_text[16];
        const char *const arguments[] = { path, side, few_text, many_text, n_text, NULL };
        int status;

        program_path("sim_peers", path, sizeof(path));
        (void)snprintf(few_text, sizeof(few_text), "%d", FEW);
        (void)snprintf(many_text, sizeof(many_text), "%u", many);
        (void)snprintf(n_text, sizeof(n_text), "%u", n);
        status = finish(spawn(arguments, -1, STDOUT_FILENO));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                bench_fail("sim_peers ended with status %#x", (unsigned)status);
}

void bench_peers(void)
{
        unsigned n = rounds(5, 11), many = bench_full ? 1000 : 300;
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < many / 4 * FILES_A_PEER)
                bench_fail("%u simulated peers need %u open files a process, and only %llu are allowed: raise the hard "
                           "limit (ulimit -Hn, LimitNOFILE=)",
                           many, many / 4 * FILES_A_PEER, (unsigned long long)files.rlim_cur);
        note("peers: %u to %u connected peers against %d to %u", many, many + n * NEW_A_ROUND, FEW,
             FEW + n * NEW_A_ROUND);
        run_side("local", many, n);
        run_side("network", many, n);
}
