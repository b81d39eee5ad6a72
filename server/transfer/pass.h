/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_PASS_H
#define TRANSFER_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct memory;

/* One round (pass) of the engine. Thread: the holder of the progress lock. */

/* Runs one pass. Whether anything moved. */
bool pass_run(struct engine *engine, uint64_t *ret_now_us);
/* Whether the engine has a requester, a responder or a connect request. */
bool pass_is_moving(const struct engine *engine);
/* Next deadline, if no event comes; UINT64_MAX = none. */
uint64_t pass_deadline(const struct engine *engine, uint64_t now_us);
/* Whether the next pass has work already. */
bool pass_is_pending(const struct engine *engine);
/* Ends peers' access to memory. */
void pass_deregister_memory(struct engine *engine, struct memory *memory);

#endif
