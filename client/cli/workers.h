/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WORKERS_H
#define CLI_WORKERS_H

#include "cli.h"

/* The base URL of a worker, as the registry of the worker of --url says, for free(). An exit status. */
int workers_url(struct cli *cli, const char *name, char **ret_url);

#endif
