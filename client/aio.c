/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <ferry/aio.h>

#include "attempt.h"
#include "client_internal.h"
#include "decode.h"
#include "sigpipe.h"
#include "sizes.h"

enum {
        AIO_EVENTS = 64,
        AIO_CONNECTIONS = 256,   /* kept for later calls */
        AIO_SLICE_MS = 30000,    /* of one parked request of a wait */
        AIO_AWAY_MS = 60000,     /* as ferry_wait_operation */
        AIO_PAUSE_MS = 200,      /* before a worker that is away is asked again */
        AIO_EARLY_MS = 50,       /* a worker that does not wait is asked no more often than this */
        AIO_ANSWER_MS = 1000,    /* how late the last answer of a wait may be */
        AIO_FOREVER = INT32_MAX, /* ms */
};

#define AIO_NEVER UINT64_MAX

/* One call. In a list of its set; times are those of clock_ms. */
struct aio_call {
        struct aio_call *next, **link;
        struct ferry_aio *aio;
        struct ferry *lane; /* a handle of its own in the set's multi handle */
        struct attempt attempt;
        bool running;      /* the attempt is in the multi handle */
        unsigned attempts; /* of this request */
        uint64_t due_ms;   /* when the next attempt starts, while none runs */
        const struct request *request;
        struct request plain; /* of all but create */
        struct operation_request create;
        struct path path;
        struct reply reply;
        bool has_operation;   /* the answer is one */
        bool waits;           /* until it is done */
        uint64_t deadline_ms; /* of a wait */
        uint64_t seen_ms, asked_ms;
        size_t descriptor_size;
        char *id;
        ferry_aio_done done;
        void *context;
};

/* All fields belong to the thread that uses the set. */
struct ferry_aio {
        struct ferry *f; /* what lanes are copies of */
        bool tls;
        CURLM *multi;
        int epoll, timer;
        uint64_t curl_due_ms;
        struct aio_call *calls;
        struct ferry **idle; /* lanes; room for all n_lanes */
        size_t n_idle, n_lanes, n_calls;
        int called; /* callbacks of one dispatch */
        int error;  /* of epoll_ctl inside a callback of libcurl */
};

/* ---- what libcurl waits for ---- */

static int aio_on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
        struct ferry_aio *aio = context;
        struct epoll_event event = { .data.fd = fd };
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
        aio->curl_due_ms = timeout_ms < 0 ? AIO_NEVER : clock_ms() + (uint64_t)timeout_ms;
        return 0;
}

/* The timer stands at the next time at which something is due. */
static int aio_set_timer(struct ferry_aio *aio)
{
        uint64_t now = clock_ms(), due = aio->curl_due_ms;
        struct itimerspec when = { 0 };
        for (struct aio_call *c = aio->calls; c; c = c->next) {
                uint64_t one = c->running ? exchange_deadline(&c->attempt) : c->due_ms;
                due = one < due ? one : due;
        }
        if (due != AIO_NEVER) {
                uint64_t left = due > now ? due - now : 0;
                left = left < AIO_FOREVER ? left : AIO_FOREVER;
                when.it_value.tv_sec = (time_t)(left / 1000);
                when.it_value.tv_nsec = left ? (long)(left % 1000) * 1000000 : 1;
        }
        return timerfd_settime(aio->timer, 0, &when, NULL) < 0 ? -errno : 0;
}

/* ---- calls ---- */

static void aio_unlink(struct aio_call *c)
{
        *c->link = c->next;
        if (c->next)
                c->next->link = c->link;
}

static void aio_link(struct aio_call *c, struct aio_call **list)
{
        c->next = *list;
        c->link = list;
        if (c->next)
                c->next->link = &c->next;
        *list = c;
}

static void aio_call_free(struct aio_call *c)
{
        operation_request_clear(&c->create);
        path_clear(&c->path);
        reply_clear(&c->reply);
        free(c->id);
        if (c->lane)
                c->aio->idle[c->aio->n_idle++] = c->lane;
        free(c);
}

