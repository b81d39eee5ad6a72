/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include <ferry/clock.h>
#include <ferry/curl.h>
#include <ferry/encoding.h>

/*
 * One try of a request: libcurl is told what to send and by when, calls back with what comes, and its outcome becomes
 * one of the results in ferry.h. An easy handle serves one try after the other, so that each sets whatever another one
 * may have set. The try decides nothing about another one (retry.c), and reads no document (problem.c, call.c).
 *
 * Thread: the one that uses the handle or the ferry_aio.
 */

enum {
        HTTP_IDLE_S = 30,        /* a worker ends an idle connection after 60 s; a NAT forgets it without a word */
        HTTP_PIECE = 512 * 1024, /* bytes of a long body that are sent or received at once; libcurl's most */
        HTTP_LONG = 256 * 1024,  /* bytes of a long body */
        HTTP_STAGGER = 64,       /* bytes that a long piece of a source is shorter than libcurl has room for */
        HTTP_CONSENT_SIZE = 1024 * 1024,  /* bytes of a body, from which on it waits for "100 Continue" … */
        HTTP_CONSENT_MS = 1000,           /* … for so long: not every server sends it */
        HTTP_HEAD_MAX = 256 * 1024,       /* bytes of all header lines of an answer, interim ones and trailers too */
        HTTP_WAIT_MAX = 24 * 3600 * 1000, /* ms */
        HTTP_WAIT_MIN = 1000,             /* ms, of a request, after a gateway had no answer in time */
        HTTP_WAIT_LEARNED = 10 * 60000,   /* ms, for which later waits are as short; then longer ones are tried again */
};

/* ---- handles ---- */

/* libcurl says only that it could not connect, and lets programs that the caller starts inherit the connection. */
static curl_socket_t http_on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct http_try *t = context;
        int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
        (void)purpose;
        if (fd < 0)
                t->socket_error = errno;
        return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* The request goes out over a connection: for the second time where the first, a kept one, was dead. */
static int http_on_request(void *context, char *ip, char *local_ip, int port, int local_port)
{
        struct http_try *t = context;
        (void)ip;
        (void)local_ip;
        (void)port;
        (void)local_port;
        if (t->connections++)
                t->reply->lost = true;
        return CURL_PREREQFUNC_OK;
}

/* A status line begins the head of an answer. What an interim answer (1xx) before it had does not count. */
static void http_take_status(struct http_try *t)
{
        reply_forget_head(t->reply);
        t->in_head = true;
}

/*
 * libcurl's CURLOPT_HEADERFUNCTION, for each line of a head. A trailer's lines come after the head, and are dropped.
 * Returns the size, or 0 to end the transfer: the lines are too many.
 */
static size_t http_on_header(char *line, size_t one, size_t size, void *context)
{
        struct http_try *t = context;
        long status = 0;
        (void)one;
        t->head_size += size;
        if (t->head_size > HTTP_HEAD_MAX) {
                t->abort = -EPROTO;
                return 0;
        }
        if (size >= 5 && memcmp(line, "HTTP/", 5) == 0)
                http_take_status(t);
        if (!t->in_head)
                return size;
        if (line[0] != '\r' && line[0] != '\n') {
                reply_take_header(t->reply, line, size);
                return size;
        }
        t->in_head = false;
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        t->reply->status = (int)status;
        return size;
}

/* Whether the body goes to the sink. A problem's is kept in the reply. */
static bool http_sink_wants(const struct http_try *t)
{
        const struct request *request = t->request;
        if (!request->exchange.sink)
                return false;
        return request->sink_status ? t->reply->status == request->sink_status : t->reply->status / 100 == 2;
}

/*
 * libcurl's CURLOPT_WRITEFUNCTION. Returns 0 to end the transfer with t->abort: the sink's error, or a body that is too
 * long to be kept.
 */
