/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utlist.h>

#include <ferry/clock.h>

#include "aio_internal.h"
#include "connection.h"
#include "sigpipe.h"

enum { AIO_EVENTS = 64 };

/*
 * What an event of the epoll is of: a call, whose socket it is; else a descriptor, of the timer or one that libcurl
 * connects, as an odd number.
 */
static uint64_t aio_data_of(int fd)
{
        return (uint64_t)(unsigned)fd << 1 | 1;
}

/* ---- what libcurl waits for ---- */

static int aio_on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
        struct ferry_aio *aio = context;
        struct epoll_event event = { .data.u64 = aio_data_of(fd) };
        if (what == CURL_POLL_REMOVE) {
                (void)epoll_ctl(aio->epoll, EPOLL_CTL_DEL, fd, NULL);
                curl_multi_assign(aio->multi, fd, NULL);
                return 0;
        }
        event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
        if (epoll_ctl(aio->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
                aio->error = -errno;
        curl_multi_assign(aio->multi, fd, aio);
        return 0;
}

static int aio_on_timer(CURLM *multi, long timeout_ms, void *context)
{
        struct ferry_aio *aio = context;
        aio->curl_due_ms = timeout_ms < 0 ? AIO_NEVER : ferry_clock_ms() + (uint64_t)timeout_ms;
        return 0;
}

/* Starts what is due, ends what is late, and then what callbacks have begun meanwhile. */
static void aio_run_due(struct ferry_aio *aio)
{
        uint64_t made;
        do {
                uint64_t now = ferry_clock_ms();
                made = aio->n_made;
                struct aio_call *c, *next;
                DL_FOREACH_SAFE (aio->calls, c, next) { /* next stays: a callback frees no call but its own */
                        if (c->running && http_try_deadline(&c->http_try) <= now)
                                aio_http_try_end(c, CURLE_OPERATION_TIMEDOUT);
                        else if (!c->running && c->due_ms <= now)
                                aio_http_try_begin(c);
                }
        } while (aio->n_made != made);
}

static void aio_collect(struct ferry_aio *aio)
{
        int left;
        for (CURLMsg *m = curl_multi_info_read(aio->multi, &left); m; m = curl_multi_info_read(aio->multi, &left)) {
                struct aio_call *c = NULL;
                CURLcode code = m->data.result;
                if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c) == CURLE_OK)
                        aio_connected(c, code);
        }
}

static void aio_handle(struct ferry_aio *aio, const struct epoll_event *event)
{
        uint64_t expirations;
        int fd = (int)(event->data.u64 >> 1), running;
        if (!(event->data.u64 & 1))
                aio_ready(event->data.ptr);
        else if (fd == aio->timer)
                (void)!read(fd, &expirations, sizeof(expirations));
        else
                curl_multi_socket_action(aio->multi, fd,
                                         (event->events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                                 (event->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                                                 (event->events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0),
                                         &running);
}

int ferry_aio_dispatch(struct ferry_aio *aio, int timeout_ms)
{
        struct epoll_event events[AIO_EVENTS];
        int running;
        aio->called = 0;
        if (!handle_is_ours(aio->f))
                return -ECHILD;
        int n = epoll_wait(aio->epoll, events, AIO_EVENTS, timeout_ms);
        if (n < 0 && errno != EINTR)
                return -errno;
        struct sigpipe_guard guard = sigpipe_block(aio->f->tls);
        for (int i = 0; i < n; i++)
                aio_handle(aio, &events[i]);
        if (aio->curl_due_ms <= ferry_clock_ms()) {
                aio->curl_due_ms = AIO_NEVER;
                curl_multi_socket_action(aio->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        aio_collect(aio);
        aio_run_due(aio);
        aio_set_timer(aio);
        sigpipe_restore(&guard);
        return aio->error ? aio->error : aio->called;
}

/* ---- the set ---- */

int ferry_aio_new(struct ferry *f, struct ferry_aio **ret_aio)
{
        struct ferry_aio *aio = calloc(1, sizeof(*aio));
        if (!aio)
                return -ENOMEM;
        *aio = (struct ferry_aio){ .epoll = -1, .timer = -1, .curl_due_ms = AIO_NEVER };
        int r = 0;
        aio->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (aio->epoll < 0)
                r = -errno;
        if (r == 0 && (aio->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0)
                r = -errno;
        if (r == 0 && epoll_ctl(aio->epoll, EPOLL_CTL_ADD, aio->timer,
                                &(struct epoll_event){ .events = EPOLLIN, .data.u64 = aio_data_of(aio->timer) }) < 0)
                r = -errno;
        if (r == 0 && !(aio->multi = connection_multi_new()))
                r = -ENOMEM;
        if (r == 0)
                r = handle_clone(f, aio->multi, &aio->f);
        if (r < 0) {
                ferry_aio_free(aio);
                return r;
        }
        curl_multi_setopt(aio->multi, CURLMOPT_SOCKETFUNCTION, aio_on_socket);
        curl_multi_setopt(aio->multi, CURLMOPT_SOCKETDATA, aio);
        curl_multi_setopt(aio->multi, CURLMOPT_TIMERFUNCTION, aio_on_timer);
        curl_multi_setopt(aio->multi, CURLMOPT_TIMERDATA, aio);
        *ret_aio = aio;
        return 0;
}

struct ferry_aio *ferry_aio_free(struct ferry_aio *aio)
{
        if (!aio || (aio->f && !handle_is_ours(aio->f)))
                return NULL;
        struct sigpipe_guard guard = sigpipe_block(aio->f && aio->f->tls);
        aio->ending = true;
        while (aio->calls) {
                struct aio_call *c = aio->calls;
                if (c->running)
                        (void)http_try_end(&c->http_try, CURLE_ABORTED_BY_CALLBACK);
                (void)problem_classify(c->lane, c->request, &c->reply, -ECANCELED);
                aio_call_back(c, -ECANCELED, NULL);
        }
        for (size_t i = 0; i < aio->n_idle; i++)
                ferry_free(aio->idle[i]);
        free(aio->idle);
        ferry_free(aio->f);
        if (aio->multi)
                curl_multi_cleanup(aio->multi);
        sigpipe_restore(&guard);
        if (aio->timer >= 0)
                close(aio->timer);
        if (aio->epoll >= 0)
                close(aio->epoll);
        free(aio);
        return NULL;
}

int ferry_aio_fd(const struct ferry_aio *aio)
{
        return aio->epoll;
}

size_t ferry_aio_pending(const struct ferry_aio *aio)
{
        return aio->n_calls;
}
