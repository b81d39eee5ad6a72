/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

/*
 * The processors that this process may keep busy, at least 1: those of its affinity, but no more than the processor
 * time that its control group and the groups above it allow, rounded up. Any thread.
 */
unsigned processors_allowed(void);

/*
 * The time that the control group of a file like /proc/self/cgroup and the groups above it allow below root (a mount of
 * cgroup v2, or of the cpu controller of v1), in processors. UINT_MAX = there is no limit.
 */
unsigned processors_of_group(const char *group_file, const char *root);

#endif
