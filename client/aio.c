/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ferry/aio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utlist.h>

#include <ferry/clock.h>

#include "client_internal.h"

/*
 * Calls that do not block: a set of them runs on one thread, and in its program's own event loop by one descriptor,
 * that of the set's epoll. It watches libcurl's sockets, and a timer for whatever is due next: libcurl's own time-outs,
 * a retry, the next request of a wait. A call lives from its start until its callback has returned; between two tries
 * it is in paused, else in running. The decisions are those of the blocking calls: retry.c, wait.c, problem.c.
 *
 * Thread: the one that uses the set; its handle is a copy (handle_clone) that no other thread knows. Contract: ferry.h.
 */

enum {
        AIO_EVENTS = 64,
        AIO_KEPT = 256,         /* connections, and libcurl's handles, kept for later calls */
        AIO_FOREVER = INT32_MAX /* ms */
};

#define AIO_NEVER UINT64_MAX

/* The document in a 2xx answer. */
enum aio_answer { AIO_NOTHING, AIO_OPERATION, AIO_BATCH, AIO_PAGE };

/* The decoded answer of a call. */
struct aio_outcome {
        struct ferry_operation operation;
        struct ferry_operation_results results;
        bool has_operation, has_results;
};

/* One call. In one of the lists of its set; times are those of ferry_clock_ms. */
struct aio_call {
        struct aio_call *prev, *next;
        struct ferry_aio *aio;
        struct http_try http_try; /* its easy handle is the call's */
        unsigned tries;           /* of this request */
        uint64_t due_ms;          /* when the next try starts, while it pauses */
        const struct request *request;
        struct request plain; /* of all but create */
        struct operation_request create;
        struct path path;
        struct reply reply;
        enum aio_answer answer;
        char *awaited; /* until it is done: the path of what is waited for; NULL = the call is no wait */
        struct wait_time wait;
        size_t n_many;
        enum ferry_wait_for wait_for;
        ferry_aio_done done;
        void *context;
};

/* All fields belong to the thread that uses the set. */
struct ferry_aio {
        struct ferry *f; /* settings, multi handle, and the problem of the call that ends */
        int epoll, timer;
        uint64_t curl_due_ms;
        struct aio_call *running, *paused;
        CURL *idle[AIO_KEPT]; /* copies of the handle's */
        size_t n_idle, n_calls;
        bool ending; /* by ferry_aio_free */
        int called;  /* callbacks of one dispatch */
        int error;   /* of epoll_ctl inside a callback of libcurl */
};

/* ---- what libcurl waits for ---- */

