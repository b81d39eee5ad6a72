/* SPDX-License-Identifier: Apache-2.0 */
#include "easy/easy.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/error.h>

#include <utlist.h>
#include <xxhash.h>

#include "base/allowlist.h"
#include "base/util.h"

/*
 * One HTTP request by libcurl: see easy.h. easy_locate() parses the URL, easy_admit() checks the host, easy_prepare()
 * makes the handle, easy_start() runs it on a multi handle; done() is called when it is over. The sockets are ours
 * (on_socket), so that each address is checked before the first packet, and so that dead kept connections are known:
 * libcurl itself would try one after the other.
 *
 * Thread: any until easy_start(), then the multi handle's. Behaviour of libcurl that is not in its manual is named with
 * the version in which it was seen.
 */

enum {
        URL_MAX = 4096,
        HEADERS_MAX = 64 * 1024, /* bytes of one answer; an honest worker sends a few hundred */
        DEAD_MS = 5000,          /* closes a connection whose peer does not acknowledge sent bytes for so long … */
        PROBE_S = 1,             /* … or does not answer probes, while only the peer has to send */
        KEPT = 16,               /* connections without a request */
        OPEN = 64,               /* that libcurl closes one above when it is idle; by itself, four a running request */
        KEPT_S = 30,             /* a worker ends an idle one after 60 s; a proxy or a NAT may be sooner */
};

/* A digest of host and port. 0, or CURLE_OUT_OF_MEMORY. */
static CURLUcode take_host(struct easy *easy, const char *host)
{
        FERRY_CLEANUP(cleanup_curl) char *port = NULL;
        CURLUcode r = curl_url_get(easy->url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);

        if (r == CURLUE_OK)
                easy->host = XXH3_64bits_withSeed(host, strlen(host), strtoul(port, NULL, 10));
        return r;
}

