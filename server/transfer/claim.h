/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_CLAIM_H
#define TRANSFER_CLAIM_H

struct engine;
struct peer;
struct responder;
struct wire_header;

/*
 * The responder of a request, claimed of the operations when it is the first of its transfer. 0, or the FERRY_E_* to
 * answer. Thread: who holds the progress lock.
 */
int claim_find(struct engine *engine, struct peer *peer, const struct wire_header *header, struct responder **ret);

#endif
