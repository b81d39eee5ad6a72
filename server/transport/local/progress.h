/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_PROGRESS_H
#define LOCAL_PROGRESS_H

#include "channel.h"

/* One round of the transport: events, timers, copies, the end of failed links. The progress thread. */

/* Of struct transport_ops. */
bool local_progress(struct transport *transport);
bool local_arm(struct transport *transport);
uint64_t local_deadline(const struct transport *transport);

/* Ends the links that have failed, once nothing touches memory for them. Whether there were any. */
bool local_end_failed(struct local *local);
/* Collects the tasks that the copier has run, and clears copied_fd. */
void local_collect_copies(struct local *local);

#endif
