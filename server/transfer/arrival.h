/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_ARRIVAL_H
#define TRANSFER_ARRIVAL_H

struct engine;
struct transport_handlers;

/* The transports' callbacks: messages, links opened by peers, ended links. */
struct transport_handlers arrival_handlers(struct engine *engine);

#endif
