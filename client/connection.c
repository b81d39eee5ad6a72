/* SPDX-License-Identifier: Apache-2.0 */
#include "connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/clock.h>
#include <ferry/http_only.h>

#include "client_internal.h"

enum { CONNECTION_IDLE_MS = 30000 }; /* a worker ends an idle connection after 60 s; a NAT forgets it without a word */

/* libcurl says only that it could not connect, and lets programs that the caller starts inherit the connection. */
static curl_socket_t connection_on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
        (void)purpose;
        if (fd < 0)
                ((struct ferry *)context)->socket_error = errno;
        return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/*
 * Taken apart once. The copy that libcurl takes of a CURLU lacks the zone of an IPv6 address ("%25eth0"; seen in 7.88):
 * such a URL is taken apart each time.
 */
static CURLcode connection_set_url(struct ferry *f)
{
        if (strchr(f->base, '%'))
                return curl_easy_setopt(f->easy, CURLOPT_URL, f->base);
        return curl_easy_setopt(f->easy, CURLOPT_CURLU, f->url);
}

/* false: memory is short. */
static bool connection_set(struct ferry *f)
{
        CURL *easy = f->easy;
        bool ok = connection_set_url(f) == CURLE_OK && ferry_http_only(easy) == CURLE_OK &&
                  curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket) == CURLE_OK &&
                  curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
                  (!f->ca_file || curl_easy_setopt(easy, CURLOPT_CAINFO, f->ca_file) == CURLE_OK) &&
                  (!f->cert_file || curl_easy_setopt(easy, CURLOPT_SSLCERT, f->cert_file) == CURLE_OK) &&
                  (!f->key_file || curl_easy_setopt(easy, CURLOPT_SSLKEY, f->key_file) == CURLE_OK);
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* what TLS agrees upon */
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a call ends without the answer of a resolver */
#endif
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)f->connect_timeout_ms);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, connection_on_socket);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, f);
        return ok;
}

/* The value of the header Host. 0; -ENOMEM. */
static int connection_set_host(struct ferry *f)
{
        char *host = NULL, *port = NULL;
        int n = -1;
        CURLUcode code = curl_url_get(f->url, CURLUPART_HOST, &host, 0);
        if (code == CURLUE_OK)
                code = curl_url_get(f->url, CURLUPART_PORT, &port, CURLU_NO_DEFAULT_PORT);
        if (code == CURLUE_OK || code == CURLUE_NO_PORT)
                n = asprintf(&f->host, "%s%s%s", host, port ? ":" : "", port ? port : "");
        curl_free(host);
        curl_free(port);
        return n < 0 ? -ENOMEM : 0;
}

CURLM *connection_multi_new(void)
{
        CURLM *multi = curl_multi_init();
#if CURL_AT_LEAST_VERSION(8, 20, 0)
        if (multi)
                curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L); /* instead of CURLOPT_QUICK_EXIT */
#endif
        return multi;
}

int connection_init(struct ferry *f)
{
        if (!f->multi) {
                f->multi = connection_multi_new();
                f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                if (f->wake < 0)
                        return -errno;
        }
        f->easy = curl_easy_init();
        f->url = curl_url();
        if (!f->multi || !f->easy || !f->url)
                return -ENOMEM;
        CURLUcode code = curl_url_set(f->url, CURLUPART_URL, f->base, CURLU_PATH_AS_IS);
        if (code != CURLUE_OK)
                return code == CURLUE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
        return connection_set(f) ? connection_set_host(f) : -ENOMEM;
}

int connection_begin(struct ferry *f, char *fault)
{
        connection_close(f);
        f->socket_error = 0;
        curl_easy_setopt(f->easy, CURLOPT_ERRORBUFFER, fault);
        if (curl_multi_add_handle(f->multi, f->easy) != CURLM_OK) {
                curl_easy_setopt(f->easy, CURLOPT_ERRORBUFFER, NULL);
                return -ENOMEM;
        }
        f->connection = CONNECTION_CONNECTING;
        return 0;
}

CURLcode connection_made(struct ferry *f, CURLcode code)
{
        curl_easy_setopt(f->easy, CURLOPT_ERRORBUFFER, NULL);
        if (code == CURLE_OK)
                code = curl_easy_getinfo(f->easy, CURLINFO_ACTIVESOCKET, &f->socket);
        if (code == CURLE_OK && f->socket == CURL_SOCKET_BAD)
                code = CURLE_COULDNT_CONNECT;
        if (code == CURLE_OK)
                f->connection = CONNECTION_OPEN;
        else
                connection_close(f);
        return code;
}

bool connection_is_idle(struct ferry *f)
{
        char byte;
        size_t n;
        return f->connection == CONNECTION_OPEN && ferry_clock_ms() - f->used_ms < CONNECTION_IDLE_MS &&
               connection_receive(f, &byte, 1, &n) == CURLE_AGAIN;
}

static CURLcode connection_code(ssize_t result, CURLcode failed, size_t *ret_n)
{
        *ret_n = result > 0 ? (size_t)result : 0;
        if (result >= 0)
                return CURLE_OK;
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? CURLE_AGAIN : failed;
}

CURLcode connection_send(struct ferry *f, const void *data, size_t size, size_t *ret_n)
{
        if (f->tls)
                return curl_easy_send(f->easy, data, size, ret_n);
        return connection_code(send(f->socket, data, size, MSG_NOSIGNAL | MSG_DONTWAIT), CURLE_SEND_ERROR, ret_n);
}

CURLcode connection_receive(struct ferry *f, void *data, size_t size, size_t *ret_n)
{
        if (f->tls)
                return curl_easy_recv(f->easy, data, size, ret_n);
        return connection_code(recv(f->socket, data, size, MSG_DONTWAIT), CURLE_RECV_ERROR, ret_n);
}

/* libcurl closes a connection of this kind when its handle leaves the multi handle. */
void connection_close(struct ferry *f)
{
        if (f->connection == CONNECTION_CLOSED)
                return;
        f->connection = CONNECTION_CLOSED;
        curl_easy_setopt(f->easy, CURLOPT_ERRORBUFFER, NULL);
        curl_multi_remove_handle(f->multi, f->easy);
}

int connection_errno(const struct ferry *f)
{
        long code = 0;
        curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &code);
        if (!code)
                code = f->socket_error;
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

void connection_free(struct ferry *f, bool foreign)
{
        if (!foreign || !f->tls) { /* TLS would take leave of the worker */
                connection_close(f);
                curl_easy_cleanup(f->easy);
                if (!f->multi_shared)
                        curl_multi_cleanup(f->multi);
        }
        curl_url_cleanup(f->url);
        free(f->host);
        if (f->wake >= 0)
                close(f->wake);
}
