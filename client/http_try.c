/* SPDX-License-Identifier: Apache-2.0 */
#include "http_try.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <ferry/clock.h>
#include <ferry/encoding.h>

#include "client_internal.h"
#include "connection.h"
#include "sigpipe.h"

enum {
        HTTP_TRY_STREAMED = 256 * 1024,       /* bytes of a body */
        HTTP_TRY_SHORT = 16 * 1024,           /* bytes of a body that goes out with the head */
        HTTP_TRY_WAIT_MAX = 24 * 3600 * 1000, /* ms */
        HTTP_TRY_POLL_MS = 1000,
        HTTP_TRY_CONSENT_MS = 1000, /* as in libcurl */
        HTTP_TRY_LOOK_US = 50,
        HTTP_TRY_LOOK_SKIPS = 16, /* calls that sleep at once after one whose answer came too late to be looked for */
};

/* A body that may take longer than a time-out as long as it moves. */
static bool http_try_is_streamed(const struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        return e->source || e->sink || e->size >= HTTP_TRY_STREAMED;
}

static void http_try_ended(struct http_try *t, CURLcode code)
{
        t->need = HTTP_TRY_NOTHING;
        t->code = code;
}

/* ---- connecting ---- */

static void http_try_connect(struct http_try *t)
{
        t->need = HTTP_TRY_CONNECTION;
        t->reused = false;
        if (connection_begin(t->f, t->reply->fault) < 0)
                http_try_ended(t, CURLE_OUT_OF_MEMORY);
}

/* From the start. */
static void http_try_rewind(struct http_try *t)
{
        t->out = t->head.data;
        t->out_left = t->head.size;
        t->body_is_next = t->request->exchange.body && t->request->exchange.size > HTTP_TRY_SHORT;
}

/*
 * The connection has broken. A kept one may have been dead already, which shows only now: where nothing came, and all
 * can be sent again, it is made anew.
 */
static void http_try_broke(struct http_try *t, CURLcode code)
{
        if (!t->reused || t->answered || t->reply->consumed)
                http_try_ended(t, code);
        else
                t->need = HTTP_TRY_ANEW;
}

void http_try_anew(struct http_try *t)
{
        t->reply->lost = true;
        http_try_rewind(t);
        http_try_connect(t);
}

/* ---- sending ---- */

/* Whether the source still waits: not every server sends "100 Continue". An answer that is no success refuses its
 * bytes. */
static bool http_try_lacks_consent(struct http_try *t)
{
        bool late = t->answer.state == ANSWER_STATUS && ferry_clock_ms() >= t->consent_ms;
        if (late || t->answer.status == 100 || t->answer.status / 100 == 2)
                t->consent_ms = 0;
        return t->consent_ms != 0;
}

/* What goes out next, once out has gone. CURLE_OK; the try's code. */
static CURLcode http_try_send_next(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        t->out = NULL;
        if (e->source)
                return http_try_source_next(t);
        if (t->body_is_next) {
                t->body_is_next = false;
                t->out = e->body;
                t->out_left = e->size;
        }
        return CURLE_OK;
}

/* Whether a part of the request has not gone out. */
static bool http_try_is_unsent(const struct http_try *t)
{
        return t->out_left || t->body_is_next || (t->source_left && !t->source_ended);
}

/* CURLE_OK: some has gone; CURLE_AGAIN; another code. */
static CURLcode http_try_send(struct http_try *t)
{
        size_t n = 0, size = t->out_left < HTTP_TRY_PIECE ? t->out_left : HTTP_TRY_PIECE;
        CURLcode code = connection_send(t->f, t->out, size, &n);
        t->out += n;
        t->out_left -= n;
        return code;
}

/* ---- receiving ---- */

static CURLcode http_try_answer_code(const struct http_try *t, int r)
{
        switch (r) {
        case 0:
                return CURLE_OK;
        case -ENOMEM:
                return CURLE_OUT_OF_MEMORY;
        case -ECONNRESET:
                return t->answered ? CURLE_PARTIAL_FILE : CURLE_GOT_NOTHING;
        default:
                return t->abort < 0 ? CURLE_WRITE_ERROR : CURLE_WEIRD_SERVER_REPLY;
        }
}

/* A piece of an answer, of n bytes. */
static CURLcode http_try_take(struct http_try *t, const char *data, size_t n)
{
        size_t used;
        t->answered = true;
        int r = answer_take(&t->answer, data, n, &used);
        if (used < n) /* more than an answer came */
                t->answer.keeps = false;
        return http_try_answer_code(t, r);
}

