/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REQUEST_SIZE_H
#define REQUEST_SIZE_H

#include <stdlib.h>
#include <string.h>

/* The size of the HTTP request that text begins with, its body by Content-Length; 0 = its head is not whole. */
static inline size_t request_size(const char *text)
{
        const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\ncontent-length:");

        if (!end)
                return 0;
        return (size_t)(end + 4 - text) + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
}

#endif