int easy_locate(struct easy *easy, const struct easy_settings *settings, const char *url, char *detail,
                size_t detail_size)
{
        FERRY_CLEANUP(cleanup_curl) char *scheme = NULL;
        FERRY_CLEANUP(cleanup_curl) char *host = NULL;
        const char *why = NULL;
        CURLUcode r;

        easy->settings = settings;
        easy->url = curl_url();
        if (!easy->url)
                return -ENOMEM;
        if (strlen(url) > URL_MAX)
                r = CURLUE_MALFORMED_INPUT;
        else
                r = curl_url_set(easy->url, CURLUPART_URL, url, CURLU_DISALLOW_USER);
        if (r == CURLUE_OUT_OF_MEMORY)
                return -ENOMEM;
        if (r == CURLUE_USER_NOT_ALLOWED)
                why = "a URL with user information is not accepted";
        else if (r != CURLUE_OK || curl_url_get(easy->url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
                 curl_url_get(easy->url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
                 (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
                why = "this is not an http or https URL";
        else if (take_host(easy, host) != CURLUE_OK)
                return -ENOMEM;
        if (why) {
                (void)snprintf(detail, detail_size, "%s", why);
                return FERRY_E_INVALID_PARAMETER;
        }
        return 0;
}

int easy_admit(struct easy *easy, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_curl) char *host = NULL;

        if (curl_url_get(easy->url, CURLUPART_HOST, &host, 0) != CURLUE_OK)
                return -ENOMEM;
        if (!allowlist_admits(easy->settings->allowlist, host)) {
                (void)snprintf(detail, detail_size, "this host is not one that --allow-peer admits");
                return FERRY_E_FORBIDDEN;
        }
        easy->trusted = allowlist_names(easy->settings->allowlist, host);
        return 0;
}

size_t easy_count_header(struct easy *easy, size_t size)
{
        easy->header_bytes += size;
        if (easy->header_bytes <= HEADERS_MAX)
                return size;
        easy->too_large = true;
        return 0;
}

/* libcurl's callback for each line of the head. */
static size_t on_header(char *data, size_t one, size_t size, void *context)
{
        (void)data;
        (void)one;
        return easy_count_header(context, size);
}

/* ---- connections ---- */

/* A socket of libcurl's, until it closes it. */
struct easy_socket {
        struct easy_socket *prev, *next;
        curl_socket_t fd;
        uint64_t host;
        struct easy *user; /* the request that connects it or goes over it; NULL = it is kept */
        bool ended;        /* libcurl closes it before it would take it again */
};

/* The allowlist is checked against the address as well, before the first packet: a name may resolve to anything. */
static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct easy *easy = context;
        struct easy_socket *made;
        unsigned dead_ms = DEAD_MS;
        int probe_s = PROBE_S;

        if (purpose != CURLSOCKTYPE_IPCXN ||
            (!easy->trusted && !allowlist_admits_address(easy->settings->allowlist, &address->addr))) {
                easy->address_refused = true;
                return CURL_SOCKET_BAD;
        }
        easy->fresh = true;
        made = malloc(sizeof(*made));
        if (!made)
                return CURL_SOCKET_BAD;
        *made = (struct easy_socket){
                .fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol),
                .host = easy->host,
                .user = easy,
        };
        if (made->fd < 0) {
                free(made);
                return CURL_SOCKET_BAD;
        }
        (void)setsockopt(made->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
        (void)setsockopt(made->fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof(probe_s));
        (void)setsockopt(made->fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
        (void)setsockopt(made->fd, SOL_SOCKET, SO_KEEPALIVE, &probe_s, sizeof(probe_s));
        DL_APPEND(easy->multi->sockets, made);
        return made->fd;
}

static void forget(struct easy_multi *multi, struct easy_socket *gone)
{
        DL_DELETE(multi->sockets, gone);
        free(gone);
}

/* libcurl's callback: it is done with a socket. */
static int on_close(void *context, curl_socket_t fd)
{
        struct easy_multi *multi = context;
        struct easy_socket *closed;

        DL_SEARCH_SCALAR(multi->sockets, closed, fd, fd);
        if (closed)
                forget(multi, closed);
        return close(fd);
}

/*
 * A request is over: the socket kept, if any, is one that others may use. The other ones are closed. They are forgotten
 * here, since libcurl 7.88 does not say so of a socket that could not connect.
 */
static void leave_sockets(struct easy *easy, curl_socket_t kept)
{
        struct easy_socket *used, *next;

        DL_FOREACH_SAFE (easy->multi->sockets, used, next) {
                if (used->user != easy)
                        continue;
                used->user = NULL;
                if (used->fd != kept)
                        forget(easy->multi, used);
        }
}

/* The local port of a socket, by which on_request() finds the connection that libcurl has chosen; 0 = not known. */
static int port_of(curl_socket_t fd)
{
        struct sockaddr_storage address = { 0 };
        socklen_t size = sizeof(address);

        (void)getsockname(fd, (struct sockaddr *)&address, &size);
        return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                   : ((struct sockaddr_in *)&address)->sin_port);
}

static void end_kept(struct easy_socket *kept)
{
        kept->ended = true;
        (void)shutdown(kept->fd, SHUT_RDWR);
}

/* A kept connection to the host was dead, so the others are likely to be. */
static void end_kept_to(const struct easy *easy)
{
        struct easy_socket *kept;

        DL_FOREACH (easy->multi->sockets, kept)
                if (!kept->user && kept->host == easy->host)
                        end_kept(kept);
}

/* Requests that have just started may take as many. libcurl closes what is ended here with its next request. */
static void end_surplus(struct easy_multi *multi)
{
        struct easy_socket *kept;
        size_t n = 0;

        DL_FOREACH (multi->sockets, kept)
                n += !kept->user && !kept->ended;
        DL_FOREACH (multi->sockets, kept) {
                if (n <= KEPT + multi->n_running)
                        return;
                if (!kept->user && !kept->ended) {
                        end_kept(kept);
                        n--;
                }
        }
}

/*
 * A connection is there. libcurl itself repeats some requests over the next kept connection when the first one is dead,
 * and so on with five of them: one is enough.
 */
static int on_request(void *context, char *ip, char *local_ip, int port, int local_port)
{
        struct easy *easy = context;
        struct easy_socket *kept;
        bool repeated = easy->connected;

        (void)ip;
        (void)local_ip;
        (void)port;
        easy->connected = true;
        if (repeated)
                end_kept_to(easy);
        if (easy->fresh)
                return CURL_PREREQFUNC_OK;
        DL_FOREACH (easy->multi->sockets, kept)
                if (kept->host == easy->host && port_of(kept->fd) == local_port)
                        kept->user = easy; /* also where easy_leave of the request before is still to come */
        return repeated ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Sets an option to a text, unless that is NULL. */
static bool set_option(CURL *easy, CURLoption option, const char *value)
{
        return !value || curl_easy_setopt(easy, option, value) == CURLE_OK;
}

/* The copy that libcurl takes of a CURLU lacks the zone of an IPv6 address ("%25eth0"; seen in 7.88). */
static bool set_zone(CURL *curl, CURLU *url)
{
        FERRY_CLEANUP(cleanup_curl) char *zone = NULL;
        uint32_t index;

        if (curl_url_get(url, CURLUPART_ZONEID, &zone, 0) != CURLUE_OK)
                return true;
        index = if_nametoindex(zone);
        if (!index)
                index = (uint32_t)strtoul(zone, NULL, 10);
        return curl_easy_setopt(curl, CURLOPT_ADDRESS_SCOPE, (long)index) == CURLE_OK;
}

bool easy_prepare(struct easy *easy)
{
        const struct easy_settings *settings = easy->settings;
        CURL *curl = easy->curl = curl_easy_init();

        return curl && curl_easy_setopt(curl, CURLOPT_CURLU, easy->url) == CURLE_OK && set_zone(curl, easy->url) &&
               curl_easy_setopt(curl, CURLOPT_PRIVATE, easy) == CURLE_OK && ferry_http_only(curl) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, (long)KEPT_S) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, settings->connect_timeout_ms) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_HEADERDATA, easy) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_socket) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, easy) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_CLOSESOCKETFUNCTION, on_close) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, on_request) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PREREQDATA, easy) == CURLE_OK &&
               set_option(curl, CURLOPT_USERAGENT, settings->user_agent) &&
               set_option(curl, CURLOPT_CAINFO, settings->ca_file) &&
               set_option(curl, CURLOPT_SSLCERT, settings->cert_file) &&
               set_option(curl, CURLOPT_SSLKEY, settings->key_file);
}

