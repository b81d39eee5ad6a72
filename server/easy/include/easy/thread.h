/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EASY_THREAD_H
#define EASY_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "easy/easy.h"

/*
 * libcurl's thread, "ferry-curl" to the kernel: it runs the multi interface for several users, which share its
 * connections. It starts with the first need: libcurl with its TLS library takes several milliseconds and 3 MiB, and
 * many workers never send a request. A worker has one, and one more for each GPU whose memory moves over HTTP.
 */

/* One of them. Both functions run on the thread. */
struct easy_user {
        /* Starts and ends requests, after each wake-up. Returns when to be called again, in microseconds of
         * CLOCK_MONOTONIC; UINT64_MAX = at the next wake-up or end of a request. */
        uint64_t (*run)(struct easy_user *user, uint64_t now_us);
        /* Ends all that is queued and runs: the thread ends. */
        void (*stop)(struct easy_user *user);
        struct easy_user *next; /* the thread's */
};

struct easy_thread {
        struct easy_multi multi; /* the thread's, but for curl_multi_wakeup */
        struct easy_user *users; /* fixed when it starts */
        atomic_bool stopping;
        pthread_mutex_t lock; /* guards what follows; before no other */
        pthread_t thread;
        bool started;
};

/* NULL: memory is short. */
struct easy_thread *easy_thread_new(void);
/* Before the thread starts. */
void easy_thread_add(struct easy_thread *thread, struct easy_user *user);
/* Starts it unless it runs. 0 or -errno; -ESHUTDOWN: it was stopped. Any thread. */
int easy_thread_start(struct easy_thread *thread);
/* Has its users called, if it runs. Any thread. */
void easy_thread_wake(struct easy_thread *thread);
/* Has its users stop, and joins it. May be repeated, by one thread at a time. */
void easy_thread_stop(struct easy_thread *thread);
/* Stops it if need be. Takes NULL; returns NULL. */
struct easy_thread *easy_thread_free(struct easy_thread *thread);

#endif
