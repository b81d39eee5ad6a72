/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/util.h"
#include "http/server.h"
#include "settings.h"
#include "transfer/engine.h"
#include "worker_internal.h"

/*
 * The addresses in metadata of operations made without HTTP. A client's connection would show by which address it
 * reaches this host; without one, a listener on all addresses is named by that of the default route. Each may change:
 * the network transport may open later, and the route may go elsewhere.
 */

/* Addresses reserved for documentation; no packet is sent. */
static const char *const outside[] = { "192.0.2.1", "2001:db8::1" };

static bool look_outside(const char *target, char host[ADDRESS_HOST_SIZE])
{
        const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM };
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        struct sockaddr_storage local;
        socklen_t size = sizeof(local);
        struct addrinfo *address;
        bool routed;

        if (getaddrinfo(target, "9", &hints, &address) != 0) /* discard */
                return false;
        fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        routed = fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) == 0;
        freeaddrinfo(address);
        return routed && getsockname(fd, (struct sockaddr *)&local, &size) == 0 &&
               getnameinfo((struct sockaddr *)&local, size, host, ADDRESS_HOST_SIZE, NULL, 0, NI_NUMERICHOST) == 0;
}

static void local_host_look(char host[ADDRESS_HOST_SIZE])
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(outside); i++)
                if (look_outside(outside[i], host))
                        return;
        (void)snprintf(host, ADDRESS_HOST_SIZE, "127.0.0.1");
}

static void publish(const struct ferry_worker *worker, const char *bound, char *text, size_t size)
{
        const char *advertise = worker->settings->options.advertise;
        char host[ADDRESS_HOST_SIZE], local_host[ADDRESS_HOST_SIZE] = "";
        uint16_t port;

        if (!advertise && address_split(bound, host, &port) && address_is_wildcard(host))
                local_host_look(local_host);
        address_publish(bound, advertise, local_host, text, size);
}

/* Formats "http://HOST:PORT", with another host if needed. */
static void publish_url(const struct ferry_worker *worker, const char *url, char *text, size_t size)
{
        const char *bound = strstr(url, "://") + 3;
        char address[ADDRESS_SIZE];

        publish(worker, bound, address, sizeof(address));
        (void)snprintf(text, size, "%.*s%s", (int)(bound - url), url, address);
}

void worker_origin_look(const struct ferry_worker *worker, struct worker_origin *ret_origin)
{
        const struct engine_facts *facts = engine_get_facts(worker->engine);
        const char *url;

        *ret_origin = (struct worker_origin){ 0 };
        if (engine_network_is_open(facts))
                publish(worker, facts->data_address, ret_origin->data, sizeof(ret_origin->data));
        if (worker->settings->advertise_url)
                (void)snprintf(ret_origin->http, sizeof(ret_origin->http), "%s", worker->settings->advertise_url);
        for (size_t i = 0; !*ret_origin->http && (url = http_server_url(worker->http, i)); i++)
                if (strncmp(url, "http", 4) == 0)
                        publish_url(worker, url, ret_origin->http, sizeof(ret_origin->http));
}
