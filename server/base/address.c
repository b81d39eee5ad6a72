/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <ferry/encoding.h>

#include "base/address.h"
#include "base/allowlist.h"
#include "base/log.h"
#include "base/util.h"

/*
 * Addresses as text, and the hosts that may be peers (--allow-peer). The texts come from users, from Host headers of
 * strangers and from metadata of peers, so each parser takes a whole text or refuses it. A name that is listed is
 * trusted with whatever it resolves to; an address is compared as a number, IPv4 and v4-mapped IPv6 alike.
 *
 * Thread: any. An allowlist is fixed once it is made, and has no lock.
 */

/* ---- addresses as text ---- */

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

/* ---- the hosts that may be peers ---- */

enum {
        ADDRESS_BYTES = 16,
        MAPPED_BITS = 96,      /* ::ffff:0:0/96 holds the IPv4 addresses */
        HOST_NAME_SIZE = 254,  /* RFC 1035: 253 characters */
        LITERAL_TEXT_SIZE = 64 /* the longest IPv6 text, brackets, zone or prefix length */
};

/* IPv4 networks are kept v4-mapped, so that one address written in two ways is one address. */
struct network {
        uint8_t address[ADDRESS_BYTES];
        unsigned bits;
};

struct allowlist {
        struct network *networks;
        size_t n_networks;
        char **names;
        size_t n_names;
        bool loopback;
};

static const uint8_t mapped_prefix[MAPPED_BITS / 8] = { [10] = 0xff, [11] = 0xff };

static void address_map(const struct in_addr *v4, uint8_t ret_address[ADDRESS_BYTES])
{
        memcpy(ret_address, mapped_prefix, sizeof(mapped_prefix));
        memcpy(ret_address + sizeof(mapped_prefix), v4, sizeof(*v4));
}

static bool address_is_mapped(const uint8_t address[ADDRESS_BYTES])
{
        return memcmp(address, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

static bool network_contains(const struct network *network, const uint8_t address[ADDRESS_BYTES])
{
        unsigned bytes = network->bits / 8;
        unsigned rest = network->bits % 8;

        /* ::/0 means all of IPv6; it must not match IPv4 just because that is stored v4-mapped. */
        if (network->bits < MAPPED_BITS && address_is_mapped(address))
                return false;
        if (memcmp(network->address, address, bytes) != 0)
                return false;
        return rest == 0 || ((network->address[bytes] ^ address[bytes]) >> (8 - rest)) == 0;
}

/* Whether the address is in any of the networks. */
static bool networks_contain(const struct allowlist *allowlist, const uint8_t address[ADDRESS_BYTES])
{
        for (size_t i = 0; i < allowlist->n_networks; i++)
                if (network_contains(&allowlist->networks[i], address))
                        return true;
        return false;
}

/* An IP literal, with or without brackets and zone. ret_bits: width of its family. */
static bool literal_parse(const char *text, size_t length, uint8_t ret_address[ADDRESS_BYTES], unsigned *ret_bits)
{
        char buffer[LITERAL_TEXT_SIZE];
        struct in_addr v4;
        char *zone;

        if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
                text++;
                length -= 2;
        }
        if (length >= sizeof(buffer))
                return false;
        memcpy(buffer, text, length);
        buffer[length] = '\0';
        if (inet_pton(AF_INET, buffer, &v4) == 1) {
                address_map(&v4, ret_address);
                *ret_bits = 32;
                return true;
        }
        zone = strchr(buffer, '%');
        if (zone)
                *zone = '\0';
        *ret_bits = 128;
        return inet_pton(AF_INET6, buffer, ret_address) == 1;
}

/* "ADDRESS" or "ADDRESS/BITS". */
static bool network_parse(const char *text, struct network *ret_network)
{
        const char *slash = strchr(text, '/');
        size_t length = slash ? (size_t)(slash - text) : strlen(text);
        unsigned width;
        uint64_t bits;

        if (!literal_parse(text, length, ret_network->address, &width))
                return false;
        if (!slash) {
                ret_network->bits = 128;
                return true;
        }
        if (strlen(slash + 1) > 3 || !ferry_uint_parse(slash + 1, width, &bits))
                return false;
        ret_network->bits = 128 - width + (unsigned)bits;
        return true;
}

/* A DNS name: its last label must have a letter, so that a malformed address is refused. Drops a final dot. */
static bool name_parse(const char *text, char ret_name[HOST_NAME_SIZE])
{
        size_t length = strlen(text);
        bool letter = false;

        if (length && text[length - 1] == '.')
                length--;
        if (length == 0 || length >= HOST_NAME_SIZE)
                return false;
        for (size_t i = 0; i < length; i++) {
                char c = text[i];

                if (c == '.') {
                        if (i == 0 || text[i - 1] == '.')
                                return false;
                        letter = false;
                } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_') {
                        letter = true;
                } else if (c < '0' || c > '9') {
                        return false;
                }
        }
        memcpy(ret_name, text, length);
        ret_name[length] = '\0';
        return letter;
}