/* CURLE_OK: some came; CURLE_AGAIN; another code. A body for a sink is taken in long pieces, once the request has gone.
 */
static CURLcode http_try_receive(struct http_try *t)
{
        char small[HTTP_TRY_SHORT], *buffer = small;
        size_t n = 0, size = sizeof(small);
        if (t->request->exchange.sink && !t->out && t->answer.state != ANSWER_STATUS &&
            t->answer.state != ANSWER_HEADERS && (t->piece || (t->piece = malloc(HTTP_TRY_PIECE)))) {
                buffer = t->piece;
                size = HTTP_TRY_PIECE;
        }
        CURLcode code = connection_receive(t->f, buffer, size, &n);
        if (code == CURLE_OK && n > 0)
                code = http_try_take(t, buffer, n);
        else if (code == CURLE_OK)
                code = http_try_answer_code(t, answer_end(&t->answer));
        if (t->request->secret)
                explicit_bzero(buffer, n);
        return code;
}

/* ---- running ---- */

uint64_t http_try_deadline(const struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        uint64_t wait = e->wait_ms < HTTP_TRY_WAIT_MAX ? e->wait_ms : HTTP_TRY_WAIT_MAX;
        uint64_t deadline = (http_try_is_streamed(t) ? t->moved_ms : t->start_ms) + t->f->timeout_ms + wait;
        if (t->request->deadline_ms && t->request->deadline_ms < deadline)
                deadline = t->request->deadline_ms;
        return deadline;
}

/* An early answer ends a request that it refuses; a success takes all of its body. */
static bool http_try_is_over(const struct http_try *t)
{
        return t->answer.state == ANSWER_WHOLE && (t->answer.status / 100 != 2 || !http_try_is_unsent(t));
}

/* A worker may answer early: a long request is sent piece by piece, and each time the answer is looked for. */
void http_try_step(struct http_try *t)
{
        bool streamed = http_try_is_streamed(t);
        while (!http_try_is_over(t)) {
                bool ready = t->out && !t->out_left && !(t->consent_ms && http_try_lacks_consent(t));
                CURLcode code = ready ? http_try_send_next(t) : CURLE_OK;
                if (code == CURLE_OK && atomic_load(&t->f->aborted))
                        code = CURLE_ABORTED_BY_CALLBACK;
                if (code != CURLE_OK) {
                        http_try_ended(t, code);
                        return;
                }
                CURLcode sent = t->out_left ? http_try_send(t) : CURLE_AGAIN;
                if (sent == CURLE_OK && !streamed)
                        continue;
                bool answered = t->answer.state == ANSWER_WHOLE;
                CURLcode received = answered ? CURLE_AGAIN : http_try_receive(t);
                if (sent == CURLE_AGAIN && received == CURLE_AGAIN) {
                        t->need = HTTP_TRY_SOCKET;
                        t->events = (short)((answered ? 0 : POLLIN) | (t->out_left ? POLLOUT : 0));
                        return;
                }
                if (received != CURLE_OK && sent != CURLE_OK) {
                        http_try_broke(t, sent == CURLE_AGAIN ? received : sent);
                        return;
                }
                uint64_t now = ferry_clock_ms();
                if (streamed) {
                        t->moved_ms = now;
                } else if (t->answer.state != ANSWER_WHOLE && now >= http_try_deadline(t)) {
                        http_try_ended(t, CURLE_OPERATION_TIMEDOUT);
                        return;
                }
        }
        http_try_ended(t, CURLE_OK);
}

void http_try_connected(struct http_try *t, CURLcode code)
{
        code = connection_made(t->f, code);
        if (code != CURLE_OK) {
                http_try_ended(t, code);
                return;
        }
        uint64_t most = t->f->timeout_ms / 2;
        if (request_asks_consent(&t->request->exchange))
                t->consent_ms = ferry_clock_ms() + (most < HTTP_TRY_CONSENT_MS ? most : HTTP_TRY_CONSENT_MS);
        http_try_step(t);
}

/* Where a repetition could do harm, or the body cannot be had again, a connection that may be dead will not do. */
static bool http_try_may_reuse(const struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        bool once = strcmp(e->method, "POST") == 0 && !e->idempotency_key && !t->request->repeatable;
        return !once && !e->source && connection_is_idle(t->f);
}

