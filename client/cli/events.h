/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include "cli.h"

struct json_object;

enum { EVENTS_WAIT_MS = 10000 }; /* of one request; how late a worker that has stopped is noticed, too */

/*
 * Gets a page of the events after one (NULL = from the oldest kept), filtered by --label if given, for
 * json_object_put(). Waits up to wait_ms for the first. Returns an exit status.
 */
int events_page(struct cli *cli, const char *after, unsigned wait_ms, struct json_object **ret_page);

#endif