/* libcurl's CURLMOPT_SOCKETFUNCTION. known: not NULL once the socket is in the epoll. */
static int aio_on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
        struct ferry_aio *aio = context;
        struct epoll_event event = { .data.fd = fd };
        if (what == CURL_POLL_REMOVE) {
                /* Closing alone leaves the socket in the epoll if a forked child has it as well. */
                (void)epoll_ctl(aio->epoll, EPOLL_CTL_DEL, fd, NULL);
                curl_multi_assign(aio->f->multi, fd, NULL);
                return 0;
        }
        event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
        if (epoll_ctl(aio->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
                aio->error = -errno;
        curl_multi_assign(aio->f->multi, fd, aio);
        return 0;
}

/* libcurl's CURLMOPT_TIMERFUNCTION: when it wants to be called again without an event; -1 = not at all. */
static int aio_on_timer(CURLM *multi, long timeout_ms, void *context)
{
        struct ferry_aio *aio = context;
        aio->curl_due_ms = timeout_ms < 0 ? AIO_NEVER : ferry_clock_ms() + (uint64_t)timeout_ms;
        return 0;
}

/* Sets the timer to the next time at which something is due. */
static void aio_set_timer(struct ferry_aio *aio)
{
        uint64_t due = aio->curl_due_ms, now = ferry_clock_ms();
        struct itimerspec when = { 0 };
        struct aio_call *c;
        DL_FOREACH (aio->paused, c)
                due = c->due_ms < due ? c->due_ms : due;
        if (due != AIO_NEVER) {
                uint64_t left = due > now ? due - now : 0;
                left = left < AIO_FOREVER ? left : AIO_FOREVER;
                when.it_value.tv_sec = (time_t)(left / 1000);
                when.it_value.tv_nsec = left ? (long)(left % 1000) * 1000000 : 1;
        }
        (void)timerfd_settime(aio->timer, 0, &when, NULL); /* cannot fail with what is given here */
}

/* ---- calls ---- */

/* The easy handle is kept for a later call, as far as there is room. */
static void aio_call_free(struct aio_call *c)
{
        struct ferry_aio *aio = c->aio;
        operation_request_clear(&c->create);
        path_clear(&c->path);
        reply_clear(&c->reply);
        free(c->awaited);
        if (aio->n_idle < AIO_KEPT)
                aio->idle[aio->n_idle++] = c->http_try.easy;
        else
                curl_easy_cleanup(c->http_try.easy);
        free(c);
}

/*
 * Makes a call that has no request yet. Returns 0; -ECANCELED: the set is being freed; -ECHILD: another process made
 * it; -ENOMEM.
 */
static int aio_call_new(struct ferry_aio *aio, ferry_aio_done done, void *context, struct aio_call **ret_call)
{
        if (aio->ending)
                return -ECANCELED;
        if (!handle_is_ours(aio->f))
                return -ECHILD;
        struct aio_call *c = calloc(1, sizeof(*c));
        CURL *easy = !c ? NULL : aio->n_idle ? aio->idle[--aio->n_idle] : curl_easy_duphandle(aio->f->easy);
        if (!easy) {
                free(c);
                return -ENOMEM;
        }
        c->http_try.easy = easy;
        c->aio = aio;
        c->done = done;
        c->context = context;
        c->request = &c->plain;
        *ret_call = c;
        return 0;
}

/* Runs the callback of a call that is in no list, then frees the call. The callback may start others. */
static void aio_call_back(struct aio_call *c, int r, const struct aio_outcome *outcome)
{
        struct ferry_aio *aio = c->aio;
        struct ferry_problem problem = aio->f->problem;
        char message[CLIENT_MESSAGE_SIZE];
        struct ferry_aio_result result = { r, &problem, message,
                                           outcome && outcome->has_operation ? &outcome->operation : NULL,
                                           outcome && outcome->has_results ? &outcome->results : NULL };
        memcpy(message, aio->f->message, sizeof(message));
        aio->f->problem.body = NULL;
        aio->n_calls--;
        aio->called++;
        c->done(c->context, &result);
        free(problem.body);
        aio_call_free(c);
}

/* Starts a try of a call that is in no list. 0; -ENOMEM. */
static int aio_try(struct aio_call *c)
{
        c->tries++;
        c->reply.secret = c->request->secret;
        c->http_try = (struct http_try){
                .f = c->aio->f, .easy = c->http_try.easy, .request = c->request, .reply = &c->reply
        };
        int r = http_try_begin(&c->http_try);
        if (r == 0)
                DL_APPEND(c->aio->running, c);
        return r;
}

/* Has aio_resume_due() start the next try after delay_ms. */
static void aio_pause(struct aio_call *c, uint64_t delay_ms)
{
        c->due_ms = ferry_clock_ms() + delay_ms;
        DL_APPEND(c->aio->paused, c);
}

/* ---- waits ---- */

/* Prepares the next request of a wait. 0; -EINVAL; -ENOMEM. */
static int aio_wait_ask(struct aio_call *c)
{
        uint64_t limit = wait_ask(&c->wait, WAIT_REQUEST_MS);
        path_clear(&c->path);
        reply_clear(&c->reply);
        path_add(&c->path, c->awaited);
        c->path.queried = strchr(c->awaited, '?');
        path_query_number(&c->path, "wait_ms", c->wait.slice_ms);
        c->tries = 0;
        c->plain = (struct request){
                .exchange = { .method = "GET", .path = c->path.text.data, .wait_ms = c->wait.slice_ms },
                .deadline_ms = limit,
                .awaits = true
        };
        return c->path.error;
}

/* Whether a wait goes on after a result; then the next request is prepared. */
static bool aio_wait_goes_on(struct aio_call *c, int *r, bool done)
{
        uint64_t pause;
        if ((*r == 0 && done) || !wait_goes_on(&c->wait, c->aio->f, r, &pause))
                return false;
        *r = aio_wait_ask(c);
        if (*r < 0)
                return false;
        aio_pause(c, pause);
        return true;
}

/* ---- answers ---- */

/* Decodes a 2xx answer. */
static int aio_decode(struct aio_call *c, struct aio_outcome *outcome, bool *ret_done)
{
        struct ferry *f = c->aio->f;
        int r = 0;
        if (c->answer == AIO_OPERATION) {
                r = call_decode_reply(f, &c->reply, operation_decode, &outcome->operation);
                outcome->has_operation = r == 0;
                *ret_done = outcome->operation.done;
        } else if (c->answer != AIO_NOTHING) {
                r = results_decode(f, &c->reply, c->answer == AIO_BATCH ? "results" : "operations", c->n_many,
                                   &outcome->results);
                outcome->has_results = r == 0;
                *ret_done = results_are_done(&outcome->results, c->wait_for);
        }
        return r;
}

/*
 * The request of a call is over, after all tries. r: the result of the last one. A wait may go on with the next
 * request; else the callback is run, and the call freed.
 */
static void aio_finish(struct aio_call *c, int r)
{
        struct aio_outcome outcome = { 0 };
        bool done = false;
        r = problem_classify(c->aio->f, c->request, &c->reply, r);
        if (r == 0) {
                r = aio_decode(c, &outcome, &done);
        } else if ((r == FERRY_E_NOT_FOUND || r == FERRY_E_GONE) && c->reply.lost && c->answer == AIO_NOTHING) {
                problem_clear(c->aio->f); /* a DELETE whose first answer was lost */
                r = 0;
        }
        if (!c->awaited || !aio_wait_goes_on(c, &r, done))
                aio_call_back(c, r, &outcome);
        ferry_operation_clear(&outcome.operation);
        ferry_operation_results_clear(&outcome.results);
}

/* The end of a try of a call that runs. May run the callback and free the call. */
static void aio_end_try(struct aio_call *c, CURLcode code)
{
        uint64_t delay;
        DL_DELETE(c->aio->running, c);
        int r = http_try_end(&c->http_try, code);
        if (call_retry(c->aio->f, c->request, &c->reply, r, c->tries, &delay))
                aio_pause(c, delay);
        else
                aio_finish(c, r);
}

/* ---- dispatch ---- */

/* Ends the tries that libcurl has finished. */
static void aio_collect(struct ferry_aio *aio)
{
        int left;
        for (CURLMsg *m = curl_multi_info_read(aio->f->multi, &left); m;
             m = curl_multi_info_read(aio->f->multi, &left)) {
                struct http_try *t = NULL;
                CURLcode code = m->data.result;
                if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t) == CURLE_OK)
                        aio_end_try((struct aio_call *)(void *)((char *)t - offsetof(struct aio_call, http_try)), code);
        }
}

