/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include <ferry/worker.h>

/* The interface between libferry-worker and ferryd, beyond the public header. */

/* As ferry_worker_new, with parsed options, but -EINVAL where they are at fault. */
int worker_new(const struct ferry_worker_options *options, struct ferry_worker **ret_worker);

/*
 * Reloads the files of tokens and certificates, for new requests and connections. 0; -errno with a sentence in
 * ferry_worker_error(), and what was in use before stays in use. One thread at a time.
 */
int worker_reload(struct ferry_worker *worker);

#endif
