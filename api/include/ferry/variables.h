/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_VARIABLES_H
#define FERRY_VARIABLES_H

#include <stddef.h>

/* The variables of the environment that Ferry's programs read, and names that were meant to be others. */

enum { FERRY_VARIABLE_SIZE = 48 };

extern const char *const ferry_variables[];
extern const size_t ferry_variables_count;

/*
 * Calls complain for each variable of the environment that begins with FERRY_, is none of these and close to one, which
 * it may have meant. A variable close to none is somebody else's.
 */
void ferry_variables_check(void (*complain)(const char *wrong, const char *near));

/* The closest of n names to a wrong one; the strings are stride bytes apart. NULL = none is close. */
const char *ferry_suggest(const char *wrong, const char *const *names, size_t n, size_t stride);

#endif
