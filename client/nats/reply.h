/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATS_REPLY_H
#define NATS_REPLY_H

#include <stddef.h>

/* What a bridge answers, as far as it can be believed: anybody may answer on a bus. Pure; needs no NATS. */

enum {
        REPLY_MAX = 8 << 20, /* longer ones are no metadata */
        REPLY_CODE_SIZE = 64,
};

enum reply {
        REPLY_METADATA, /* an object with the four keys, which is JSON to the letter; whoever reads it checks the rest
                         */
        REPLY_PROBLEM,  /* refused, with a code of lower-case letters, digits and '-' */
        REPLY_NONSENSE,
};

/* code is set with REPLY_PROBLEM. */
enum reply reply_read(const char *data, size_t size, char code[REPLY_CODE_SIZE]);

#endif
