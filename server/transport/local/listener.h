/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LISTENER_H
#define LOCAL_LISTENER_H

#include "channel.h"

/* Takes in the connections of peers. The progress thread. */

/* 0; -errno, logged. */
int local_listener_open(struct local *local);
/* Takes in who waits. Rests until local->accept_at_us when no descriptor is left. */
void local_listener_accept(struct local *local);
/* The rest is over. */
void local_listener_resume(struct local *local);
/* No peer finds this worker any more. */
void local_listener_close(struct local *local);

#endif
