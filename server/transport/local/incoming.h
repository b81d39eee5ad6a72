/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_INCOMING_H
#define LOCAL_INCOMING_H

#include "channel.h"

/* Handles the datagrams that arrive. */

/* Reads and handles a bounded number of datagrams. Whether there was any. */
bool incoming_read(struct channel *channel);

#endif