static size_t http_on_body(char *data, size_t one, size_t size, void *context)
{
        struct http_try *t = context;
        struct reply *reply = t->reply;
        (void)one;
        if (http_sink_wants(t)) {
                reply->delivered = true;
                t->abort = t->request->exchange.sink(t->request->exchange.sink_context, data, size);
                if (t->abort > 0)
                        t->abort = -EIO;
        } else {
                size_t max = t->f->answer_max;
                if (reply->status >= 400 && max > CLIENT_PROBLEM_BODY_MAX)
                        max = CLIENT_PROBLEM_BODY_MAX;
                t->abort = ferry_buffer_append(&reply->body, data, size, max);
        }
        return t->abort < 0 ? 0 : size;
}

/*
 * libcurl asks for as much as it has room for, also beyond the size that it was told. Its buffer begins some bytes
 * behind the start of a page; AMD's processors copy to there three times slower from the start of a page, as every
 * piece of a file would be if all before it were whole pages.
 */
static size_t http_on_source(char *data, size_t one, size_t room, void *context)
{
        struct http_try *t = context;
        const struct ferry_exchange *e = &t->request->exchange;
        bool known = e->source_size != FERRY_SIZE_UNKNOWN;
        (void)one;
        if (room >= HTTP_PIECE / 8)
                room -= HTTP_STAGGER;
        if (known && room > t->source_left)
                room = (size_t)t->source_left;
        if (!room)
                return 0;
        t->reply->consumed = true;
        ssize_t n = e->source(e->source_context, data, room);
        if (n < 0 || (size_t)n > room || (n == 0 && known)) {
                t->abort = n < 0 ? (int)n : n == 0 ? -ENODATA : -EINVAL;
                return CURL_READFUNC_ABORT;
        }
        t->source_ended = n == 0;
        t->source_left -= known ? (uint64_t)n : 0;
        return (size_t)n;
}

CURLM *http_multi_new(long connections)
{
        CURLM *multi = curl_multi_init();
        if (!multi)
                return NULL;
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
#if CURL_AT_LEAST_VERSION(8, 20, 0)
        curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L); /* instead of CURLOPT_QUICK_EXIT */
#endif
        return multi;
}

CURL *http_handle_new(const struct ferry_options *o, const char *unix_socket)
{
        CURL *easy = curl_easy_init();
        if (!easy)
                return NULL;
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* what TLS agrees upon */
        curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a call ends without the answer of a resolver */
#endif
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)HTTP_IDLE_S);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, http_on_socket);
        curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, http_on_request);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, http_on_header);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_on_body);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, http_on_source);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_timeout_ms);
        if (ferry_http_only(easy) == CURLE_OK && curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_USERAGENT, "libferry/" FERRY_VERSION) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, unix_socket) == CURLE_OK &&
            (!o->ca_file || curl_easy_setopt(easy, CURLOPT_CAINFO, o->ca_file) == CURLE_OK) &&
            (!o->cert_file || curl_easy_setopt(easy, CURLOPT_SSLCERT, o->cert_file) == CURLE_OK) &&
            (!o->key_file || curl_easy_setopt(easy, CURLOPT_SSLKEY, o->key_file) == CURLE_OK))
                return easy;
        curl_easy_cleanup(easy);
        return NULL;
}

/* ---- the request ---- */

/* A body that may take longer than a time-out as long as it moves. */
static bool http_is_streamed(const struct ferry_exchange *e)
{
        return e->source || e->sink || e->size >= HTTP_LONG;
}

static bool http_header_is(const char *line, const char *name)
{
        size_t size = strlen(name);
        return strncasecmp(line, name, size) == 0 && line[size] == ':';
}

/* Whether the body waits for "100 Continue". A server that refuses a long one while it comes may close the connection
 * before its answer has been read; a source could not even give its bytes again. */
static bool http_asks_consent(const struct ferry_exchange *e)
{
        return (e->source ? e->source_size : e->body ? e->size : 0) > HTTP_CONSENT_SIZE;
}

/*
 * Sets the headers. Those that say where the body ends are libcurl's alone: a second one would make two requests of
 * one. Returns false: memory is short.
 */
