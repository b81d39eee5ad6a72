/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "client_internal.h"
#include "sigpipe.h"

enum {
        EXCHANGE_STREAMED = 256 * 1024, /* bodies from here on may take longer than a time-out as long as they move */
        EXCHANGE_WAIT_MAX = 24 * 3600 * 1000, /* ms */
        EXCHANGE_POLL_MS = 1000,
        EXCHANGE_CHUNK = 512 * 1024, /* libcurl's buffers */
        EXCHANGE_CONNECTIONS = 4,
};

/* One attempt under way; lives on the stack of exchange_attempt. */
struct attempt {
        struct ferry *f;
        const struct request *request;
        struct reply *reply;
        uint64_t source_left; /* FERRY_SIZE_UNKNOWN = until its end */
        curl_off_t moved;     /* bytes both ways */
        uint64_t moved_ms;    /* when the last of them was seen */
        int abort;            /* -errno of a callback that ended the transfer */
};

uint64_t clock_ms(void)
{
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

/* ---- what libcurl calls ---- */

static const struct {
        const char *name;
        size_t offset, size;
} exchange_headers[] = {
#define HEADER(name, field)                                                                                            \
        {                                                                                                              \
                name, offsetof(struct reply, field), sizeof(((struct reply *)0)->field)                                \
        }
        HEADER("content-type", content_type),   HEADER("etag", etag),
        HEADER("location", location),           HEADER("request-id", request_id),
        HEADER("content-range", content_range), HEADER("retry-after", retry_after),
#undef HEADER
};

static void attempt_take_header(struct reply *reply, const char *line, size_t length)
{
        const char *colon = memchr(line, ':', length);
        if (!colon)
                return;
        size_t name = (size_t)(colon - line);
        const char *value = colon + 1, *end = line + length;
        while (value < end && (*value == ' ' || *value == '\t'))
                value++;
        while (end > value && strchr(" \t\r\n", end[-1]))
                end--;
        for (size_t i = 0; i < sizeof(exchange_headers) / sizeof(exchange_headers[0]); i++) {
                if (strlen(exchange_headers[i].name) != name || strncasecmp(exchange_headers[i].name, line, name) != 0)
                        continue;
                snprintf((char *)reply + exchange_headers[i].offset, exchange_headers[i].size, "%.*s",
                         (int)(end - value), value);
        }
}

static size_t attempt_on_header(char *line, size_t one, size_t length, void *context)
{
        struct attempt *a = context;
        (void)one;
        if (length >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
                /* A further status line follows an interim answer, whose headers do not count. */
                for (size_t i = 0; i < sizeof(exchange_headers) / sizeof(exchange_headers[0]); i++)
                        *((char *)a->reply + exchange_headers[i].offset) = '\0';
        } else if (length <= 8192) {
                attempt_take_header(a->reply, line, length);
        }
        return length;
}

static bool attempt_sink_wants(const struct attempt *a)
{
        const struct request *request = a->request;
        if (!request->exchange.sink)
                return false;
        return request->sink_status ? a->reply->status == request->sink_status : a->reply->status / 100 == 2;
}

static size_t attempt_on_body(char *data, size_t one, size_t size, void *context)
{
        struct attempt *a = context;
        struct reply *reply = a->reply;
        long status = 0;
        (void)one;
        curl_easy_getinfo(a->f->easy, CURLINFO_RESPONSE_CODE, &status);
        reply->status = (int)status;
        if (attempt_sink_wants(a)) {
                reply->delivered = true;
                a->abort = a->request->exchange.sink(a->request->exchange.sink_context, data, size);
                if (a->abort > 0)
                        a->abort = -EIO;
        } else {
                size_t max = a->f->answer_max;
                if (status >= 400 && max > CLIENT_PROBLEM_BODY_MAX)
                        max = CLIENT_PROBLEM_BODY_MAX;
                a->abort = buffer_append(&reply->body, data, size, max);
        }
        return a->abort < 0 ? 0 : size;
}

static size_t attempt_on_source(char *data, size_t one, size_t size, void *context)
{
        struct attempt *a = context;
        const struct ferry_exchange *exchange = &a->request->exchange;
        bool known = a->source_left != FERRY_SIZE_UNKNOWN;
        (void)__builtin_mul_overflow(size, one, &size); /* libcurl's own buffer: cannot overflow */
        if (known && size > a->source_left)
                size = (size_t)a->source_left;
        if (size == 0)
                return 0;
        a->reply->consumed = true;
        ssize_t n = exchange->source(exchange->source_context, data, size);
        if (n > 0 && (size_t)n <= size) {
                if (known)
                        a->source_left -= (uint64_t)n;
                return (size_t)n;
        }
        if (n == 0 && !known)
                return 0;
        a->abort = n < 0 ? (int)n : n == 0 ? -ENODATA : -EINVAL;
        return CURL_READFUNC_ABORT;
}

static int attempt_on_progress(void *context, curl_off_t dl_total, curl_off_t dl_now, curl_off_t ul_total,
                               curl_off_t ul_now)
{
        struct attempt *a = context;
        (void)dl_total;
        (void)ul_total;
        if (dl_now + ul_now != a->moved) {
                a->moved = dl_now + ul_now;
                a->moved_ms = clock_ms();
        }
        return 0;
}

/* ---- setting up ---- */

static bool attempt_header_add(struct curl_slist **list, const char *line)
{
        struct curl_slist *longer = curl_slist_append(*list, line);
        if (longer)
                *list = longer;
        return longer != NULL;
}

static bool attempt_header_format(struct curl_slist **list, const char *name, const char *value)
{
        FERRY_CLEANUP(cleanup_free) char *line = NULL;
        return asprintf(&line, "%s: %s", name, value) >= 0 && attempt_header_add(list, line);
}

static struct curl_slist *attempt_headers(const struct attempt *a)
{
        const struct ferry_exchange *e = &a->request->exchange;
        struct curl_slist *list = NULL;
        /* An empty Content-Type keeps libcurl from naming a form. */
        bool ok = e->content_type ? attempt_header_format(&list, "Content-Type", e->content_type)
                                  : attempt_header_add(&list, "Content-Type:");
        if (ok && a->f->authorization)
                ok = attempt_header_add(&list, a->f->authorization);
        if (ok && e->idempotency_key)
                ok = attempt_header_format(&list, "Idempotency-Key", e->idempotency_key);
        for (const char *const *line = e->headers; ok && line && *line; line++)
                ok = attempt_header_add(&list, *line);
        if (ok)
                return list;
        curl_slist_free_all(list);
        return NULL;
}

static void attempt_set_body(struct attempt *a)
{
        const struct ferry_exchange *e = &a->request->exchange;
        CURL *easy = a->f->easy;
        if (e->source) {
                a->source_left = e->source_size;
                curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
                curl_easy_setopt(easy, CURLOPT_READFUNCTION, attempt_on_source);
                curl_easy_setopt(easy, CURLOPT_READDATA, a);
                curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                                 e->source_size == FERRY_SIZE_UNKNOWN ? (curl_off_t)-1 : (curl_off_t)e->source_size);
        } else if (e->body || strcmp(e->method, "POST") == 0 || strcmp(e->method, "PUT") == 0) {
                curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(e->body ? e->size : 0));
                curl_easy_setopt(easy, CURLOPT_POSTFIELDS, e->body ? e->body : "");
        }
        if (strcmp(e->method, "HEAD") == 0)
                curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        else
                curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, e->method);
}

