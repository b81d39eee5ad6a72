/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESPONDER_CLAIM_H
#define TRANSFER_RESPONDER_CLAIM_H

struct engine;
struct peer;
struct responder;
struct wire_header;

/*
 * Finds the responder of a request; the first request of a transfer claims the operation and makes one. 0, or the
 * FERRY_E_* to answer. Thread: the holder of the progress lock.
 */
int responder_claim(struct engine *engine, struct peer *peer, const struct wire_header *header, struct responder **ret);

#endif
