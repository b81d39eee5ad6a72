/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LISTENER_H
#define LOCAL_LISTENER_H

#include "channel.h"

/* Takes in the connections of peers. The progress thread. */

/* 0; -errno, logged. */
int listener_open(struct local *local);
/* Takes in who waits. Rests until local->accept_at_us when no descriptor is left. */
void listener_accept(struct local *local);
/* The rest is over. */
void listener_resume(struct local *local);
/* No peer finds this worker any more. */
void listener_close(struct local *local);

#endif
