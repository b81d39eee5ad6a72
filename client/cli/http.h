/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "content.h"

/*
 * One request; the body of a good answer goes to output as it comes, NULL = standard output. A source's context is a
 * struct content_stream. An exit status.
 */
int http_perform(struct cli *cli, const struct ferry_exchange *exchange, const char *path,
                 const struct content_output *output);

#endif
