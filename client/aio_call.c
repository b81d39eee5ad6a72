/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "aio_internal.h"
#include "decode.h"
#include "sizes.h"

enum {
        AIO_SLICE_MS = 30000, /* of one parked request of a wait */
        AIO_AWAY_MS = 60000,  /* as ferry_wait_operation */
        AIO_PAUSE_MS = 200,   /* before a worker that is away is asked again */
        AIO_EARLY_MS = 50,    /* a worker that does not wait is asked no more often than this */
        AIO_ANSWER_MS = 1000, /* how late the last answer of a wait may be */
};

/* ---- calls ---- */

void aio_unlink(struct aio_call *c)
{
        *c->link = c->next;
        if (c->next)
                c->next->link = c->link;
}

void aio_link(struct aio_call *c, struct aio_call **list)
{
        c->next = *list;
        c->link = list;
        if (c->next)
                c->next->link = &c->next;
        *list = c;
}

void aio_call_free(struct aio_call *c)
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

int aio_call_new(struct ferry_aio *aio, ferry_aio_done done, void *context, struct aio_call **ret_call)
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

void aio_call_back(struct aio_call *c, int r, const struct ferry_operation *operation)
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

int aio_wait_ask(struct aio_call *c)
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

void aio_attempt_end(struct aio_call *c, CURLcode code)
{
        uint64_t delay;
        c->running = false;
        int r = exchange_end(&c->attempt, code);
        if (perform_again(c->lane, c->request, &c->reply, r, c->attempts, &delay))
                aio_later(c, delay);
        else
                aio_finish(c, r);
}

void aio_attempt_begin(struct aio_call *c)
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
