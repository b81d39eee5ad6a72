/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_DIRECTORY_H
#define LOCAL_DIRECTORY_H

/* A directory for sockets of the local transport, which goes with the program. */
const char *local_directory(void);

#endif
