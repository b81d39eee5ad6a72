/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_THREAD_H
#define TRANSFER_THREAD_H

struct engine;

/* The engine's own thread. 0 or -errno. It ends after a STOP. */
int thread_start(struct engine *engine);

#endif
