/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_INCOMING_H
#define LOCAL_INCOMING_H

#include "channel.h"

/* The receiver's part: what datagrams mean. */

/* Reads and handles what has come, up to a bound. Whether anything had. */
bool incoming_read(struct channel *channel);

#endif
