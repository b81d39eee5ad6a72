/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ETCD_H
#define TESTS_ETCD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A real etcd on loopback for tests, dead with them. Every function asserts; none returns an error. One thread. */

struct etcd {
        pid_t pid; /* 0 = not running */
        uint16_t port;
        int held[2];         /* the sockets that hold its ports */
        char url[48];        /* as --registry takes it */
        const char *tls;     /* folder with ca.pem, server.pem and server-key.pem, borrowed; NULL = it has no TLS */
        char secure_url[48]; /* with TLS, for clients whose certificate ca.pem vouches for */
        char directory[40];
};

/* false, after one line that says so: this machine has no etcd. */
bool etcd_is_here(void);

/* Starts one with an empty store, and waits until it answers. tls: as in struct etcd. */
void etcd_start(struct etcd *etcd, const char *tls);

/* Kills it (SIGKILL). */
void etcd_kill(struct etcd *etcd);

/* Starts it again at the same port, with what it had stored, or with nothing. */
void etcd_start_again(struct etcd *etcd, bool empty);

/* It takes connections and answers nothing (SIGSTOP), as behind a network that loses everything. */
void etcd_pause(struct etcd *etcd);
void etcd_resume(struct etcd *etcd);

/* Kills it and removes its store. Takes one that was not started. */
void etcd_clean(struct etcd *etcd);

/* The body of the answer to one POST. */
const char *etcd_ask(const struct etcd *etcd, const char *path, const char *body);

#endif