/* An idle lane, or a new one, for which there is room when it becomes idle. */
static int aio_take_lane(struct ferry_aio *aio, struct ferry **ret_lane)
{
        if (aio->n_idle) {
                *ret_lane = aio->idle[--aio->n_idle];
                return 0;
        }
        struct ferry **idle = realloc(aio->idle, (aio->n_lanes + 1) * sizeof(struct ferry *));
        if (!idle)
                return -ENOMEM;
        aio->idle = idle;
        int r = handle_clone(aio->f, aio->multi, ret_lane);
        aio->n_lanes += r == 0;
        return r;
}

static int aio_call_new(struct ferry_aio *aio, ferry_aio_done done, void *context, struct aio_call **ret_call)
{
        struct aio_call *c = calloc(1, sizeof(*c));
        int r = c ? aio_take_lane(aio, &c->lane) : -ENOMEM;
        if (r < 0) {
                free(c);
                return r;
        }
        c->aio = aio;
        c->done = done;
        c->context = context;
        c->request = &c->plain;
        c->seen_ms = clock_ms();
        problem_clear(c->lane);
        *ret_call = c;
        return 0;
}

static void aio_call_back(struct aio_call *c, int r, const struct ferry_operation *operation)
{
        struct ferry_aio *aio = c->aio;
        struct ferry_aio_result result = { r, &c->lane->problem, c->lane->message, operation };
        aio->n_calls--;
        aio->called++;
        c->done(c->context, &result);
        aio_call_free(c);
}

/* The next attempt starts after a while. */
static void aio_later(struct aio_call *c, uint64_t delay_ms)
{
        c->due_ms = clock_ms() + delay_ms;
}

/* ---- waits ---- */

static uint64_t aio_left(const struct aio_call *c, uint64_t now)
{
        return c->deadline_ms > now ? c->deadline_ms - now : 0;
}

static int aio_wait_ask(struct aio_call *c)
{
        uint64_t now = clock_ms(), slice = aio_left(c, now);
        slice = slice < AIO_SLICE_MS ? slice : AIO_SLICE_MS;
        path_clear(&c->path);
        reply_clear(&c->reply);
        int r = call_path(c->lane, "/v1/operations/", c->id, "", &c->path);
        path_query_number(&c->path, "wait_ms", slice);
        if (r == 0)
                r = c->path.error;
        c->attempts = 0;
        c->asked_ms = now;
        c->plain = (struct request){ .exchange = { .method = "GET", .path = c->path.text.data, .wait_ms = slice },
                                     .deadline_ms = c->deadline_ms == AIO_NEVER ? 0 : c->deadline_ms + AIO_ANSWER_MS };
        return r;
}

/* Whether a wait goes on after a result; then the next request is prepared. */
static bool aio_wait_goes_on(struct aio_call *c, int *r, const struct ferry_operation *o)
{
        uint64_t now = clock_ms(), pause = AIO_PAUSE_MS;
        if (*r == 0) {
                c->seen_ms = now;
                if (o->done)
                        return false;
                pause = now - c->asked_ms < AIO_EARLY_MS ? AIO_EARLY_MS : 0;
        } else {
                int status = c->lane->problem.http_status;
                bool away = *r == -ECONNREFUSED || *r == -ECONNRESET || *r == -EHOSTUNREACH || *r == -ETIMEDOUT ||
                            (*r > 0 && (status == 429 || status == 503));
                if (!away || (c->deadline_ms == AIO_NEVER && now - c->seen_ms >= AIO_AWAY_MS))
                        return false;
        }
        if (aio_left(c, now) == 0) {
                *r = -ETIMEDOUT;
                return false;
        }
        int asked = aio_wait_ask(c);
        if (asked < 0) {
                *r = asked;
                return false;
        }
        aio_later(c, pause < aio_left(c, now) ? pause : aio_left(c, now));
        return true;
}

