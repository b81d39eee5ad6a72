/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H

#include "harness.h"

/* The process has been reaped: no test kills it. */
void worker_forget(pid_t pid);

#endif
