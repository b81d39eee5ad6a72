/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REF_UCX_H
#define REF_UCX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/*
 * Two processes with one wire between them and nothing else: what it gives when nobody asks for REST, checks or
 * progress. "tcp": a UCX worker each, configured as Ferry's. "socket": a Unix socket (SOCK_SEQPACKET), for messages
 * that fit inside one datagram. The active process (the parent) is told sizes on standard input and answers seconds;
 * between runs both sleep, so that they disturb nobody; during one, both spin.
 */

enum { REF_HANDLERS = 4, REF_HEADER = 112 /* bytes of a message before its payload, as Ferry has */ };

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
        int socket; /* to the other process, for the start and the end of runs */
        int wire;   /* to the other process, for messages; not of the network */
        ucp_am_recv_callback_t handlers[REF_HANDLERS];
        struct ref_shared *shared;
        ucp_context_h context;
        ucp_worker_h worker;
        ucp_ep_h endpoint; /* to the other process */
        uint8_t *memory;   /* as a region's; registered */
        ucp_mem_h registration;
        uint64_t memory_size;
};

struct ref_test {
        uint64_t features;
        void (*setup)(struct ref_ucx *u);              /* both sides, before they connect */
        void (*begin)(struct ref_ucx *u);              /* passive side, before a run */
        void (*run)(struct ref_ucx *u, uint64_t size); /* active side; what is timed */
        unsigned repeats;                              /* that one run makes, whose mean is told; 0 = 1 */
        bool polite;                                   /* the passive side lets others run at each look */
};

_Noreturn void ref_fail(const char *what, ucs_status_t status);
/* Waits for the result of an _nbx call. */
void ref_finish(struct ref_ucx *u, ucs_status_ptr_t request);
/* callback gets u, and messages as a whole. */
void ref_set_handler(struct ref_ucx *u, unsigned id, ucp_am_recv_callback_t callback);
/* Nobody waits for its end; the memory stays as it is. Also from a handler. */
void ref_send(struct ref_ucx *u, unsigned id, const void *data, size_t size);
/* Takes what has come: how much that was. */
unsigned ref_progress(struct ref_ucx *u);

/* A bare round trip: a head is sent, a head and as many bytes as the run's size come into the memory. */
enum { REF_TRIP_HANDLERS = 3 }; /* ids below are its own */
void ref_trip_setup(struct ref_ucx *u);
/* polite: lets others run where nothing has come. */
void ref_trip(struct ref_ucx *u, bool polite);

/* "PROGRAM tcp|socket MAX_SIZE" */
int ref_main(int argc, char **argv, const struct ref_test *test);

#endif
