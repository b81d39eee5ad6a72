/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include <stddef.h>

#include <ferry/worker.h>

/* What libferry-worker and ferryd share beyond the public header. */

struct worker_options;

/*
 * ferry_worker_new with options that are parsed. 0 or -errno (-EINVAL: the options' fault); the reason is in message (a
 * sentence), which may be NULL.
 */
int worker_new(const struct worker_options *options, struct ferry_worker **ret_worker, char *message,
               size_t message_size);

/*
 * Reads the files of tokens and certificates anew, for new requests and connections. 0; -errno with a sentence in
 * message: everything is as it was. Not from two threads at once.
 */
int worker_reload(struct ferry_worker *worker, char *message, size_t message_size);

#endif
