/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_GPU_MAPPING_H
#define LOCAL_GPU_MAPPING_H

#include "channel.h"

/* Opens and closes a peer's GPU memory on the copier's threads, since it may take long. The progress thread. */

/* Starts to open; FRAME_MAPPED tells the peer the result. share: a struct gpu_share, of any alignment. As mappings_add.
 */
int gpu_mapping_open(struct channel *channel, uint64_t id, uint64_t size, const void *share);

/* struct mappings' close callback: closes on a thread, then tells the peer. */
void gpu_mapping_close(struct mappings *mappings, uint64_t id, const struct space *space);
/* The link has failed: closes open memory, and memory that is being opened once it is open. */
void gpu_mappings_end(struct channel *channel);

#endif
