/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "cli.h"

/* The offer of another worker, from its metadata. */
struct remote {
        struct cli_worker worker;
        char *metadata;            /* a secret */
        uint64_t size;             /* of all descriptors, or of the parts */
        struct ferry_range *parts; /* that --remote names; owned; NULL = all of it */
        size_t n_parts;
};

/*
 * Fetches the metadata of a passive operation of the kind, FERRY_READABLE or FERRY_WRITABLE, FERRY_KIND_COUNT = either,
 * and takes the parts that --remote names. An exit status. remote_clear in any case.
 */
int remote_fetch(struct cli *cli, const char *text, enum ferry_kind kind, struct remote *ret_remote);
void remote_clear(struct remote *remote);

#endif
