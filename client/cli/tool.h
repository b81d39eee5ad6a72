/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOOL_H
#define CLI_TOOL_H

#include <stddef.h>

/*
 * Runs a program of ours, which lies beside this one or in PATH, with our standard error. What it prints, at most max
 * bytes, for ferry_secret_free(). Its exit status, which is one of ours; CLI_USAGE when it is not installed.
 */
int tool_output(const char *name, const char *const *argv, size_t max, char **ret_output);

#endif
