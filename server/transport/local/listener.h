/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LISTENER_H
#define LOCAL_LISTENER_H

#include "channel.h"

/* Accepts connections of peers. The progress thread. */

/* 0; -errno, logged. */
int local_listener_open(struct local *local);
/* Accepts waiting connections. Pauses until local->accept_at_us when no descriptor is left. */
void local_listener_accept(struct local *local);
/* Ends the pause. */
void local_listener_resume(struct local *local);
/* Stops listening: no peer finds this worker any more. */
void local_listener_close(struct local *local);

#endif
