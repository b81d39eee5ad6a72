/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli.h"

/* One request; the body of a good answer goes to fd as it comes. An exit status. */
int http_perform(struct cli *cli, const struct ferry_exchange *exchange, const char *path, int fd);

/* A ferry_source of the descriptor that context points to. */
ssize_t http_read(void *context, void *buffer, size_t size);

#endif
