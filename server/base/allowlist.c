/* SPDX-License-Identifier: Apache-2.0 */
#include "base/allowlist.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <ferry/encoding.h>

#include "base/log.h"
#include "base/util.h"

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
