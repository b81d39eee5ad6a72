/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_ARRIVAL_H
#define TRANSFER_ARRIVAL_H

struct engine;
struct transport_handlers;

/* What transports hand up: messages, links that peers open, links that have ended. */
struct transport_handlers arrival_handlers(struct engine *engine);

#endif