/* Collects the body. Ends the request when it is too large, memory is short, or enough() says so. */
static size_t on_body(char *data, size_t one, size_t size, void *context)
{
        struct easy *easy = context;
        int r = ferry_buffer_append(&easy->body, data, size, easy->body_max);

        (void)one;
        easy->too_large |= r == -EMSGSIZE;
        easy->no_memory |= r == -ENOMEM;
        return r || (easy->enough && easy->enough(easy)) ? 0 : size;
}

bool easy_collect(struct easy *easy, size_t max)
{
        easy->body_max = max;
        return curl_easy_setopt(easy->curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_WRITEDATA, easy) == CURLE_OK;
}

/* ---- running ---- */

bool easy_multi_init(struct easy_multi *multi)
{
        multi->curl = curl_multi_init();
        return multi->curl && curl_multi_setopt(multi->curl, CURLMOPT_MAXCONNECTS, (long)OPEN) == CURLM_OK;
}

void easy_multi_clear(struct easy_multi *multi)
{
        struct easy_socket *left, *next;

        (void)curl_multi_cleanup(FERRY_STEAL(multi->curl));
        DL_FOREACH_SAFE (multi->sockets, left, next)
                forget(multi, left);
}

/* Hands the handle to the multi handle. Returns false when memory is short. */
static bool easy_send(struct easy_multi *multi, struct easy *easy)
{
        easy->multi = multi;
        easy->header_bytes = 0;
        easy->address_refused = easy->connected = easy->fresh = false;
        easy->too_large = easy->no_memory = false;
        if (curl_easy_setopt(easy->curl, CURLOPT_FRESH_CONNECT, (long)easy->repeated) != CURLE_OK ||
            curl_easy_setopt(easy->curl, CURLOPT_CLOSESOCKETDATA, multi) != CURLE_OK ||
            curl_multi_add_handle(multi->curl, easy->curl) != CURLM_OK)
                return false;
        multi->n_running++;
        return true;
}