/* ---- attempts ---- */

static void aio_finish(struct aio_call *c, int r)
{
        struct ferry_operation operation = { 0 };
        bool has = false;
        r = problem_judge(c->lane, c->request, &c->reply, r);
        if (r == 0 && c->has_operation) {
                r = call_decode_reply(c->lane, &c->reply, operation_decode, &operation);
                if (r == 0)
                        r = operation_give_descriptors(&operation, c->descriptor_size);
                has = r == 0;
        } else if ((r == FERRY_E_NOT_FOUND || r == FERRY_E_GONE) && c->reply.lost && !c->has_operation) {
                problem_clear(c->lane); /* a DELETE whose first answer was lost */
                r = 0;
        }
        if (!c->waits || !aio_wait_goes_on(c, &r, &operation)) {
                aio_unlink(c);
                aio_call_back(c, r, has ? &operation : NULL);
        }
        ferry_operation_clear(&operation);
}

static void aio_attempt_end(struct aio_call *c, CURLcode code)
{
        uint64_t delay;
        c->running = false;
        int r = exchange_end(&c->attempt, code);
        if (perform_again(c->lane, c->request, &c->reply, r, c->attempts, &delay))
                aio_later(c, delay);
        else
                aio_finish(c, r);
}

static void aio_attempt_begin(struct aio_call *c)
{
        c->attempts++;
        c->reply.secret = c->request->secret;
        c->attempt = (struct attempt){ .f = c->lane, .request = c->request, .reply = &c->reply };
        curl_easy_setopt(c->lane->easy, CURLOPT_PRIVATE, c);
        int r = exchange_begin(&c->attempt);
        if (r < 0)
                aio_finish(c, r);
        else
                c->running = true;
}

/* Starts what is due, ends what is late. Each step may change the list: looks from the start again. */
static void aio_run_due(struct ferry_aio *aio)
{
        for (struct aio_call *c = aio->calls; c;) {
                struct aio_call *next = c->next;
                uint64_t now = clock_ms();
                bool late = c->running && exchange_deadline(&c->attempt) <= now, due = !c->running && c->due_ms <= now;
                if (late)
                        aio_attempt_end(c, CURLE_OPERATION_TIMEDOUT);
                else if (due)
                        aio_attempt_begin(c);
                c = late || due ? aio->calls : next;
        }
}

static void aio_collect(struct ferry_aio *aio)
{
        int left;
        for (CURLMsg *m = curl_multi_info_read(aio->multi, &left); m; m = curl_multi_info_read(aio->multi, &left)) {
                struct aio_call *c = NULL;
                CURLcode code = m->data.result;
                if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c) == CURLE_OK)
                        aio_attempt_end(c, code);
        }
}

