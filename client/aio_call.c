/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#include <ferry/clock.h>

#include "aio_internal.h"
#include "connection.h"
#include "decode.h"
#include "sizes.h"

enum { AIO_CONNECTIONS = 256 }; /* kept for later calls */

/* ---- calls ---- */

/* The lanes with a connection are taken first. */
static void aio_leave_lane(struct ferry_aio *aio, struct ferry *lane)
{
        size_t at = aio->n_idle++;
        if (at - aio->n_closed >= AIO_CONNECTIONS)
                connection_close(lane);
        if (lane->connection == CONNECTION_CLOSED) {
                aio->idle[at] = aio->idle[aio->n_closed];
                at = aio->n_closed++;
        }
        aio->idle[at] = lane;
}

static void aio_call_free(struct aio_call *c)
{
        operation_request_clear(&c->create);
        path_clear(&c->path);
        reply_clear(&c->reply);
        free(c->awaited);
        if (c->lane)
                aio_leave_lane(c->aio, c->lane);
        free(c);
}

/* An idle lane, or a new one, for which there is room when it becomes idle. */
static int aio_take_lane(struct ferry_aio *aio, struct ferry **ret_lane)
{
        if (aio->n_idle) {
                *ret_lane = aio->idle[--aio->n_idle];
                if (aio->n_closed > aio->n_idle)
                        aio->n_closed = aio->n_idle;
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
        if (aio->ending)
                return -ECANCELED;
        if (!handle_is_ours(aio->f))
                return -ECHILD;
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
        *ret_call = c;
        return 0;
}

void aio_call_back(struct aio_call *c, int r, const struct aio_outcome *outcome)
{
        struct ferry_aio *aio = c->aio;
        struct ferry_aio_result result = { r, &c->lane->problem, c->lane->message,
                                           outcome && outcome->has_operation ? &outcome->operation : NULL,
                                           outcome && outcome->has_results ? &outcome->results : NULL };
        DL_DELETE(aio->calls, c);
        aio->n_calls--;
        aio->called++;
        c->done(c->context, &result);
        aio_call_free(c);
}

/* Schedules the next try. */
static void aio_later(struct aio_call *c, uint64_t delay_ms)
{
        c->due_ms = ferry_clock_ms() + delay_ms;
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
        if ((*r == 0 && done) || !wait_goes_on(&c->wait, c->lane, r, &pause))
                return false;
        *r = aio_wait_ask(c);
        if (*r < 0)
                return false;
        aio_later(c, pause);
        return true;
}

/* ---- tries ---- */

/* Decodes a 2xx answer, in our layout. */
static int aio_decode(struct aio_call *c, struct aio_outcome *outcome, bool *ret_done)
{
        int r = 0;
        if (c->answer == AIO_OPERATION) {
                r = call_decode_reply(c->lane, &c->reply, operation_decode, &outcome->operation);
                outcome->has_operation = r == 0;
                *ret_done = outcome->operation.done;
        } else if (c->answer != AIO_NOTHING) {
                r = (c->answer == AIO_BATCH ? results_decode_batch : results_decode_page)(c->lane, &c->reply,
                                                                                          &outcome->results);
                if (r == 0 && outcome->results.n != c->n_many)
                        r = problem_protocol(c->lane, "another number of operations was asked for", "");
                outcome->has_results = r == 0;
                *ret_done = results_are_done(&outcome->results, c->wait_for);
        }
        return r;
}

/* Calls back with the program's layout of what came. */
static void aio_give(struct aio_call *c, int r, struct aio_outcome *outcome)
{
        struct ferry_sizes sizes = ferry_sizes_here;
        struct aio_outcome given = { 0 };
        sizes.descriptor = c->descriptor_size;
        sizes.operation = c->operation_size;
        sizes.operation_result = c->result_size;
        int made = 0;
        if (outcome->has_operation) {
                made = operation_give_descriptors(&outcome->operation, sizes.descriptor);
                given.has_operation = made == 0;
                given.operation = outcome->operation;
                outcome->operation = (struct ferry_operation){ 0 };
        } else if (outcome->has_results) {
                made = results_give(&outcome->results, &given.results, &sizes);
                given.has_results = made == 0;
        }
        r = made < 0 ? made : r;
        aio_call_back(c, r, &given);
        ferry_operation_clear(&given.operation);
        ferry_operation_results_clear_sized(&given.results, &sizes);
}

static void aio_finish(struct aio_call *c, int r)
{
        struct aio_outcome outcome = { 0 };
        bool done = false;
        r = problem_classify(c->lane, c->request, &c->reply, r);
        if (r == 0) {
                r = aio_decode(c, &outcome, &done);
        } else if ((r == FERRY_E_NOT_FOUND || r == FERRY_E_GONE) && c->reply.lost && c->answer == AIO_NOTHING) {
                problem_clear(c->lane); /* a DELETE whose first answer was lost */
                r = 0;
        }
        if (!c->awaited || !aio_wait_goes_on(c, &r, done))
                aio_give(c, r, &outcome);
        ferry_operation_clear(&outcome.operation);
        ferry_operation_results_clear(&outcome.results);
}

/* Has the epoll tell of the events, POLLIN or POLLOUT, of a call's socket; 0: of none. 0; -errno. */
static int aio_watch(struct aio_call *c, short events)
{
        int operation = !events ? EPOLL_CTL_DEL : c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
        struct epoll_event event = { .events = (events & POLLIN ? EPOLLIN : 0u) | (events & POLLOUT ? EPOLLOUT : 0u),
                                     .data.ptr = c };
        if (c->watched == events)
                return 0;
        c->watched = events;
        return epoll_ctl(c->aio->epoll, operation, c->lane->socket, &event) < 0 ? -errno : 0;
}

void aio_http_try_end(struct aio_call *c, CURLcode code)
{
        uint64_t delay;
        c->running = false;
        (void)aio_watch(c, 0);
        int r = http_try_end(&c->http_try, code);
        if (call_retry(c->lane, c->request, &c->reply, r, c->tries, &delay))
                aio_later(c, delay);
        else
                aio_finish(c, r);
}

/* Does what the try needs. */
static void aio_go_on(struct aio_call *c)
{
        if (c->http_try.need == HTTP_TRY_ANEW) {
                /* Closing alone leaves the socket in the epoll if a forked child has it as well. */
                (void)aio_watch(c, 0);
                http_try_anew(&c->http_try);
        }
        switch (c->http_try.need) {
        case HTTP_TRY_NOTHING:
                aio_http_try_end(c, c->http_try.code);
                break;
        case HTTP_TRY_SOCKET:
                if (aio_watch(c, c->http_try.events) < 0)
                        aio_http_try_end(c, CURLE_OUT_OF_MEMORY);
                break;
        case HTTP_TRY_CONNECTION:
        case HTTP_TRY_ANEW: /* done above */
                break;
        }
}

void aio_http_try_begin(struct aio_call *c)
{
        c->tries++;
        c->reply.secret = c->request->secret;
        c->http_try = (struct http_try){ .f = c->lane, .request = c->request, .reply = &c->reply };
        curl_easy_setopt(c->lane->easy, CURLOPT_PRIVATE, c);
        int r = http_try_begin(&c->http_try);
        if (r < 0) {
                aio_finish(c, r);
        } else {
                c->running = true;
                aio_go_on(c);
        }
}

void aio_connected(struct aio_call *c, CURLcode code)
{
        http_try_connected(&c->http_try, code);
        aio_go_on(c);
}

void aio_ready(struct aio_call *c)
{
        http_try_step(&c->http_try);
        aio_go_on(c);
}

/* ---- the calls ---- */

/* The first try starts with the next dispatch, which the timer brings about. */
static int aio_start(struct aio_call *c, int r)
{
        struct ferry_aio *aio = c->aio;
        if (r != 0) {
                aio_call_free(c);
                return r;
        }
        aio->n_calls++;
        aio->n_made++;
        DL_PREPEND(aio->calls, c);
        aio_arm(aio, 0);
        return 0;
}

static void aio_expect(struct aio_call *c, enum aio_answer answer, const struct ferry_sizes *sizes)
{
        c->answer = answer;
        c->descriptor_size = sizes->descriptor;
        c->operation_size = sizes->operation;
        if (answer == AIO_BATCH || answer == AIO_PAGE)
                c->result_size = sizes->operation_result;
}

static int aio_create(struct ferry_aio *aio, const struct operation_specs *specs, ferry_aio_done done, void *context,
                      const struct ferry_sizes *sizes)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        c->request = &c->create.request;
        c->n_many = specs->n;
        aio_expect(c, specs->batch ? AIO_BATCH : AIO_OPERATION, sizes);
        return aio_start(c, operation_request_make(c->lane, specs, sizes, &c->create));
}

