/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SIZES_H
#define CLIENT_SIZES_H

#include <stddef.h>

struct ferry;

/* Copies of public structs between the layout of the program and ours. See <ferry/sizes.h>. */

/* Copies a result: what ours lacks becomes zero, what theirs lacks is left out. Pure. */
void sizes_give(void *theirs, size_t their_size, const void *ours, size_t our_size);

/* The same backwards, for what ours owns: what was given is zeroed, so that clearing ours frees the rest. Pure. */
void sizes_give_up(void *theirs, size_t their_size, void *ours, size_t our_size);

/* Copies an argument. 0; -EINVAL when it is NULL; -ENOTSUP when it has a value beyond our size. f NULL = no handle to
 * tell why. */
int sizes_take(struct ferry *f, void *ours, size_t our_size, const void *theirs, size_t their_size);

/* Items of the program's size instead of ours, which are freed. 0; -ENOMEM, and *items is unchanged. */
int sizes_give_items(void **items, size_t n, size_t their_size, size_t our_size);

#endif