int ferry_aio_dispatch(struct ferry_aio *aio, int timeout_ms)
{
        struct epoll_event events[AIO_EVENTS];
        uint64_t expirations;
        int running;
        aio->called = 0;
        int n = epoll_wait(aio->epoll, events, AIO_EVENTS, timeout_ms);
        if (n < 0 && errno != EINTR)
                return -errno;
        struct sigpipe_guard guard = sigpipe_block(aio->tls);
        for (int i = 0; i < n; i++) {
                unsigned what = events[i].events;
                if (events[i].data.fd == aio->timer)
                        (void)!read(aio->timer, &expirations, sizeof(expirations));
                else
                        curl_multi_socket_action(aio->multi, events[i].data.fd,
                                                 (what & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                                         (what & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                                                         (what & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0),
                                                 &running);
        }
        if (aio->curl_due_ms <= clock_ms()) {
                aio->curl_due_ms = AIO_NEVER;
                curl_multi_socket_action(aio->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        aio_collect(aio);
        aio_run_due(aio);
        int r = aio->error ? aio->error : aio_set_timer(aio);
        sigpipe_restore(&guard);
        return r < 0 ? r : aio->called;
}

/* ---- the set ---- */

int ferry_aio_new(struct ferry *f, struct ferry_aio **ret_aio)
{
        struct ferry_aio *aio = calloc(1, sizeof(*aio));
        if (!aio)
                return -ENOMEM;
        *aio = (struct ferry_aio){ .tls = f->tls, .epoll = -1, .timer = -1, .curl_due_ms = AIO_NEVER };
        int r = 0;
        aio->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (aio->epoll < 0)
                r = -errno;
        if (r == 0 && (aio->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0)
                r = -errno;
        if (r == 0 && epoll_ctl(aio->epoll, EPOLL_CTL_ADD, aio->timer,
                                &(struct epoll_event){ .events = EPOLLIN, .data.fd = aio->timer }) < 0)
                r = -errno;
        if (r == 0 && !(aio->multi = curl_multi_init()))
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
        curl_multi_setopt(aio->multi, CURLMOPT_MAXCONNECTS, (long)AIO_CONNECTIONS);
        *ret_aio = aio;
        return 0;
}

struct ferry_aio *ferry_aio_free(struct ferry_aio *aio)
{
        if (!aio)
                return NULL;
        struct sigpipe_guard guard = sigpipe_block(aio->tls);
        while (aio->calls) {
                struct aio_call *c = aio->calls;
                if (c->running)
                        (void)exchange_end(&c->attempt, CURLE_ABORTED_BY_CALLBACK);
                (void)problem_judge(c->lane, c->request, &c->reply, -ECANCELED);
                aio_unlink(c);
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

/* ---- the calls ---- */

/* The first attempt starts with the next dispatch, which the timer brings about. */
static int aio_start(struct aio_call *c, int r)
{
        struct ferry_aio *aio = c->aio;
        if (r != 0) {
                aio_call_free(c);
                return r;
        }
        aio->n_calls++;
        aio_link(c, &aio->calls);
        return aio_set_timer(aio);
}

int ferry_aio_create_operation_sized(struct ferry_aio *aio, const struct ferry_operation_spec *spec,
                                     ferry_aio_done done, void *context, const struct ferry_sizes *sizes)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        c->request = &c->create.request;
        c->has_operation = true;
        c->descriptor_size = sizes->descriptor;
        return aio_start(c, operation_request_make(c->lane, spec, sizes, &c->create));
}

int ferry_aio_wait_operation_sized(struct ferry_aio *aio, const char *id, uint64_t timeout_ms, ferry_aio_done done,
                                   void *context, const struct ferry_sizes *sizes)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        c->waits = c->has_operation = true;
        c->descriptor_size = sizes->descriptor;
        if (__builtin_add_overflow(clock_ms(), timeout_ms, &c->deadline_ms))
                c->deadline_ms = AIO_NEVER;
        c->id = id ? strdup(id) : NULL;
        if (id && !c->id)
                r = -ENOMEM;
        return aio_start(c, r == 0 ? aio_wait_ask(c) : r);
}

/* A request without a body. */
static int aio_simple(struct ferry_aio *aio, const char *method, const char *id, const char *suffix, size_t descriptor,
                      ferry_aio_done done, void *context)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        r = call_path(c->lane, "/v1/operations/", id, suffix, &c->path);
        c->has_operation = descriptor != 0;
        c->descriptor_size = descriptor;
        c->plain = (struct request){ .exchange = { .method = method, .path = c->path.text.data }, .repeatable = true };
        return aio_start(c, r);
}

int ferry_aio_cancel_operation_sized(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context,
                                     const struct ferry_sizes *sizes)
{
        return aio_simple(aio, "POST", id, "/cancel", sizes->descriptor, done, context);
}

int ferry_aio_delete_operation(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context)
{
        return aio_simple(aio, "DELETE", id, "", 0, done, context);
}
