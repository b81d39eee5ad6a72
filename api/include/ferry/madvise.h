/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_MADVISE_H
#define FERRY_MADVISE_H

#include <sys/mman.h>

/* Advice that the kernel takes from Linux 5.14 and 6.1 on, and that Debian 12's headers do not name. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#endif
