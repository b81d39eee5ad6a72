/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "worker.h"

/*
 * "sim_owner SIZE": a program with a worker inside that offers SIZE bytes of its own, which are no file. Prints the
 * worker's ready line and the region's id; lives until SIGTERM.
 */

int main(int argc, char **argv)
{
        static const char *const listen[] = { "127.0.0.1:0" };
        const struct ferry_worker_options options = { .listen = listen, .n_listen = 1 };
        size_t size = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
        struct ferry_worker *worker;
        char message[256], id[FERRY_WORKER_ID_SIZE];
        sigset_t term;
        int number;
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        (void)sigemptyset(&term);
        (void)sigaddset(&term, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &term, NULL);
        log_setup(LOG_WARN, LOG_LOGFMT);
        if (memory == MAP_FAILED || ferry_worker_new(&options, &worker, message, sizeof(message)) != 0 ||
            ferry_worker_region_add(worker, memory, size, "cpu", "own", id) != 0)
                return EXIT_FAILURE;
        (void)printf("%s\n%s\n", ferry_worker_ready_line(worker), id);
        (void)fflush(stdout);
        (void)sigwait(&term, &number);
        (void)ferry_worker_free(worker);
        return EXIT_SUCCESS;
}