static void attempt_set_connection(struct attempt *a)
{
        struct ferry *f = a->f;
        CURL *easy = f->easy;
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket);
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)f->connect_timeout_ms);
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)EXCHANGE_CHUNK);
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)EXCHANGE_CHUNK);
        curl_easy_setopt(easy, CURLOPT_USERAGENT, "libferry/" FERRY_VERSION);
        if (f->ca_file)
                curl_easy_setopt(easy, CURLOPT_CAINFO, f->ca_file);
        if (f->cert_file)
                curl_easy_setopt(easy, CURLOPT_SSLCERT, f->cert_file);
        if (f->key_file)
                curl_easy_setopt(easy, CURLOPT_SSLKEY, f->key_file);
        /*
         * libcurl by itself repeats a request whose kept connection turns out to be dead. Where a repetition could do
         * harm, or the body cannot be had again, a fresh connection rules that out.
         */
        const struct ferry_exchange *e = &a->request->exchange;
        bool once = strcmp(e->method, "POST") == 0 && !e->idempotency_key && !a->request->repeatable;
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, once || e->source ? 1L : 0L);
}

static void attempt_set(struct attempt *a, const char *url, struct curl_slist *headers)
{
        CURL *easy = a->f->easy;
        curl_easy_reset(easy);
        attempt_set_connection(a);
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, a->reply->fault);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, attempt_on_header);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, a);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, attempt_on_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, a);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, attempt_on_progress);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, a);
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        attempt_set_body(a);
}

/* ---- running ---- */

static uint64_t attempt_deadline(const struct attempt *a, uint64_t start_ms)
{
        const struct ferry_exchange *e = &a->request->exchange;
        uint64_t wait = e->wait_ms < EXCHANGE_WAIT_MAX ? e->wait_ms : EXCHANGE_WAIT_MAX;
        bool streamed = e->source || e->sink || e->size >= EXCHANGE_STREAMED;
        uint64_t deadline = (streamed ? a->moved_ms : start_ms) + a->f->timeout_ms + wait;
        if (a->request->deadline_ms && a->request->deadline_ms < deadline)
                deadline = a->request->deadline_ms;
        return deadline;
}

