/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "cli.h"

bool cli_host_port(const char *text, char *host, size_t host_size, char *port, size_t port_size)
{
        const char *scheme = strstr(text, "://"), *start = scheme ? scheme + 3 : text;
        const char *end = start + strcspn(start, "/"), *colon = memrchr(start, ':', (size_t)(end - start));
        if (strncmp(text, "unix:", 5) == 0 || (!scheme && !colon))
                return false;
        if (colon && memchr(colon, ']', (size_t)(end - colon)))
                colon = NULL; /* within an IPv6 address */
        if (colon)
                snprintf(port, port_size, "%.*s", (int)(end - colon - 1), colon + 1);
        else
                snprintf(port, port_size, "%s", strncasecmp(text, "https", 5) == 0 ? "443" : "80");
        snprintf(host, host_size, "%.*s", (int)((colon ? colon : end) - start), start);
        return true;
}
