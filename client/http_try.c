/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <ferry/clock.h>
#include <ferry/http_only.h>

#include "client_internal.h"
#include "http_try.h"
#include "sigpipe.h"

enum {
        HTTP_TRY_STREAMED = 256 * 1024,       /* bytes of a body */
        HTTP_TRY_WAIT_MAX = 24 * 3600 * 1000, /* ms */
        HTTP_TRY_POLL_MS = 1000,
        HTTP_TRY_CHUNK = 512 * 1024, /* libcurl's buffers */
        HTTP_TRY_CONNECTIONS = 4,
};

/* ---- setting up ---- */

/* A body that may take longer than a time-out as long as it moves. */
static bool http_try_is_streamed(const struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        return e->source || e->sink || e->size >= HTTP_TRY_STREAMED;
}

/* For free(); NULL when memory is short. asprintf would take four times as long. */
static char *http_try_join(const char *a, const char *b, const char *c)
{
        char *joined = malloc(strlen(a) + strlen(b) + strlen(c) + 1);
        if (joined)
                stpcpy(stpcpy(stpcpy(joined, a), b), c);
        return joined;
}

static bool http_try_header_add(struct curl_slist **list, const char *line)
{
        struct curl_slist *longer = curl_slist_append(*list, line);
        if (longer)
                *list = longer;
        return longer != NULL;
}

static bool http_try_header_format(struct curl_slist **list, const char *name, const char *value)
{
        FERRY_CLEANUP(cleanup_free) char *line = http_try_join(name, ": ", value);
        return line && http_try_header_add(list, line);
}

static struct curl_slist *http_try_headers(const struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        struct curl_slist *list = NULL;
        /* An empty Content-Type keeps libcurl from naming a form. */
        bool ok = e->content_type ? http_try_header_format(&list, "Content-Type", e->content_type)
                                  : http_try_header_add(&list, "Content-Type:");
        /* As CURLOPT_USERAGENT libcurl would format it twice. */
        ok = ok && http_try_header_add(&list, "User-Agent: libferry/" FERRY_VERSION);
        const char *authorization = t->request->authorization ? t->request->authorization : t->f->authorization;
        if (ok && authorization)
                ok = http_try_header_add(&list, authorization);
        if (ok && e->idempotency_key)
                ok = http_try_header_format(&list, "Idempotency-Key", e->idempotency_key);
        for (const char *const *line = e->headers; ok && line && *line; line++)
                ok = http_try_header_add(&list, *line);
        if (ok)
                return list;
        curl_slist_free_all(list);
        return NULL;
}

/*
 * Taken apart once: what a request asks for is its target, see http_try_set. The copy that libcurl takes of a CURLU
 * lacks the zone of an IPv6 address ("%25eth0"; seen in 7.88): such a URL is taken apart each time.
 */
static CURLcode http_try_set_url(struct ferry *f)
{
        if (strchr(f->base, '%'))
                return curl_easy_setopt(f->easy, CURLOPT_URL, f->base);
        return curl_easy_setopt(f->easy, CURLOPT_CURLU, f->url);
}

/* What stays the same from request to request. false: memory is short. */
static bool http_try_set_fixed(struct ferry *f)
{
        CURL *easy = f->easy;
        bool ok = http_try_set_url(f) == CURLE_OK && ferry_http_only(easy) == CURLE_OK &&
                  curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket) == CURLE_OK &&
                  curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
                  (!f->ca_file || curl_easy_setopt(easy, CURLOPT_CAINFO, f->ca_file) == CURLE_OK) &&
                  (!f->cert_file || curl_easy_setopt(easy, CURLOPT_SSLCERT, f->cert_file) == CURLE_OK) &&
                  (!f->key_file || curl_easy_setopt(easy, CURLOPT_SSLKEY, f->key_file) == CURLE_OK);
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a call ends without the answer of a resolver */
#endif
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)f->connect_timeout_ms);
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)HTTP_TRY_CHUNK);
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)HTTP_TRY_CHUNK);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, http_try_on_socket);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, f);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, http_try_on_header);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, f);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_try_on_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, f);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, http_try_on_source);
        curl_easy_setopt(easy, CURLOPT_READDATA, f);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, http_try_on_progress);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, f);
        return ok;
}

int http_try_init(struct ferry *f)
{
        if (!f->multi)
                f->multi = curl_multi_init();
        f->easy = curl_easy_init();
        f->url = curl_url();
        if (!f->multi || !f->easy || !f->url)
                return -ENOMEM;
        CURLUcode code = curl_url_set(f->url, CURLUPART_URL, f->base, CURLU_PATH_AS_IS);
        if (code != CURLUE_OK)
                return code == CURLUE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
        if (!http_try_set_fixed(f))
                return -ENOMEM;
        if (!f->multi_shared)
                curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_TRY_CONNECTIONS);
        return 0;
}

