/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REF_UCX_H
#define REF_UCX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/*
 * Two processes with one UCX worker each and nothing else: what the wire gives when nobody asks for REST, checks or
 * progress. Configured as Ferry's own sides are. The active process (the parent) is told sizes on standard input and
 * answers seconds; between runs both sleep, so that they disturb nobody; during one, both spin.
 */

/* Shared by both processes. */
struct ref_shared {
        atomic_uint running; /* number of the run that is on; 0 = none */
        atomic_bool ready;
        uint64_t size; /* of the run */
        uint64_t address;
        size_t key_size;
        uint8_t key[512];
};

struct ref_ucx {
        bool network, active;
        int socket; /* to the other process */
        struct ref_shared *shared;
        ucp_context_h context;
        ucp_worker_h worker;
        ucp_ep_h endpoint; /* to the other process */
        uint8_t *memory;   /* shared file, pre-faulted, registered */
        ucp_mem_h registration;
        uint64_t memory_size;
};

struct ref_test {
        uint64_t features;
        void (*setup)(struct ref_ucx *u);              /* both sides, before they connect */
        void (*begin)(struct ref_ucx *u);              /* passive side, before a run */
        void (*run)(struct ref_ucx *u, uint64_t size); /* active side; what is timed */
        bool polite;                                   /* the passive side lets others run at each look */
};

_Noreturn void ref_fail(const char *what, ucs_status_t status);
/* Waits for the result of an _nbx call. */
void ref_finish(struct ref_ucx *u, ucs_status_ptr_t request);
/* callback gets u, and messages as a whole. */
void ref_set_handler(struct ref_ucx *u, unsigned id, ucp_am_recv_callback_t callback);
/* "PROGRAM tcp|posix MAX_SIZE" */
int ref_main(int argc, char **argv, const struct ref_test *test);

#endif
