/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <ferry/worker.h>

/*
 * "sim_owner SIZE": a program with a worker inside that offers SIZE bytes of its own, which are no file. Prints the
 * worker's ready line and the region's id; lives until SIGTERM.
 */

int main(int argc, char **argv)
{
        struct ferry_worker_options *options = ferry_worker_options_new();
        size_t size = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
        struct ferry_worker *worker;
        char id[FERRY_WORKER_ID_SIZE];
        sigset_t term;
        int number;
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        (void)sigemptyset(&term);
        (void)sigaddset(&term, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &term, NULL);
        if (memory == MAP_FAILED || !options || ferry_worker_options_set(options, "listen", "127.0.0.1:0") != 0 ||
            ferry_worker_new(options, &worker) != 0 ||
            ferry_worker_region_add(worker, memory, size, "cpu", "own", id) != 0)
                return EXIT_FAILURE;
        (void)printf("%s\n%s\n", ferry_worker_ready_line(worker), id);
        (void)fflush(stdout);
        (void)sigwait(&term, &number);
        (void)ferry_worker_free(worker);
        (void)ferry_worker_options_free(options);
        return EXIT_SUCCESS;
}
