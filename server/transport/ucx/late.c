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

struct ucx_late {
        struct ucx_config config; /* owns its strings */
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

static int copy_text(const char *text, const char **ret_copy)
{
        *ret_copy = text ? strdup(text) : NULL;
        return text && !*ret_copy ? -ENOMEM : 0;
}

static int copy_config(struct ucx_config *copy, const struct ucx_config *config)
{
        int r;

        *copy = *config;
        r = copy_text(config->data_listen, &copy->data_listen);
        r |= copy_text(config->advertise, &copy->advertise);
        r |= copy_text(config->transports, &copy->transports);
        r |= copy_text(config->interfaces, &copy->interfaces);
        return r < 0 ? -ENOMEM : 0;
}

static int watch(int epoll, int fd)
{
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int listen_to_kernel(struct ucx_late *late)
{
        struct sockaddr_nl address = { .nl_family = AF_NETLINK,
                                       .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };

        late->epoll = epoll_create1(EPOLL_CLOEXEC);
        late->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
        if (late->epoll < 0 || late->netlink < 0 ||
            bind(late->netlink, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        return watch(late->epoll, late->netlink);
}

static void log_missing(const struct ucx_late *late)
{
        log_event(LOG_WARN, "network transport waits for its address", LOG_S("data_listen", late->config.data_listen),
                  LOG_S("missing", late->missing));
}

int ucx_late_new(struct ucx *ucx, const struct ucx_config *config, const char *missing,
                 int (*open)(struct ucx *ucx, const struct ucx_config *config))
{
        struct ucx_late *late = ucx->late = calloc(1, sizeof(*late));
        int r;

        if (!late)
                return -ENOMEM;
        late->epoll = late->netlink = -1;
        late->open = open;
        late->missing = missing;
        (void)pthread_mutex_init(&late->lock, NULL);
        r = copy_config(&late->config, config);
        if (r == 0)
                r = listen_to_kernel(late);
        if (r < 0) {
                log_event(LOG_ERROR, "network transport not opened", LOG_S("step", "wait for its address"),
                          LOG_S("missing", missing), LOG_S("reason", strerror(-r)));
                return r;
        }
        ucx->base.fd = late->epoll;
        log_missing(late);
        return 0;
}

void ucx_late_free(struct ucx *ucx)
{
        struct ucx_late *late = ucx->late;

        if (!late)
                return;
        cleanup_close(&late->netlink);
        cleanup_close(&late->epoll);
        free((char *)(uintptr_t)late->config.data_listen);
        free((char *)(uintptr_t)late->config.advertise);
        free((char *)(uintptr_t)late->config.transports);
        free((char *)(uintptr_t)late->config.interfaces);
        (void)pthread_mutex_destroy(&late->lock);
        free(late->memories);
        free(late);
        ucx->late = NULL;
}

/* Whether netlink has reported a change. */
static bool has_changed(const struct ucx_late *late)
{
        char message[8192];
        bool any = false;

        while (recv(late->netlink, message, sizeof(message), 0) > 0 || errno == ENOBUFS || errno == EINTR)
                any = true;
        return any;
}

static void register_all(struct ucx *ucx)
{
        struct ucx_late *late = ucx->late;

        (void)pthread_mutex_lock(&late->lock);
        late->opened = true;
        for (size_t i = 0; i < late->n; i++) /* if this fails, UCX registers it for each transfer, which is slower */
                (void)ucx_register_memory(&ucx->base, late->memories[i]);
        late->n = 0;
        (void)pthread_mutex_unlock(&late->lock);
}

bool ucx_late_look(struct ucx *ucx)
{
        struct ucx_late *late = ucx->late;
        const char *missing = late->missing;
        int r, fd;

        if (ucx->stopping || late->opened || (!has_changed(late) && late->looked))
                return false;
        late->looked = true;
        r = ucx_address_check(&ucx->listen, &missing);
        if (r == -EAGAIN && missing != late->missing) {
                late->missing = missing;
                log_missing(late);
        }
        if (r == 0)
                r = late->open(ucx, &late->config);
        if (r < 0)
                return false; /* retried at the next change */
        fd = ucx->base.fd;
        ucx->base.fd = late->epoll;
        (void)epoll_ctl(late->epoll, EPOLL_CTL_DEL, late->netlink, NULL);
        if (watch(late->epoll, fd) < 0)
                log_event(LOG_ERROR, "waiting for the address of the network transport failed",
                          LOG_S("reason", strerror(errno)));
        register_all(ucx);
        return true;
}

int ucx_late_register(struct transport *transport, struct memory *memory)
{
        struct ucx_late *late = ucx_of(transport)->late;
        int r = 0;

        (void)pthread_mutex_lock(&late->lock);
        if (late->opened) {
                (void)pthread_mutex_unlock(&late->lock);
                return ucx_register_memory(transport, memory);
        }
        struct memory **memories = ferry_reserve(late->memories, &late->room, late->n + 1, sizeof(struct memory *));
        if (memories) {
                late->memories = memories;
                late->memories[late->n++] = memory;
        } else {
                r = -ENOMEM;
        }
        (void)pthread_mutex_unlock(&late->lock);
        return r;
}

void ucx_late_deregister(struct transport *transport, struct memory *memory)
{
        struct ucx_late *late = ucx_of(transport)->late;

        (void)pthread_mutex_lock(&late->lock);
        for (size_t i = 0; i < late->n; i++)
                if (late->memories[i] == memory)
                        late->memories[i--] = late->memories[--late->n];
        (void)pthread_mutex_unlock(&late->lock);
        ucx_deregister_memory(transport, memory);
}