int ferry_aio_create_operation_sized(struct ferry_aio *aio, const struct ferry_operation_spec *spec,
                                     ferry_aio_done done, void *context, const struct ferry_sizes *sizes)
{
        return aio_create(aio, &(struct operation_specs){ spec, 1, false }, done, context, sizes);
}

int ferry_aio_create_operations_sized(struct ferry_aio *aio, const struct ferry_operation_spec *specs, size_t n,
                                      ferry_aio_done done, void *context, const struct ferry_sizes *sizes)
{
        return aio_create(aio, &(struct operation_specs){ specs, n, true }, done, context, sizes);
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

int ferry_aio_wait_operation_sized(struct ferry_aio *aio, const char *id, uint64_t timeout_ms, ferry_aio_done done,
                                   void *context, const struct ferry_sizes *sizes)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        aio_expect(c, AIO_OPERATION, sizes);
        return aio_wait_start(c, &path, call_path(c->lane, "/v1/operations/", id, "", &path), timeout_ms);
}

int ferry_aio_wait_operations_sized(struct ferry_aio *aio, const char *const *ids, size_t n,
                                    enum ferry_wait_for wait_for, uint64_t timeout_ms, ferry_aio_done done,
                                    void *context, const struct ferry_sizes *sizes)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        aio_expect(c, AIO_PAGE, sizes);
        c->n_many = n;
        c->wait_for = wait_for;
        return aio_wait_start(c, &path, results_path(c->lane, ids, n, wait_for, &path), timeout_ms);
}

/* A request without a body. */
static int aio_simple(struct ferry_aio *aio, const char *method, const char *id, const char *suffix,
                      const struct ferry_sizes *sizes, ferry_aio_done done, void *context)
{
        struct aio_call *c;
        int r = aio_call_new(aio, done, context, &c);
        if (r < 0)
                return r;
        r = call_path(c->lane, "/v1/operations/", id, suffix, &c->path);
        if (sizes)
                aio_expect(c, AIO_OPERATION, sizes);
        c->plain = (struct request){ .exchange = { .method = method, .path = c->path.text.data }, .repeatable = true };
        return aio_start(c, r);
}

int ferry_aio_cancel_operation_sized(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context,
                                     const struct ferry_sizes *sizes)
{
        return aio_simple(aio, "POST", id, "/cancel", sizes, done, context);
}

int ferry_aio_delete_operation(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context)
{
        return aio_simple(aio, "DELETE", id, "", NULL, done, context);
}
