/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

/* Kind of an operation. The passive ones offer memory, the active ones move the bytes. */
enum ferry_kind {
        FERRY_READABLE = 0, /* passive: a peer's read takes bytes from it */
        FERRY_READ = 1,     /* active: pairs with readable */
        FERRY_WRITABLE = 2, /* passive: a peer's write puts bytes into it */
        FERRY_WRITE = 3,    /* active: pairs with writable */
        FERRY_KIND_COUNT
};

/* Status of an operation, as nixl_connect names them. The last three are terminal. */
enum ferry_status {
        FERRY_UNINITIALIZED = 0,
        FERRY_INITIALIZED = 1,
        FERRY_IN_PROGRESS = 2,
        FERRY_COMPLETE = 3,
        FERRY_CANCELLED = 4,
        FERRY_ERRORED = 5,
        FERRY_STATUS_COUNT
};

/* How the descriptor lists of the two sides must match. */
enum ferry_layout {
        FERRY_LAYOUT_PAIRWISE = 0, /* same number of descriptors, same sizes in the same order */
        FERRY_LAYOUT_STREAM = 1,   /* same total */
        FERRY_LAYOUT_COUNT
};

#ifdef __cplusplus
extern "C" {
#endif

/* Part of the libraries' interface, which are built with hidden visibility. */
#pragma GCC visibility push(default)

/* Returns the name in JSON ("readable", "IN_PROGRESS", "pairwise"); NULL for a value outside the enum. Any thread. */
const char *ferry_kind_name(int kind);
const char *ferry_status_name(int status);
const char *ferry_layout_name(int layout);

/* Returns the value of a name; -1 for NULL and unknown names. Case matters. Any thread. */
int ferry_kind_from_name(const char *name);
int ferry_status_from_name(const char *name);
int ferry_layout_from_name(const char *name);

/* Returns whether a kind offers memory (readable, writable). Any thread. */
int ferry_kind_is_passive(int kind);

/* Returns whether a status is final (COMPLETE, CANCELLED, ERRORED). Any thread. */
int ferry_status_is_terminal(int status);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
