/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <ferry/buffer.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * Waits for an interface or address that is not up yet. UCX uses only the interfaces that exist when it starts, so it
 * starts later. Until then the transport has no UCX worker and opens no links; netlink reports changes of interfaces
 * and addresses.
 */

struct ucx_address_wait {
        struct ucx_config config;
        int (*open)(struct ucx *ucx, const struct ucx_config *config);
        const char *missing;
        int netlink;
        int epoll;            /* the transport's descriptor: watches netlink, once open UCX's descriptor instead */
        bool looked;          /* the address was checked since netlink was opened */
        pthread_mutex_t lock; /* guards the fields below */
        bool opened;
        struct memory **memories; /* registered while waiting */
        size_t n, room;
};

static int watch(int epoll, int fd)
{
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int listen_to_kernel(struct ucx_address_wait *wait)
{
        struct sockaddr_nl address = { .nl_family = AF_NETLINK,
                                       .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };

        wait->epoll = epoll_create1(EPOLL_CLOEXEC);
        wait->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
        if (wait->epoll < 0 || wait->netlink < 0 ||
            bind(wait->netlink, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        return watch(wait->epoll, wait->netlink);
}

static void log_missing(const struct ucx_address_wait *wait)
{
        log_event(LOG_WARN, "network transport waits for its address", LOG_S("data_listen", wait->config.data_listen),
                  LOG_S("missing", wait->missing));
}

int ucx_address_wait_new(struct ucx *ucx, const struct ucx_config *config, const char *missing,
                         int (*open)(struct ucx *ucx, const struct ucx_config *config))
{
        struct ucx_address_wait *wait = ucx->address_wait = calloc(1, sizeof(*wait));
        int r;

        if (!wait)
                return -ENOMEM;
        wait->epoll = wait->netlink = -1;
        wait->open = open;
        wait->missing = missing;
        (void)pthread_mutex_init(&wait->lock, NULL);
        wait->config = *config;
        wait->config.detail = NULL; /* nobody waits for it by then */
        r = listen_to_kernel(wait);
        if (r < 0) {
                log_event(LOG_ERROR, "network transport not opened", LOG_S("step", "wait for its address"),
                          LOG_S("missing", missing), LOG_S("reason", strerror(-r)));
                return r;
        }
        ucx->base.fd = wait->epoll;
        log_missing(wait);
        return 0;
}

void ucx_address_wait_free(struct ucx *ucx)
{
        struct ucx_address_wait *wait = ucx->address_wait;

        if (!wait)
                return;
        cleanup_close(&wait->netlink);
        cleanup_close(&wait->epoll);
        (void)pthread_mutex_destroy(&wait->lock);
        free(wait->memories);
        free(wait);
        ucx->address_wait = NULL;
}

/* Whether netlink has reported a change. */
static bool has_changed(const struct ucx_address_wait *wait)
{
        char message[8192];
        bool any = false;

        while (recv(wait->netlink, message, sizeof(message), 0) > 0 || errno == ENOBUFS || errno == EINTR)
                any = true;
        return any;
}

static void register_all(struct ucx *ucx)
{
        struct ucx_address_wait *wait = ucx->address_wait;

        (void)pthread_mutex_lock(&wait->lock);
        wait->opened = true;
        for (size_t i = 0; i < wait->n; i++) /* if this fails, UCX registers it for each transfer, which is slower */
                (void)ucx_register_memory(&ucx->base, wait->memories[i]);
        wait->n = 0;
        (void)pthread_mutex_unlock(&wait->lock);
}

bool ucx_address_wait_check(struct ucx *ucx)
{
        struct ucx_address_wait *wait = ucx->address_wait;
        const char *missing = wait->missing;
        int r, fd;

        if (ucx->stopping || wait->opened || (!has_changed(wait) && wait->looked))
                return false;
        wait->looked = true;
        r = ucx_address_check(&ucx->listen, &missing);
        if (r == -EAGAIN && missing != wait->missing) {
                wait->missing = missing;
                log_missing(wait);
        }
        if (r == 0)
                r = wait->open(ucx, &wait->config);
        fd = ucx->base.fd;
        ucx->base.fd = wait->epoll;
        if (r < 0)
                return false; /* retried at the next change */
        (void)epoll_ctl(wait->epoll, EPOLL_CTL_DEL, wait->netlink, NULL);
        if (watch(wait->epoll, fd) < 0)
                log_event(LOG_ERROR, "waiting for the address of the network transport failed",
                          LOG_S("reason", strerror(errno)));
        register_all(ucx);
        return true;
}

int ucx_address_wait_register(struct transport *transport, struct memory *memory)
{
        struct ucx_address_wait *wait = ucx_of(transport)->address_wait;
        int r = 0;

        if (!wait)
                return ucx_register_memory(transport, memory);
        (void)pthread_mutex_lock(&wait->lock);
        if (wait->opened) {
                (void)pthread_mutex_unlock(&wait->lock);
                return ucx_register_memory(transport, memory);
        }
        struct memory **memories = ferry_reserve(wait->memories, &wait->room, wait->n + 1, sizeof(struct memory *));
        if (memories) {
                wait->memories = memories;
                wait->memories[wait->n++] = memory;
        } else {
                r = -ENOMEM;
        }
        (void)pthread_mutex_unlock(&wait->lock);
        return r;
}

void ucx_address_wait_deregister(struct transport *transport, struct memory *memory)
{
        struct ucx_address_wait *wait = ucx_of(transport)->address_wait;

        if (wait) {
                (void)pthread_mutex_lock(&wait->lock);
                for (size_t i = 0; i < wait->n; i++)
                        if (wait->memories[i] == memory)
                                wait->memories[i--] = wait->memories[--wait->n];
                (void)pthread_mutex_unlock(&wait->lock);
        }
        ucx_deregister_memory(transport, memory);
}
