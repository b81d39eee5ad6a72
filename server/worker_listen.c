/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "base/address.h"
#include "base/passed.h"

static bool is_loopback(const struct sockaddr *address)
{
        switch (address->sa_family) {
        case AF_INET:
                return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
        case AF_INET6:
                return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
        default:
                return address->sa_family == AF_UNIX;
        }
}

static bool passed_is_loopback(int fd)
{
        struct sockaddr_storage address;
        socklen_t size;

        return passed_address(fd, &address, &size) == 0 && is_loopback((const struct sockaddr *)&address);
}

bool worker_listen_is_loopback(const char *address)
{
        char host[ADDRESS_HOST_SIZE];
        struct in6_addr v6;
        struct in_addr v4;
        uint16_t port;
        int passed = passed_fd(address);

        if (strncmp(address, "unix:", 5) == 0)
                return true;
        if (passed >= 0)
                return passed_is_loopback(passed);
        if (!address_split(address, host, &port))
                return false;
        if (inet_pton(AF_INET, host, &v4) == 1)
                return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
        if (inet_pton(AF_INET6, host, &v6) == 1)
                return IN6_IS_ADDR_LOOPBACK(&v6);
        return strcasecmp(host, "localhost") == 0;
}
