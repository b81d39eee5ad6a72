/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LINK_PAGE_H
#define LOCAL_LINK_PAGE_H

#include "frame.h"
#include "mailbox.h"
#include "wire/lease.h"

/* What the peer of a link maps read-only: FRAME_HELLO carries its descriptor. Its owner alone writes it. */
struct link_page {
        struct lease_slot leases[FRAME_LEASES];
        struct mailbox mailbox;
};

#endif
