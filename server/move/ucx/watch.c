/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * Detects hosts that are down or cut off. TCP alone takes 15 minutes for that, and UCX enables keep-alive on some
 * sockets only. So this file finds the process's sockets to peers, and does two things:
 *
 * It sets kernel keep-alive on them, which ends a connection 5 s after the last packet, also while this process sleeps.
 * And it fails the links to a host that owes an acknowledgement, of data or of a probe, and has sent nothing for
 * UCX_SILENT_MS.
 *
 * TCP_USER_TIMEOUT does not fit: it also ends a connection whose peer keeps its window closed, as a stopped process
 * does on a healthy host, which still acknowledges what was sent.
 *
 * The checks run while something moves, and until the first probe afterwards is answered; then they stop, so that an
 * idle worker uses no processor time.
 */

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif

struct host_key {
        sa_family_t family;
        uint8_t address[16];
};

/* The host of one or more links. */
struct ucx_host {
        struct host_key key;
        bool linked;             /* seen in this check */
        bool owes_ack;           /* data to it are not acknowledged */
        bool owes_answer;        /* a probe is not answered */
        uint64_t last_packet_us; /* when its last packet came */
        uint64_t rtt_us;         /* the shortest of its connections, of late; 0 = not known */
        bool owes;               /* either of them, at the previous check */
        uint64_t since_us;       /* since when it owes an answer and has sent nothing */
        UT_hash_handle hh;
};

