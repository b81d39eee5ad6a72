/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_OPENING_H
#define LOCAL_OPENING_H

#include "channel.h"

/* Memory of GPUs that a peer has lent: a thread of the copier opens it, which may take long. The progress thread. */

/* share: a struct gpu_share, of any alignment. The peer is told what came of it. 0; otherwise as mappings_add. */
int opening_new(struct channel *channel, uint64_t id, uint64_t size, const void *share);

/* Of struct mappings: closes it on a thread, and tells the peer then. */
void opening_close(struct mappings *mappings, uint64_t id, const struct space *space);
/* The link has failed: those that are being opened end after that. */
void openings_end(struct channel *channel);

#endif
