/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include <stddef.h>

#include <ferry/worker.h>

/* The interface between libferry-worker and ferryd, beyond the public header. */

struct worker_options;

/*
 * As ferry_worker_new, with parsed options. 0 or -errno (-EINVAL: the options' fault) with a sentence in message, which
 * may be NULL.
 */
int worker_new(const struct worker_options *options, struct ferry_worker **ret_worker, char *message,
               size_t message_size);

/*
 * Reloads the files of tokens and certificates, for new requests and connections. 0; -errno with a sentence in message,
 * and what was in use before stays in use. One thread at a time.
 */
int worker_reload(struct ferry_worker *worker, char *message, size_t message_size);

#endif
