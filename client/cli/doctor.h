/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli.h"

/* A finding of ferry doctor: a sentence, and the command that fixes it. */

enum finding_level {
        FINDING_GOOD,
        FINDING_NOTE, /* it works, something could be better */
        FINDING_BAD,  /* it does not work */
};

struct doctor {
        struct cli *cli;
        struct ferry_worker_info worker;
        struct json_object *devices;  /* the answer */
        pid_t pid;                    /* of our worker, when it runs here, else 0 */
        struct json_object *findings; /* with --json */
        size_t bad;
};

/* doctor_host.c: one of them; fix NULL = nothing to mend. */
void doctor_find(struct doctor *d, enum finding_level level, const char *fix, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* This machine. */
void doctor_memory(struct doctor *d);
void doctor_interfaces(struct doctor *d);

/* The interface that leads to an address, and its MTU. false: none does. */
bool doctor_route(const char *host, const char *port, char *interface, size_t size, int *ret_mtu);

/* Whether host:port takes a TCP connection within 3 s. 0 or -errno. */
int doctor_reach(const char *host, const char *port);

/* Whether a worker runs here. */
bool doctor_is_here(const struct ferry_worker_info *worker, const char *url);

#endif