int http_try_begin(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        t->start_ms = t->moved_ms = ferry_clock_ms();
        t->answer.ops = &http_try_answer;
        t->answer.context = t;
        t->answer.to_head = strcmp(e->method, "HEAD") == 0;
        t->source_left = e->source ? e->source_size : 0;
        int r = request_head(t->f, t->request, &t->head);
        if (r == 0 && e->body && e->size <= HTTP_TRY_SHORT)
                r = ferry_buffer_append(&t->head, e->body, e->size, SIZE_MAX);
        if (r < 0)
                return http_try_end(t, r == -ENOMEM ? CURLE_OUT_OF_MEMORY : CURLE_URL_MALFORMAT);
        http_try_rewind(t);
        t->reused = http_try_may_reuse(t);
        if (t->reused)
                http_try_step(t);
        else
                http_try_connect(t);
        return 0;
}

/* ---- the outcome ---- */

static const struct {
        CURLcode code;
        int result;
} http_try_results[] = {
        { CURLE_OK, 0 },
        { CURLE_ABORTED_BY_CALLBACK, -ECANCELED },
        { CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT },
        { CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH },
        { CURLE_GOT_NOTHING, -ECONNRESET },
        { CURLE_SEND_ERROR, -ECONNRESET },
        { CURLE_RECV_ERROR, -ECONNRESET },
        { CURLE_PARTIAL_FILE, -ECONNRESET },
        { CURLE_WEIRD_SERVER_REPLY, -EPROTO },
        { CURLE_UNSUPPORTED_PROTOCOL, -EPROTO },
        { CURLE_URL_MALFORMAT, -EINVAL },
        { CURLE_OUT_OF_MEMORY, -ENOMEM },
        { CURLE_SSL_CONNECT_ERROR, -EACCES },
        { CURLE_SSL_CERTPROBLEM, -EACCES },
        { CURLE_SSL_CIPHER, -EACCES },
        { CURLE_PEER_FAILED_VERIFICATION, -EACCES },
        { CURLE_SSL_CACERT_BADFILE, -EACCES },
        { CURLE_SSL_ISSUER_ERROR, -EACCES },
};

static int http_try_result(const struct http_try *t, CURLcode code)
{
        if (t->abort < 0)
                return t->abort;
        if (code == CURLE_COULDNT_CONNECT)
                return connection_errno(t->f);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(http_try_results); i++) {
                if (http_try_results[i].code == code)
                        return http_try_results[i].result;
        }
        return -EIO;
}

/* Retry-After, in seconds or as a date. */
static uint64_t http_try_retry_after_ms(const char *text)
{
        uint64_t seconds;
        const char *end = ferry_uint_read(text, &seconds);
        if (!end || *end) {
                time_t then = curl_getdate(text, NULL), now = time(NULL);
                seconds = then > now ? (uint64_t)(then - now) : 0;
        }
        return seconds < HTTP_TRY_WAIT_MAX / 1000 ? seconds * 1000 : HTTP_TRY_WAIT_MAX;
}

static void http_try_explain(const struct http_try *t, CURLcode code, int result)
{
        struct reply *reply = t->reply;
        if (t->abort < 0)
                snprintf(reply->fault, sizeof(reply->fault), "the transfer was ended: %s", strerror(-t->abort));
        else if (result == -EMFILE || result == -ENFILE)
                snprintf(reply->fault, sizeof(reply->fault), "no descriptor is left for a connection");
        else if (code == CURLE_COULDNT_CONNECT && t->f->unix_socket) /* libcurl names localhost and a port */
                snprintf(reply->fault, sizeof(reply->fault), "%s",
                         result == -EACCES ? "the socket may not be opened" : "nothing listens at the socket");
        else if (code == CURLE_OPERATION_TIMEDOUT && !reply->fault[0])
                snprintf(reply->fault, sizeof(reply->fault), "%s for %.3g s",
                         http_try_is_streamed(t) ? "no byte moved" : "no answer came",
                         (double)(ferry_clock_ms() - (http_try_is_streamed(t) ? t->moved_ms : t->start_ms)) / 1000);
        else if (code != CURLE_OK && !reply->fault[0])
                snprintf(reply->fault, sizeof(reply->fault), "%s", curl_easy_strerror(code));
}

int http_try_end(struct http_try *t, CURLcode code)
{
        int result = http_try_result(t, code);
        t->f->used_ms = ferry_clock_ms();
        if (result != 0 || !t->answer.keeps || http_try_is_unsent(t))
                connection_close(t->f);
        http_try_explain(t, code, result);
        if (result != 0)
                t->reply->status = 0;
        else if (t->reply->retry_after[0])
                t->reply->retry_after_ms = http_try_retry_after_ms(t->reply->retry_after);
        ferry_buffer_clear(&t->head, true);
        answer_clear(&t->answer);
        free(t->piece);
        return result;
}

/* ---- the calling thread's ---- */