static bool http_set_headers(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        const char *authorization = t->request->authorization ? t->request->authorization : t->f->authorization;
        bool unknown = e->source && e->source_size == FERRY_SIZE_UNKNOWN, expects = false;
        bool good =
                (!authorization || ferry_header_add(&t->headers, "%s", authorization)) &&
                (e->content_type ? ferry_header_add(&t->headers, "Content-Type: %s", e->content_type)
                                 : ferry_header_add(&t->headers, "Content-Type:")) && /* libcurl has one of its own */
                (!e->idempotency_key || ferry_header_add(&t->headers, "Idempotency-Key: %s", e->idempotency_key)) &&
                (!unknown || ferry_header_add(&t->headers, "Transfer-Encoding: chunked"));
        for (const char *const *line = e->headers; good && line && *line; line++) {
                expects = expects || http_header_is(*line, "Expect");
                if (!http_header_is(*line, "Content-Length") && !http_header_is(*line, "Transfer-Encoding"))
                        good = ferry_header_add(&t->headers, "%s", *line);
        }
        if (good && !expects)
                good = ferry_header_add(&t->headers, "Expect:%s", http_asks_consent(e) ? " 100-continue" : "");
        /* After a success without consent libcurl sends no body, and would keep a connection that lacks it. */
        curl_easy_setopt(t->easy, CURLOPT_FORBID_REUSE, (long)(expects || http_asks_consent(e)));
        return good && curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK;
}

/* The URL, with a shorter wait than the caller's where a gateway has ended longer ones. A worker knows a POST that is
 * repeated by its query, too, which must not change. */
static CURLcode http_set_url(struct http_try *t)
{
        FERRY_CLEANUP(cleanup_free) char *url = NULL;
        const struct ferry *f = t->f;
        const char *path = t->request->exchange.path, *wait = path_wait(path, &t->wait_ms);
        bool shorter = wait && strcmp(t->request->exchange.method, "GET") == 0 && t->wait_ms > f->wait_max_ms &&
                       t->start_ms < f->wait_max_end_ms;
        int n;
        if (shorter) {
                t->wait_ms = f->wait_max_ms;
                n = asprintf(&url, "%s%.*s%" PRIu64 "%s", f->base, (int)(wait - path), path, t->wait_ms,
                             wait + strspn(wait, "0123456789"));
        } else {
                n = asprintf(&url, "%s%s", f->base, path);
        }
        if (n < 0)
                url = NULL;
        return url ? curl_easy_setopt(t->easy, CURLOPT_URL, url) : CURLE_OUT_OF_MEMORY;
}

/*
 * Sets method and body. The easy handle still has those of its last request: CURLOPT_HTTPGET undoes them, and the rest
 * is set anew.
 */
static CURLcode http_set_body(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        bool known = e->source_size != FERRY_SIZE_UNKNOWN;
        curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
        if (e->source) {
                curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
                curl_easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, known ? (curl_off_t)e->source_size : -1);
        } else if (e->body || strcmp(e->method, "POST") == 0 || strcmp(e->method, "PUT") == 0) {
                curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(e->body ? e->size : 0));
                curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, e->body ? e->body : "");
        } else if (strcmp(e->method, "HEAD") == 0) {
                curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
        }
        curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, e->sink ? (long)HTTP_PIECE : (long)CURL_MAX_WRITE_SIZE);
        curl_easy_setopt(t->easy, CURLOPT_UPLOAD_BUFFERSIZE, http_is_streamed(e) ? (long)HTTP_PIECE : 64 * 1024L);
        return curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, e->method);
}

/* Where a repetition could do harm, or the body cannot be had again, a connection that may be dead will not do. */
static bool http_needs_fresh(const struct request *request)
{
        const struct ferry_exchange *e = &request->exchange;
        return e->source || (strcmp(e->method, "POST") == 0 && !e->idempotency_key && !request->repeatable);
}

/* How long, in ms, the try may take in all; or be silent, where its body is streamed. */
static uint64_t http_time_limit(const struct http_try *t)
{
        uint64_t wait = t->request->exchange.wait_ms;
        return t->f->timeout_ms + (wait < HTTP_WAIT_MAX ? wait : HTTP_WAIT_MAX);
}