/* HTTPGET first: it takes back what the other methods set. */
static bool http_try_set_method(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        CURL *easy = t->f->easy;
        bool head = strcmp(e->method, "HEAD") == 0;
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        if (e->source) {
                t->source_left = e->source_size;
                curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
                curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                                 e->source_size == FERRY_SIZE_UNKNOWN ? (curl_off_t)-1 : (curl_off_t)e->source_size);
        } else if (e->body || strcmp(e->method, "POST") == 0 || strcmp(e->method, "PUT") == 0) {
                curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(e->body ? e->size : 0));
                curl_easy_setopt(easy, CURLOPT_POSTFIELDS, e->body ? e->body : "");
        }
        if (head)
                curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, head ? NULL : e->method) == CURLE_OK;
}

/* false: memory is short. */
static bool http_try_set(struct http_try *t, const char *target, struct curl_slist *headers)
{
        const struct ferry_exchange *e = &t->request->exchange;
        CURL *easy = t->f->easy;
        /*
         * libcurl by itself repeats a request whose kept connection turns out to be dead. Where a repetition could do
         * harm, or the body cannot be had again, a fresh connection rules that out.
         */
        bool once = strcmp(e->method, "POST") == 0 && !e->idempotency_key && !t->request->repeatable;
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, once || e->source ? 1L : 0L);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->reply->fault);
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, http_try_is_streamed(t) ? 0L : 1L);
        /* Not as part of the URL, which is then the same for all. The path goes out as it is. */
        return curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, target) == CURLE_OK && http_try_set_method(t);
}

/* The handle must not keep pointers to what ends with the try. */
static void http_try_unset(struct http_try *t)
{
        CURL *easy = t->f->easy;
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        t->f->http_try = NULL;
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

/* The handle is in the multi handle; CURLE_OPERATION_TIMEDOUT when our own time is over. */
static CURLcode http_try_run(struct http_try *t)
{
        struct ferry *f = t->f;
        for (;;) {
                int running = 0, left;
                if (curl_multi_perform(f->multi, &running) != CURLM_OK)
                        return CURLE_OUT_OF_MEMORY;
                for (CURLMsg *m = curl_multi_info_read(f->multi, &left); m; m = curl_multi_info_read(f->multi, &left)) {
                        if (m->msg == CURLMSG_DONE)
                                return m->data.result;
                }
                if (atomic_load(&f->aborted))
                        return CURLE_ABORTED_BY_CALLBACK;
                uint64_t now = ferry_clock_ms(), deadline = http_try_deadline(t);
                if (now >= deadline)
                        return CURLE_OPERATION_TIMEDOUT;
                uint64_t rest = deadline - now;
                curl_multi_poll(f->multi, NULL, 0, rest < HTTP_TRY_POLL_MS ? (int)rest : HTTP_TRY_POLL_MS, NULL);
        }
}

static int http_try_connect_errno(const struct http_try *t)
{
        long code = 0;
        curl_easy_getinfo(t->f->easy, CURLINFO_OS_ERRNO, &code);
        switch (code ? code : t->socket_error) {
        case EMFILE:
        case ENFILE:
                return -t->socket_error;
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
} http_try_results[] = {
        { CURLE_OK, 0 },
        { CURLE_ABORTED_BY_CALLBACK, -ECANCELED },
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

static int http_try_result(struct http_try *t, CURLcode code)
{
        if (t->abort < 0)
                return t->abort;
        if (code == CURLE_COULDNT_CONNECT)
                return http_try_connect_errno(t);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(http_try_results); i++) {
                if (http_try_results[i].code == code)
                        return http_try_results[i].result;
        }
        return -EIO;
}

static void http_try_finish(struct http_try *t, CURLcode code, int result)
{
        struct reply *reply = t->reply;
        long status = 0;
        curl_off_t after = 0;
        curl_easy_getinfo(t->f->easy, CURLINFO_RESPONSE_CODE, &status);
        reply->status = result == 0 ? (int)status : 0;
        if (curl_easy_getinfo(t->f->easy, CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after > 0)
                reply->retry_after_ms = after < HTTP_TRY_WAIT_MAX / 1000 ? (uint64_t)after * 1000 : HTTP_TRY_WAIT_MAX;
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

int http_try_begin(struct http_try *t)
{
        struct ferry *f = t->f;
        t->start_ms = t->moved_ms = ferry_clock_ms();
        t->target = http_try_join(f->prefix, "", t->request->exchange.path);
        t->headers = t->target ? http_try_headers(t) : NULL;
        f->http_try = t;
        if (t->headers && http_try_set(t, t->target, t->headers) &&
            curl_multi_add_handle(f->multi, f->easy) == CURLM_OK)
                return 0;
        return http_try_end(t, CURLE_OUT_OF_MEMORY);
}

int http_try_end(struct http_try *t, CURLcode code)
{
        curl_multi_remove_handle(t->f->multi, t->f->easy);
        int result = http_try_result(t, code);
        http_try_finish(t, code, result);
        http_try_unset(t);
        curl_slist_free_all(t->headers);
        free(t->target);
        return result;
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
                curl_multi_poll(f->multi, NULL, 0, rest < HTTP_TRY_POLL_MS ? (int)rest : HTTP_TRY_POLL_MS, NULL);
        }
}