bool easy_start(struct easy_multi *multi, struct easy *easy)
{
        easy->repeated = false;
        return easy_send(multi, easy);
}

/* Takes the handle back from the multi handle. kept: the socket that stays open for others; CURL_SOCKET_BAD = none. */
static void easy_leave(struct easy *easy, curl_socket_t kept)
{
        (void)curl_multi_remove_handle(easy->multi->curl, easy->curl);
        easy->multi->n_running--;
        leave_sockets(easy, kept);
}

void easy_stop(struct easy *easy)
{
        easy_leave(easy, CURL_SOCKET_BAD);
}

/* Whether the request failed over a kept connection before any byte of the answer came. */
static bool kept_was_dead(const struct easy *easy, CURLcode result)
{
        return easy->connected && !easy->fresh && !easy->header_bytes &&
               (result == CURLE_SEND_ERROR || result == CURLE_RECV_ERROR || result == CURLE_GOT_NOTHING ||
                result == CURLE_ABORTED_BY_CALLBACK);
}

/* false: it may not be repeated, or memory is short. */
static bool easy_repeat(struct easy *easy, CURLcode result)
{
        if (easy->repeated || !kept_was_dead(easy, result))
                return false;
        end_kept_to(easy);
        easy->repeated = true;
        if (easy->rewind)
                easy->rewind(easy);
        return easy_send(easy->multi, easy);
}

void easy_multi_run(struct easy_multi *multi)
{
        CURLMsg *message;
        int left;

        (void)curl_multi_perform(multi->curl, &left);
        while ((message = curl_multi_info_read(multi->curl, &left))) {
                CURLcode result = message->data.result;
                curl_socket_t kept = CURL_SOCKET_BAD;
                char *private = NULL;
                struct easy *easy;

                if (message->msg != CURLMSG_DONE)
                        continue;
                (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
                (void)curl_easy_getinfo(message->easy_handle, CURLINFO_ACTIVESOCKET, &kept);
                easy = (struct easy *)(void *)private;
                easy_leave(easy, kept);
                if (!easy_repeat(easy, result))
                        easy->done(easy, result);
        }
        end_surplus(multi);
}

void easy_clear(struct easy *easy)
{
        curl_easy_cleanup(FERRY_STEAL(easy->curl));
        curl_url_cleanup(FERRY_STEAL(easy->url));
        ferry_buffer_clear(&easy->body, true);
}

int easy_classify(const struct easy *easy, CURLcode result, const char *name, char detail[EASY_DETAIL_SIZE])
{
        const char *text = NULL;
        int error = FERRY_E_TRANSFER_FAILED;

        if (easy->too_large) {
                error = FERRY_E_INVALID_METADATA;
                text = "the peer's answer is too large for what was asked";
        } else if (easy->no_memory || result == CURLE_OUT_OF_MEMORY) {
                text = "memory is short";
        } else if (result == CURLE_OPERATION_TIMEDOUT) {
                error = easy->connected ? FERRY_E_TIMEOUT : FERRY_E_PEER_UNREACHABLE;
                text = easy->connected ? "the peer did not answer in time" : "no connection to the peer in time";
        } else if (easy->address_refused && !easy->fresh) {
                error = FERRY_E_FORBIDDEN;
                text = "the peer's name resolves to an address that --allow-peer does not admit";
        } else if (result == CURLE_COULDNT_RESOLVE_HOST) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "the peer's name could not be resolved";
        } else if (result == CURLE_COULDNT_CONNECT) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "cannot connect to the peer";
        } else if (result == CURLE_PEER_FAILED_VERIFICATION) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "the peer's certificate is not trusted (--peer-ca)";
        } else if (result == CURLE_SSL_CONNECT_ERROR) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "cannot make a TLS connection to the peer";
        } else if (result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR || result == CURLE_GOT_NOTHING ||
                   result == CURLE_PARTIAL_FILE) {
                error = FERRY_E_PEER_LOST;
        }
        if (text)
                (void)snprintf(detail, EASY_DETAIL_SIZE, "%s", text);
        else
                (void)snprintf(detail, EASY_DETAIL_SIZE, "%s could not be transferred: %s", name,
                               curl_easy_strerror(result));
        return error;
}