/* A streamed body has no limit here: http_time_left() watches whether it moves. */
static void http_set_times(struct http_try *t)
{
        uint64_t limit = http_is_streamed(&t->request->exchange) ? 0 : http_time_limit(t);
        uint64_t deadline = t->request->deadline_ms, consent = t->f->timeout_ms / 2;
        if (limit && deadline && deadline < t->start_ms + limit)
                limit = deadline > t->start_ms ? deadline - t->start_ms : 1;
        curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, limit < INT32_MAX ? (long)limit : INT32_MAX);
        if (consent > HTTP_CONSENT_MS)
                consent = HTTP_CONSENT_MS;
        curl_easy_setopt(t->easy, CURLOPT_EXPECT_100_TIMEOUT_MS, consent ? (long)consent : 1);
}

int http_try_begin(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        t->start_ms = t->moved_ms = ferry_clock_ms();
        t->source_left = e->source ? e->source_size : 0;
        curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->reply->fault);
        curl_easy_setopt(t->easy, CURLOPT_OPENSOCKETDATA, t);
        curl_easy_setopt(t->easy, CURLOPT_PREREQDATA, t);
        curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
        curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
        curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
        curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
        curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, (long)http_needs_fresh(t->request));
        http_set_times(t);
        if (http_set_url(t) == CURLE_OK && http_set_body(t) == CURLE_OK && http_set_headers(t) &&
            curl_multi_add_handle(t->f->multi, t->easy) == CURLM_OK)
                return 0;
        return http_try_end(t, CURLE_OUT_OF_MEMORY);
}

uint64_t http_time_left(struct http_try *t)
{
        curl_off_t received = 0, sent = 0;
        uint64_t now = ferry_clock_ms(), end;
        if (!http_is_streamed(&t->request->exchange))
                return UINT64_MAX;
        curl_easy_getinfo(t->easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
        curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
        if (received + sent != t->moved) {
                t->moved = received + sent;
                t->moved_ms = now;
        }
        end = t->moved_ms + http_time_limit(t);
        return end > now ? end - now : 0;
}

/* ---- the outcome ---- */

static const struct {
        CURLcode code;
        int result;
} http_results[] = {
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
        { CURLE_FILESIZE_EXCEEDED, -EPROTO },
#if CURL_AT_LEAST_VERSION(8, 6, 0)
        { CURLE_TOO_LARGE, -EPROTO }, /* more header lines than libcurl takes */
#endif
        { CURLE_BAD_CONTENT_ENCODING, -EPROTO },
        { CURLE_WRITE_ERROR, -EPROTO }, /* beside what the callbacks tell: a body that cannot be decoded */
        { CURLE_URL_MALFORMAT, -EINVAL },
        { CURLE_OUT_OF_MEMORY, -ENOMEM },
        { CURLE_SSL_CONNECT_ERROR, -EACCES },
        { CURLE_SSL_CERTPROBLEM, -EACCES },
        { CURLE_SSL_CIPHER, -EACCES },
        { CURLE_PEER_FAILED_VERIFICATION, -EACCES },
        { CURLE_SSL_CACERT_BADFILE, -EACCES },
        { CURLE_SSL_ISSUER_ERROR, -EACCES },
};

/* The result of a connection that was not made. */
static int http_connect_result(const struct http_try *t)
{
        long code = 0;
        curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &code);
        if (!code)
                code = t->socket_error;
        switch (code) {
        case EMFILE:
        case ENFILE:
                return (int)-code;
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ENETDOWN:
        case EHOSTDOWN:
                return -EHOSTUNREACH;
        case ETIMEDOUT:
                return -ETIMEDOUT;
        case EACCES:
        case EPERM:
                return -EACCES;
        default:
                return -ECONNREFUSED;
        }
}

/* Whether a part of the request's body has not gone out. The bytes of a source of unknown size are not known; when it
 * has ended, all of them are at least with libcurl. */