static void add_loopback(struct allowlist *allowlist)
{
        static const struct network loopback[] = {
                { .address = { [10] = 0xff, [11] = 0xff, [12] = 127 }, .bits = MAPPED_BITS + 8 },
                { .address = { [15] = 1 }, .bits = 128 },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(loopback); i++)
                allowlist->networks[allowlist->n_networks++] = loopback[i];
}

/* Adds an entry: a network, or a name. Returns 0; -EINVAL, logged; -ENOMEM. */
static int add_entry(struct allowlist *allowlist, const char *entry)
{
        char name[HOST_NAME_SIZE];

        if (network_parse(entry, &allowlist->networks[allowlist->n_networks])) {
                allowlist->n_networks++;
                return 0;
        }
        if (!name_parse(entry, name)) {
                log_event(LOG_ERROR, "invalid --allow-peer entry", LOG_S("entry", entry));
                return -EINVAL;
        }
        /* RFC 6761 fixes its meaning, so no resolver is asked. */
        if (strcasecmp(name, "localhost") == 0) {
                add_loopback(allowlist);
                return 0;
        }
        allowlist->names[allowlist->n_names] = strdup(name);
        if (!allowlist->names[allowlist->n_names])
                return -ENOMEM;
        allowlist->n_names++;
        return 0;
}

static void cleanup_allowlist(struct allowlist **allowlist)
{
        *allowlist = allowlist_free(*allowlist);
}

int allowlist_new(const char *const *entries, size_t n, bool nobody, struct allowlist **ret_allowlist)
{
        FERRY_CLEANUP(cleanup_allowlist) struct allowlist *allowlist = calloc(1, sizeof(*allowlist));
        static const char *const probes[] = { "127.0.0.1", "::1" };
        int r;

        if (!allowlist)
                return -ENOMEM;
        /* "localhost" takes two. */
        allowlist->networks = calloc(2 * n + 2, sizeof(*allowlist->networks));
        allowlist->names = calloc(n + 1, sizeof(*allowlist->names));
        if (!allowlist->networks || !allowlist->names)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                r = add_entry(allowlist, entries[i]);
                if (r < 0)
                        return r;
        }
        if (n == 0 && !nobody)
                add_loopback(allowlist);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(probes); i++)
                if (allowlist_admits(allowlist, probes[i]))
                        allowlist->loopback = true;
        *ret_allowlist = FERRY_STEAL(allowlist);
        return 0;
}

struct allowlist *allowlist_free(struct allowlist *allowlist)
{
        if (!allowlist)
                return NULL;
        for (size_t i = 0; i < allowlist->n_names; i++)
                free(allowlist->names[i]);
        free(allowlist->names);
        free(allowlist->networks);
        free(allowlist);
        return NULL;
}

bool allowlist_names(const struct allowlist *allowlist, const char *host)
{
        char name[HOST_NAME_SIZE];

        if (!name_parse(host, name))
                return false;
        for (size_t i = 0; i < allowlist->n_names; i++)
                if (strcasecmp(allowlist->names[i], name) == 0)
                        return true;
        return false;
}

bool allowlist_admits(const struct allowlist *allowlist, const char *host)
{
        uint8_t address[ADDRESS_BYTES];
        char name[HOST_NAME_SIZE];
        unsigned bits;

        if (literal_parse(host, strlen(host), address, &bits))
                return networks_contain(allowlist, address);
        if (name_parse(host, name) && strcasecmp(name, "localhost") == 0)
                return allowlist->loopback;
        return allowlist_names(allowlist, host);
}

bool allowlist_admits_address(const struct allowlist *allowlist, const struct sockaddr *address)
{
        uint8_t mapped[ADDRESS_BYTES];

        switch (address->sa_family) {
        case AF_INET:
                address_map(&((const struct sockaddr_in *)(const void *)address)->sin_addr, mapped);
                return networks_contain(allowlist, mapped);
        case AF_INET6:
                return networks_contain(allowlist,
                                        ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
        default:
                return false;
        }
}
