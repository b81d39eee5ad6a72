/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_NOTICE_H
#define MOVE_NOTICE_H

#include "message/header.h"
#include "move/engine.h"
#include "peer.h"

/*
 * Notices, by which the holder of an operation's metadata declines the operation or asks for more time. connect.c sends
 * those of this worker. Thread: the holder of the progress lock.
 */

/* Answers a DECLINE or a RENEW. */
void notice_on_request(struct peer *peer, const struct wire_header *header, struct payload *payload);

/* Sends a notice; the NOTICE_ACK has its transfer. */
void notice_send(struct peer *peer, uint64_t to_epoch, const struct engine_notice *notice);

/* The error that a NOTICE_ACK has as its status; one that no worker sends counts as a refusal. 0 = none. Pure. */
int notice_error(uint32_t status);

#endif
