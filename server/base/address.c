/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <ferry/encoding.h>

/* Digits only, at most 65535. */
static bool parse_port(const char *text, uint16_t *ret_port)
{
        uint64_t port;

        if (!ferry_uint_parse(text, UINT16_MAX, &port))
                return false;
        *ret_port = (uint16_t)port;
        return true;
}

/* Splits off the host; *ret_rest points at what follows it: "" or ":…". */
static bool take_host(const char *text, char host[ADDRESS_HOST_SIZE], const char **ret_rest)
{
        const char *start = text, *end;

        if (*text == '[') {
                start = text + 1;
                end = strchr(start, ']');
                if (!end)
                        return false;
                *ret_rest = end + 1;
        } else {
                end = text + strcspn(text, ":");
                *ret_rest = end;
        }
        size_t length = (size_t)(end - start);
        if (!length || length >= ADDRESS_HOST_SIZE)
                return false;
        memcpy(host, start, length);
        host[length] = '\0';
        /* Brackets require an IPv6 literal, and a host with colons requires brackets. */
        if (*text == '[' && (!strchr(host, ':') || !address_is_literal(host)))
                return false;
        return **ret_rest == '\0' || **ret_rest == ':';
}

bool address_split(const char *text, char host[ADDRESS_HOST_SIZE], uint16_t *ret_port)
{
        const char *rest;

        return take_host(text, host, &rest) && *rest == ':' && parse_port(rest + 1, ret_port);
}

bool address_host(const char *text, char host[ADDRESS_HOST_SIZE])
{
        const char *rest;
        uint16_t port;

        if (!take_host(text, host, &rest))
                return false;
        if (*rest == ':' && rest[1] && !parse_port(rest + 1, &port))
                return false;
        for (const char *c = host; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr("-._:%", *c))
                        return false;
        size_t length = strlen(host);
        if (length > 1 && host[length - 1] == '.')
                host[length - 1] = '\0';
        return true;
}

void address_join(const char *host, uint16_t port, char text[ADDRESS_SIZE])
{
        bool v6 = strchr(host, ':') != NULL;

        snprintf(text, ADDRESS_SIZE, "%s%.*s%s:%u", v6 ? "[" : "", ADDRESS_HOST_SIZE - 1, host, v6 ? "]" : "", port);
}

bool address_is_literal(const char *host)
{
        unsigned char binary[sizeof(struct in6_addr)];
        char address[INET6_ADDRSTRLEN];
        size_t length = strcspn(host, "%");

        if (length >= sizeof(address) || (host[length] && !strchr(host, ':')))
                return false;
        memcpy(address, host, length);
        address[length] = '\0';
        return inet_pton(AF_INET, address, binary) == 1 || inet_pton(AF_INET6, address, binary) == 1;
}

bool address_is_wildcard(const char *host)
{
        struct in_addr v4;
        struct in6_addr v6;

        if (inet_pton(AF_INET, host, &v4) == 1)
                return v4.s_addr == INADDR_ANY;
        return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

void address_publish(const char *bound, const char *advertise, const char *local_host, char *text, size_t size)
{
        char host[ADDRESS_HOST_SIZE], joined[ADDRESS_SIZE];
        uint16_t port;

        if (!address_split(bound, host, &port)) {
                snprintf(text, size, "%s", bound);
                return;
        }
        if (advertise)
                address_join(advertise, port, joined);
        else if (address_is_wildcard(host) && *local_host)
                address_join(local_host, port, joined);
        else
                address_join(host, port, joined);
        snprintf(text, size, "%s", joined);
}