static bool http_is_unsent(const struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        curl_off_t sent = 0;
        if (e->source && e->source_size == FERRY_SIZE_UNKNOWN)
                return !t->source_ended;
        curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
        return (uint64_t)sent < (e->source ? e->source_size : e->body ? e->size : 0);
}

/* The result of a try, as ferry.h lists them. */
static int http_result(const struct http_try *t, CURLcode code)
{
        if (t->abort < 0)
                return t->abort;
        if (code == CURLE_COULDNT_CONNECT)
                return http_connect_result(t);
        if (code == CURLE_OK && (t->in_head || t->reply->status < 200)) /* libcurl takes half a head for an answer */
                return -ECONNRESET;
        if (code == CURLE_OK && t->reply->status / 100 == 2 &&
            http_is_unsent(t)) /* a lie, or a worker's that has died */
                return -ECONNRESET;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(http_results); i++) {
                if (http_results[i].code == code)
                        return http_results[i].result;
        }
        return -EIO;
}

/* Retry-After, in seconds or as a date. */
static uint64_t http_retry_after_ms(const char *text)
{
        uint64_t seconds;
        const char *end = ferry_uint_read(text, &seconds);
        if (!end || *end) {
                time_t then = curl_getdate(text, NULL), now = time(NULL);
                seconds = then > now ? (uint64_t)(then - now) : 0;
        }
        return seconds < HTTP_WAIT_MAX / 1000 ? seconds * 1000 : HTTP_WAIT_MAX;
}

/* A gateway had no answer in time: later waits are half as long. */
static void http_learn_wait(const struct http_try *t)
{
        uint64_t half = t->wait_ms / 2;
        if (t->reply->status != 504 || !t->wait_ms || !problem_is_gateway(t->reply))
                return;
        t->f->wait_max_ms = half > HTTP_WAIT_MIN ? half : HTTP_WAIT_MIN;
        t->f->wait_max_end_ms = ferry_clock_ms() + HTTP_WAIT_LEARNED;
}

/* Says in reply->fault why there is no answer, where libcurl's words do not, or are wrong. */
static void http_explain(const struct http_try *t, CURLcode code, int result)
{
        char *fault = t->reply->fault;
        bool streamed = http_is_streamed(&t->request->exchange);
        uint64_t silent_ms = ferry_clock_ms() - (streamed ? t->moved_ms : t->start_ms);
        if (t->abort < 0)
                snprintf(fault, CURL_ERROR_SIZE, "the transfer was ended: %s", strerror(-t->abort));
        else if (result == -EMFILE || result == -ENFILE)
                snprintf(fault, CURL_ERROR_SIZE, "no descriptor is left for a connection");
        else if (code == CURLE_COULDNT_CONNECT && t->f->by_socket) /* libcurl names localhost and a port */
                snprintf(fault, CURL_ERROR_SIZE, "%s",
                         result == -EACCES ? "the socket may not be opened" : "nothing listens at the socket");
        else if (code == CURLE_OPERATION_TIMEDOUT && t->connections)
                snprintf(fault, CURL_ERROR_SIZE, "%s for %.3g s", streamed ? "no byte moved" : "no answer came",
                         (double)silent_ms / 1000);
        else if (code == CURLE_OK && result < 0)
                snprintf(fault, CURL_ERROR_SIZE, "%s",
                         t->reply->status / 100 == 2 && !t->in_head ? "a success came before the whole body was sent"
                                                                    : "the answer ended in its head");
        else if (code != CURLE_OK && !*fault)
                snprintf(fault, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
}

int http_try_end(struct http_try *t, CURLcode code)
{
        int result = http_result(t, code);
        (void)curl_multi_remove_handle(t->f->multi, t->easy); /* closes the connection of one that has not ended */
        curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, NULL);
        curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, NULL);
        ferry_headers_free(t->headers);
        t->headers = NULL;
        http_explain(t, code, result);
        if (result != 0)
                t->reply->status = 0;
        else
                http_learn_wait(t);
        if (result == 0 && t->reply->retry_after[0])
                t->reply->retry_after_ms = http_retry_after_ms(t->reply->retry_after);
        return result;
}