/*
 * Takes the wake-up of ferry_abort, which sets its flag before. A wake-up without the flag would end every later wait
 * at once: ferry_resume may overtake ferry_abort, and forked children share the descriptor.
 */
static void http_try_take_wake(const struct ferry *f, short events)
{
        if (events)
                (void)!read(f->wake, &(uint64_t){ 0 }, sizeof(uint64_t));
}

/*
 * Looks for the answer for a moment: a worker on this host has it after 20 us, and waking up takes as long again. Lets
 * other threads run meanwhile, of which one may be the worker's. Whether the socket is ready.
 */
static bool http_try_look(struct http_try *t)
{
        struct ferry *f = t->f;
        uint64_t until_us = ferry_clock_us() + HTTP_TRY_LOOK_US;
        char byte;
        if (t->looked || t->events != POLLIN || http_try_is_streamed(t))
                return false;
        t->looked = true;
        if (f->look_skips > 0) {
                f->look_skips--;
                return false;
        }
        do {
                (void)sched_yield();
                if (recv(f->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
                        return true;
        } while (!atomic_load(&f->aborted) && ferry_clock_us() < until_us);
        if (!t->request->exchange.wait_ms) /* else it is late because the caller wants it so */
                f->look_skips = HTTP_TRY_LOOK_SKIPS;
        return false;
}

/* Waits for the need of a try, for at most so long. */
static void http_try_wait(struct http_try *t, int ms)
{
        struct ferry *f = t->f;
        int left;
        if (t->need == HTTP_TRY_ANEW) {
                http_try_anew(t);
                return;
        }
        if (t->need == HTTP_TRY_SOCKET && http_try_look(t)) {
                http_try_step(t);
                return;
        }
        if (t->need == HTTP_TRY_SOCKET) {
                struct pollfd fds[] = { { .fd = f->socket, .events = t->events }, { .fd = f->wake, .events = POLLIN } };
                (void)poll(fds, 2, ms);
                http_try_take_wake(f, fds[1].revents);
                if (fds[0].revents || (t->consent_ms && !http_try_lacks_consent(t)))
                        http_try_step(t);
                return;
        }
        int running;
        CURLMcode code = curl_multi_perform(f->multi, &running);
        for (CURLMsg *m = curl_multi_info_read(f->multi, &left); m; m = curl_multi_info_read(f->multi, &left)) {
                if (m->msg == CURLMSG_DONE) {
                        http_try_connected(t, m->data.result);
                        return;
                }
        }
        struct curl_waitfd wake = { .fd = f->wake, .events = CURL_WAIT_POLLIN };
        if (code != CURLM_OK)
                http_try_ended(t, CURLE_OUT_OF_MEMORY);
        else
                curl_multi_poll(f->multi, &wake, 1, ms, NULL);
        http_try_take_wake(f, wake.revents);
}

static CURLcode http_try_run(struct http_try *t)
{
        while (t->need != HTTP_TRY_NOTHING) {
                uint64_t now = ferry_clock_ms(), deadline = http_try_deadline(t), rest = deadline - now;
                if (atomic_load(&t->f->aborted))
                        return CURLE_ABORTED_BY_CALLBACK;
                if (now >= deadline)
                        return CURLE_OPERATION_TIMEDOUT;
                if (t->consent_ms > now && t->consent_ms < deadline)
                        rest = t->consent_ms - now;
                http_try_wait(t, rest < HTTP_TRY_POLL_MS ? (int)rest : HTTP_TRY_POLL_MS);
        }
        return t->code;
}

int http_try_once(struct ferry *f, const struct request *request, struct reply *reply)
{
        struct http_try t = { .f = f, .request = request, .reply = reply };
        if (atomic_load(&f->aborted))
                return -ECANCELED;
        struct sigpipe_guard guard = sigpipe_block(f->tls);
        int result = http_try_begin(&t);
        if (result == 0)
                result = http_try_end(&t, http_try_run(&t));
        sigpipe_restore(&guard);
        return result;
}

void http_try_pause(struct ferry *f, uint64_t ms)
{
        uint64_t end = ferry_clock_ms() + ms;
        for (uint64_t now = ferry_clock_ms(); now < end && !atomic_load(&f->aborted); now = ferry_clock_ms()) {
                uint64_t rest = end - now;
                struct pollfd wake = { .fd = f->wake, .events = POLLIN };
                (void)poll(&wake, 1, rest < HTTP_TRY_POLL_MS ? (int)rest : HTTP_TRY_POLL_MS);
                http_try_take_wake(f, wake.revents);
        }
}