/* Starts the tries whose pause is over. */
static void aio_resume_due(struct ferry_aio *aio)
{
        uint64_t now = ferry_clock_ms();
        struct aio_call *c, *next;
        DL_FOREACH_SAFE (aio->paused, c, next) { /* next stays: a callback frees no call but its own */
                if (c->due_ms > now)
                        continue;
                DL_DELETE(aio->paused, c);
                int r = aio_try(c);
                if (r < 0)
                        aio_finish(c, r);
        }
}

/* Gives libcurl an event of one of its sockets, or empties the timer. */
static void aio_handle(struct ferry_aio *aio, const struct epoll_event *event)
{
        uint64_t expirations;
        int fd = event->data.fd, running;
        if (fd == aio->timer)
                (void)!read(fd, &expirations, sizeof(expirations));
        else
                curl_multi_socket_action(aio->f->multi, fd,
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
                curl_multi_socket_action(aio->f->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        aio_collect(aio);
        aio_resume_due(aio);
        aio_set_timer(aio);
        sigpipe_restore(&guard);
        return aio->error ? aio->error : aio->called;
}

/* ---- the set ---- */

/* Makes the epoll, with the timer in it. Returns 0 or -errno; ferry_aio_free() closes what there is. */
static int aio_watch_timer(struct ferry_aio *aio)
{
        aio->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (aio->epoll < 0)
                return -errno;
        aio->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        struct epoll_event event = { .events = EPOLLIN, .data.fd = aio->timer };
        if (aio->timer < 0 || epoll_ctl(aio->epoll, EPOLL_CTL_ADD, aio->timer, &event) < 0)
                return -errno;
        return 0;
}

int ferry_aio_new(struct ferry *f, struct ferry_aio **ret_aio)
{
        struct ferry_aio *aio = calloc(1, sizeof(*aio));
        if (!aio)
                return -ENOMEM;
        aio->epoll = aio->timer = -1;
        aio->curl_due_ms = AIO_NEVER;
        int r = aio_watch_timer(aio);
        if (r == 0)
                r = handle_clone(f, AIO_KEPT, &aio->f);
        if (r < 0) {
                ferry_aio_free(aio);
                return r;
        }
        curl_multi_setopt(aio->f->multi, CURLMOPT_SOCKETFUNCTION, aio_on_socket);
        curl_multi_setopt(aio->f->multi, CURLMOPT_SOCKETDATA, aio);
        curl_multi_setopt(aio->f->multi, CURLMOPT_TIMERFUNCTION, aio_on_timer);
        curl_multi_setopt(aio->f->multi, CURLMOPT_TIMERDATA, aio);
        *ret_aio = aio;
        return 0;
}

/* Ends a call that is in no list: its callback gets -ECANCELED. */
static void aio_cancel(struct aio_call *c)
{
        (void)problem_classify(c->aio->f, c->request, &c->reply, -ECANCELED);
        aio_call_back(c, -ECANCELED, NULL);
}

struct ferry_aio *ferry_aio_free(struct ferry_aio *aio)
{
        struct aio_call *c;
        if (!aio || (aio->f && !handle_is_ours(aio->f)))
                return NULL;
        struct sigpipe_guard guard = sigpipe_block(aio->f && aio->f->tls);
        aio->ending = true;
        while ((c = aio->running)) {
                DL_DELETE(aio->running, c);
                (void)http_try_end(&c->http_try, CURLE_ABORTED_BY_CALLBACK);
                aio_cancel(c);
        }
        while ((c = aio->paused)) {
                DL_DELETE(aio->paused, c);
                aio_cancel(c);
        }
        for (size_t i = 0; i < aio->n_idle; i++)
                curl_easy_cleanup(aio->idle[i]);
        if (aio->f)
                curl_multi_setopt(aio->f->multi, CURLMOPT_SOCKETFUNCTION, NULL); /* of connections that it closes now */
        ferry_free(aio->f);
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

/* The request goes out with the next dispatch, which the timer brings about; r: the result of making it. */
static int aio_start(struct aio_call *c, int r)
{
        struct ferry_aio *aio = c->aio;
        const char *wrong = r == 0 ? request_check(&c->request->exchange) : NULL;
        if (wrong)
                r = problem_argument(aio->f, wrong);
        if (r == 0)
                r = aio_try(c);
        if (r != 0) {
                aio_call_free(c);
                return r;
        }
        aio->n_calls++;
        aio_set_timer(aio);
        return 0;
}

static int aio_create(struct ferry_aio *aio, const struct operation_specs *specs, ferry_aio_done done, void *context)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        c->request = &c->create.request;
        c->n_many = specs->n;
        c->answer = specs->batch ? AIO_BATCH : AIO_OPERATION;
        return aio_start(c, operation_request_make(aio->f, specs, &c->create));
}

int ferry_aio_create_operation(struct ferry_aio *aio, const struct ferry_operation_spec *spec, ferry_aio_done done,
                               void *context)
{
        return aio_create(aio, &(struct operation_specs){ spec, 1, false }, done, context);
}

int ferry_aio_create_operations(struct ferry_aio *aio, const struct ferry_operation_spec *specs, size_t n,
                                ferry_aio_done done, void *context)
{
        return aio_create(aio, &(struct operation_specs){ specs, n, true }, done, context);
}

/* Starts a wait for what is at the path; r: the result of making it. */
static int aio_wait_start(struct aio_call *c, struct path *path, int r, uint64_t timeout_ms)
{
        wait_start(&c->wait, timeout_ms);
        c->awaited = r == 0 ? ferry_buffer_take(&path->text) : NULL;
        if (r == 0)
                r = c->awaited ? aio_wait_ask(c) : -ENOMEM;
        return aio_start(c, r);
}

int ferry_aio_wait_operation(struct ferry_aio *aio, const char *id, uint64_t timeout_ms, ferry_aio_done done,
                             void *context)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        c->answer = AIO_OPERATION;
        return aio_wait_start(c, &path, call_path(aio->f, "/v1/operations/", id, "", &path), timeout_ms);
}

int ferry_aio_wait_operations(struct ferry_aio *aio, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                              uint64_t timeout_ms, ferry_aio_done done, void *context)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        c->answer = AIO_PAGE;
        c->n_many = n;
        c->wait_for = wait_for;
        return aio_wait_start(c, &path, results_path(aio->f, ids, n, wait_for, &path), timeout_ms);
}

/* A request without a body. */
static int aio_simple(struct ferry_aio *aio, const char *method, const char *id, const char *suffix,
                      enum aio_answer answer, ferry_aio_done done, void *context)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        r = call_path(aio->f, "/v1/operations/", id, suffix, &c->path);
        c->answer = answer;
        c->plain = (struct request){ .exchange = { .method = method, .path = c->path.text.data }, .repeatable = true };
        return aio_start(c, r);
}

int ferry_aio_cancel_operation(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context)
{
        return aio_simple(aio, "POST", id, "/cancel", AIO_OPERATION, done, context);
}

int ferry_aio_delete_operation(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context)
{
        return aio_simple(aio, "DELETE", id, "", AIO_NOTHING, done, context);
}