/* The handle is in the multi handle; CURLE_OPERATION_TIMEDOUT when our own time is over. */
static CURLcode attempt_run(struct attempt *a)
{
        struct ferry *f = a->f;
        uint64_t start = clock_ms();
        a->moved_ms = start;
        for (;;) {
                int running = 0, left;
                if (curl_multi_perform(f->multi, &running) != CURLM_OK)
                        return CURLE_OUT_OF_MEMORY;
                for (CURLMsg *m = curl_multi_info_read(f->multi, &left); m; m = curl_multi_info_read(f->multi, &left)) {
                        if (m->msg == CURLMSG_DONE)
                                return m->data.result;
                }
                uint64_t now = clock_ms(), deadline = attempt_deadline(a, start);
                if (now >= deadline)
                        return CURLE_OPERATION_TIMEDOUT;
                uint64_t rest = deadline - now;
                curl_multi_poll(f->multi, NULL, 0, rest < EXCHANGE_POLL_MS ? (int)rest : EXCHANGE_POLL_MS, NULL);
        }
}

static int attempt_connect_errno(CURL *easy)
{
        long code = 0;
        curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &code);
        switch (code) {
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

static const struct {
        CURLcode code;
        int result;
} exchange_results[] = {
        { CURLE_OK, 0 },
        { CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT },
        { CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH },
        { CURLE_GOT_NOTHING, -ECONNRESET },
        { CURLE_SEND_ERROR, -ECONNRESET },
        { CURLE_RECV_ERROR, -ECONNRESET },
        { CURLE_PARTIAL_FILE, -ECONNRESET },
        { CURLE_SEND_FAIL_REWIND, -ECONNRESET },
        { CURLE_WEIRD_SERVER_REPLY, -EPROTO },
        { CURLE_UNSUPPORTED_PROTOCOL, -EPROTO },
        { CURLE_BAD_CONTENT_ENCODING, -EPROTO },
        { CURLE_URL_MALFORMAT, -EINVAL },
        { CURLE_OUT_OF_MEMORY, -ENOMEM },
        { CURLE_SSL_CONNECT_ERROR, -EACCES },
        { CURLE_SSL_CERTPROBLEM, -EACCES },
        { CURLE_SSL_CIPHER, -EACCES },
        { CURLE_PEER_FAILED_VERIFICATION, -EACCES },
        { CURLE_SSL_CACERT_BADFILE, -EACCES },
        { CURLE_SSL_ISSUER_ERROR, -EACCES },
};

static int attempt_result(struct attempt *a, CURLcode code)
{
        if (a->abort < 0)
                return a->abort;
        if (code == CURLE_COULDNT_CONNECT)
                return attempt_connect_errno(a->f->easy);
        for (size_t i = 0; i < sizeof(exchange_results) / sizeof(exchange_results[0]); i++) {
                if (exchange_results[i].code == code)
                        return exchange_results[i].result;
        }
        return -EIO;
}

static void attempt_finish(struct attempt *a, CURLcode code, int result)
{
        struct reply *reply = a->reply;
        long status = 0;
        curl_off_t after = 0;
        curl_easy_getinfo(a->f->easy, CURLINFO_RESPONSE_CODE, &status);
        reply->status = result == 0 ? (int)status : 0;
        if (curl_easy_getinfo(a->f->easy, CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after > 0)
                reply->retry_after_ms = after < EXCHANGE_WAIT_MAX / 1000 ? (uint64_t)after * 1000 : EXCHANGE_WAIT_MAX;
        if (a->abort < 0)
                snprintf(reply->fault, sizeof(reply->fault), "the transfer was ended: %s", strerror(-a->abort));
        else if (code != CURLE_OK && !reply->fault[0])
                snprintf(reply->fault, sizeof(reply->fault), "%s", curl_easy_strerror(code));
}

int exchange_attempt(struct ferry *f, const struct request *request, struct reply *reply)
{
        struct attempt a = { .f = f, .request = request, .reply = reply };
        FERRY_CLEANUP(cleanup_free) char *url = NULL;
        if (asprintf(&url, "%s%s", f->base, request->exchange.path) < 0) {
                url = NULL;
                return -ENOMEM;
        }
        struct curl_slist *headers = attempt_headers(&a);
        if (!headers)
                return -ENOMEM;
        struct sigpipe_guard guard = sigpipe_block();
        attempt_set(&a, url, headers);
        curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, (long)EXCHANGE_CONNECTIONS);
        CURLcode code = CURLE_OUT_OF_MEMORY;
        if (curl_multi_add_handle(f->multi, f->easy) == CURLM_OK) {
                code = attempt_run(&a);
                curl_multi_remove_handle(f->multi, f->easy);
        }
        int result = attempt_result(&a, code);
        attempt_finish(&a, code, result);
        /* The handle must not keep pointers into this stack frame. */
        curl_easy_reset(f->easy);
        curl_slist_free_all(headers);
        sigpipe_restore(&guard);
        return result;
}

void exchange_pause(struct ferry *f, uint64_t ms)
{
        uint64_t end = clock_ms() + ms;
        for (uint64_t now = clock_ms(); now < end; now = clock_ms()) {
                uint64_t rest = end - now;
                curl_multi_poll(f->multi, NULL, 0, rest < EXCHANGE_POLL_MS ? (int)rest : EXCHANGE_POLL_MS, NULL);
        }
}