static bool make_key(const struct sockaddr_storage *address, struct host_key *ret_key)
{
        *ret_key = (struct host_key){ .family = address->ss_family };
        if (address->ss_family == AF_INET)
                memcpy(ret_key->address, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        else if (address->ss_family == AF_INET6)
                memcpy(ret_key->address, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
        else
                return false;
        return true;
}

static struct ucx_host *find_host(const struct ucx *ucx, const struct sockaddr_storage *address)
{
        struct ucx_host *host = NULL;
        struct host_key key;

        if (make_key(address, &key))
                HASH_FIND(hh, ucx->hosts, &key, sizeof(key), host);
        return host;
}

/* NULL when memory is short or the address is neither IPv4 nor IPv6: then its links are not watched. */
static struct ucx_host *add_host(struct ucx *ucx, const struct sockaddr_storage *address, uint64_t now_us)
{
        struct ucx_host *host = calloc(1, sizeof(*host));

        if (!host || !make_key(address, &host->key)) {
                free(host);
                return NULL;
        }
        host->since_us = now_us;
        HASH_ADD(hh, ucx->hosts, key, sizeof(host->key), host);
        if (host->hh.tbl)
                return host;
        free(host);
        return NULL;
}

static void remove_host(struct ucx *ucx, struct ucx_host *host)
{
        HASH_DEL(ucx->hosts, host);
        free(host);
}

/* Updates the table to the hosts of all usable links. */
static void renew_hosts(struct ucx *ucx, uint64_t now_us)
{
        struct ucx_host *host, *next;
        struct link *link;

        HASH_ITER (hh, ucx->hosts, host, next) {
                host->linked = host->owes_ack = host->owes_answer = false;
                host->last_packet_us = host->rtt_us = 0;
        }
        DL_FOREACH (ucx->base.links, link) {
                const struct sockaddr_storage *peer = &ucx_link_of(link)->peer;

                if (!link_is_usable(link))
                        continue;
                ucx->moved |= ucx_link_of(link)->under_way != NULL;
                host = find_host(ucx, peer);
                if (!host)
                        host = add_host(ucx, peer, now_us);
                if (host)
                        host->linked = true;
        }
        HASH_ITER (hh, ucx->hosts, host, next)
                if (!host->linked)
                        remove_host(ucx, host);
}

static void set(int fd, int level, int option, int value)
{
        (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* Keep-alive that ends a connection after 5 s of silence, but survives an interruption of 3 s. */
static void set_probes(int fd)
{
        int on = 0;
        socklen_t size = sizeof(on);

        if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) == 0 && on)
                return;
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, UCX_PROBE_IDLE_S);
        set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
        set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
        set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        /* Else what was lost in a cut of 3 s is perhaps not sent again before 6 s. An older kernel does not know this.
         */
        set(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, 1000);
}

/* Adds up what the kernel knows of one socket: the descriptor may be any of the process's. */
static void look_at(struct ucx *ucx, int fd, uint64_t now_us)
{
        struct sockaddr_storage address;
        socklen_t size = sizeof(address);
        struct tcp_info info;
        struct ucx_host *host;
        uint64_t silent_ms;

        if (getpeername(fd, (struct sockaddr *)&address, &size) < 0)
                return;
        host = find_host(ucx, &address);
        size = sizeof(info);
        if (!host || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
                return;
        set_probes(fd);
        silent_ms =
                info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv : info.tcpi_last_data_recv;
        if (silent_ms * 1000 < now_us && now_us - silent_ms * 1000 > host->last_packet_us)
                host->last_packet_us = now_us - silent_ms * 1000;
        if (info.tcpi_rtt && (host->rtt_us == 0 || info.tcpi_min_rtt < host->rtt_us))
                host->rtt_us = info.tcpi_min_rtt;
        host->owes_ack |= info.tcpi_unacked > 0;
        host->owes_answer |= info.tcpi_probes > 0;
}

static void look_at_all(struct ucx *ucx, uint64_t now_us)
{
        DIR *directory = opendir("/proc/self/fd");

        if (!directory)
                return;
        for (const struct dirent *entry; (entry = readdir(directory));)
                if (entry->d_name[0] != '.')
                        look_at(ucx, atoi(entry->d_name), now_us);
        (void)closedir(directory);
}

/* Tells links the round trip to their hosts. Whether a new one does not know it yet. */
static bool tell_rtt(struct ucx *ucx, uint64_t now_us)
{
        struct link *link;
        bool unknown = false;

        DL_FOREACH (ucx->base.links, link) {
                struct ucx_link *l = ucx_link_of(link);
                const struct ucx_host *host = find_host(ucx, &l->peer);

                if (host && host->rtt_us)
                        l->rtt_us = host->rtt_us;
                unknown |= l->rtt_us == 0 && now_us < link->created_us + UCX_WATCH_NEW_US;
        }
        return unknown;
}

static void fail_links(struct ucx *ucx, const struct ucx_host *host)
{
        struct link *link;

        DL_FOREACH (ucx->base.links, link)
                if (link->state == LINK_UP && find_host(ucx, &ucx_link_of(link)->peer) == host)
                        ucx_link_fail(link, FERRY_E_PEER_LOST, "the peer's host no longer answers");
}

/* Returns when the host will have been silent for too long; UINT64_MAX: it owes nothing, or its links have failed. */
static uint64_t check_host(struct ucx *ucx, struct ucx_host *host, uint64_t now_us)
{
        uint64_t silent_us = UCX_SILENT_MS * UINT64_C(1000);
        bool owes = host->owes_ack || host->owes_answer;

        if (!owes)
                host->since_us = now_us;
        else if (!host->owes && !host->owes_ack) /* the kernel sends a probe after 1 s of silence */
                host->since_us -= UCX_PROBE_IDLE_S * UINT64_C(1000000);
        if (host->since_us < host->last_packet_us)
                host->since_us = host->last_packet_us;
        host->owes = owes;
        if (!owes)
                return UINT64_MAX;
        if (now_us < host->since_us + silent_us)
                return host->since_us + silent_us;
        fail_links(ucx, host);
        return UINT64_MAX;
}

void ucx_watch_run(struct ucx *ucx)
{
        uint64_t now_us = clock_now_us(), due_us = UINT64_MAX, took_us;
        struct ucx_host *host, *next;
        bool soon;

        if (now_us < ucx->watch_us)
                return;
        if (ucx->watch_us == 0) /* restart the clocks: the time of the rest does not count */
                HASH_ITER (hh, ucx->hosts, host, next)
                        host->since_us = now_us;
        renew_hosts(ucx, now_us);
        if (ucx->hosts)
                look_at_all(ucx, now_us);
        soon = tell_rtt(ucx, now_us);
        ucx->moved |= soon;
        HASH_ITER (hh, ucx->hosts, host, next) {
                uint64_t silent_us = check_host(ucx, host, now_us);

                due_us = silent_us < due_us ? silent_us : due_us;
                ucx->moved |= host->owes;
        }
        if (ucx->moved)
                ucx->watch_quiet = 0;
        else
                ucx->watch_quiet++;
        ucx->moved = false;
        if (ucx->watch_quiet > UCX_WATCH_QUIET) {
                ucx->watch_us = UINT64_MAX;
                return;
        }
        took_us = clock_now_us() - now_us;
        ucx->watch_us = now_us + (soon ? UCX_WATCH_SOON_US : UCX_WATCH_US) + UCX_WATCH_REST * took_us;
        if (due_us < ucx->watch_us)
                ucx->watch_us = due_us;
}

void ucx_watch_wake(struct ucx *ucx)
{
        ucx->moved = true;
        if (ucx->watch_us == UINT64_MAX)
                ucx->watch_us = 0;
}

void ucx_watch_end(struct ucx *ucx)
{
        while (ucx->hosts)
                remove_host(ucx, ucx->hosts);
}
