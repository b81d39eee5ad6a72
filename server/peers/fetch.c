/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "admission.h"
#include "base/util.h"
#include "fetch.h"

enum {
        URL_MAX = 4096,
        HEADERS_MAX = 64 * 1024, /* bytes of one answer; an honest worker sends a few hundred */
        BODY_STEP = 4096,
};

static void cleanup_fetch(struct fetch **fetch)
{
        *fetch = fetch_free(*fetch);
}

static void cleanup_curl(char **text)
{
        curl_free(*text);
}

/* What curl will connect to is what was checked: it gets this parsed URL, not the text. */
static int url_check(struct fetch *fetch, const char *url, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_curl) char *scheme = NULL;
        FERRY_CLEANUP(cleanup_curl) char *host = NULL;
        FERRY_CLEANUP(cleanup_curl) char *path = NULL;
        const char *why = NULL;
        CURLUcode r;
        int error;

        fetch->url = curl_url();
        if (!fetch->url)
                return -ENOMEM;
        if (strlen(url) > URL_MAX)
                r = CURLUE_MALFORMED_INPUT;
        else
                r = curl_url_set(fetch->url, CURLUPART_URL, url, CURLU_DISALLOW_USER);
        if (r == CURLUE_OUT_OF_MEMORY)
                return -ENOMEM;
        if (r == CURLUE_USER_NOT_ALLOWED)
                why = "a URL with user information is not accepted";
        else if (r != CURLUE_OK || curl_url_get(fetch->url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
                 curl_url_get(fetch->url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
                 curl_url_get(fetch->url, CURLUPART_PATH, &path, 0) != CURLUE_OK ||
                 (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
                why = "this is not an http or https URL";
        else if ((error = fetch->document->locate(fetch->url, path, &why)) < 0)
                return error;
        if (why) {
                (void)snprintf(detail, detail_size, "%s", why);
                return FERRY_E_INVALID_PARAMETER;
        }
        if (!admission_host(fetch->settings->admission, host)) {
                (void)snprintf(detail, detail_size, "this host is not one that --allow-peer admits");
                return FERRY_E_FORBIDDEN;
        }
        fetch->trusted = admission_name(fetch->settings->admission, host);
        return 0;
}

static size_t on_header(char *data, size_t one, size_t size, void *context)
{
        struct fetch *fetch = context;

        (void)data;
        (void)one;
        fetch->header_bytes += size;
        if (fetch->header_bytes <= HEADERS_MAX)
                return size;
        fetch->too_large = true;
        return 0;
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
        struct fetch *fetch = context;
        size_t wanted, capacity;
        char *body;

        (void)one;
        if (size > fetch->settings->max_body - fetch->size) {
                fetch->too_large = true;
                return 0;
        }
        wanted = fetch->size + size;
        if (wanted > fetch->capacity) {
                capacity = fetch->capacity * 2 > wanted ? fetch->capacity * 2 : wanted + BODY_STEP;
                body = realloc(fetch->body, capacity);
                if (!body) {
                        fetch->no_memory = true;
                        return 0;
                }
                fetch->body = body;
                fetch->capacity = capacity;
        }
        memcpy(fetch->body + fetch->size, data, size);
        fetch->size = wanted;
        return size;
}

/* A name may resolve to anything; the last word is on the address, before a packet goes there. */
static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct fetch *fetch = context;

        if (purpose != CURLSOCKTYPE_IPCXN ||
            (!fetch->trusted && !admission_address(fetch->settings->admission, &address->addr))) {
                fetch->address_refused = true;
                return CURL_SOCKET_BAD;
        }
        fetch->address_tried = true;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int on_request(void *context, char *ip, char *local_ip, int port, int local_port)
{
        struct fetch *fetch = context;

        (void)ip;
        (void)local_ip;
        (void)port;
        (void)local_port;
        fetch->connected = true;
        return CURL_PREREQFUNC_OK;
}

/* By the name that libcurl 7.85 deprecated where it is the only one. */
static CURLcode allow_http_only(CURL *easy)
{
#if CURL_AT_LEAST_VERSION(7, 85, 0)
        return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
        return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static bool set_option(CURL *easy, CURLoption option, const char *value)
{
        return !value || curl_easy_setopt(easy, option, value) == CURLE_OK;
}

static bool easy_prepare(struct fetch *fetch)
{
        const struct fetch_settings *settings = fetch->settings;
        CURL *easy = fetch->easy = curl_easy_init();

        return easy && curl_easy_setopt(easy, CURLOPT_CURLU, fetch->url) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_PRIVATE, fetch) == CURLE_OK && allow_http_only(easy) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, settings->connect_timeout_ms) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, settings->timeout_ms) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HTTPHEADER, settings->headers) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HEADERDATA, fetch) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, fetch) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_PREREQDATA, fetch) == CURLE_OK &&
               set_option(easy, CURLOPT_USERAGENT, settings->user_agent) &&
               set_option(easy, CURLOPT_CAINFO, settings->ca_file) &&
               set_option(easy, CURLOPT_SSLCERT, settings->cert_file) &&
               set_option(easy, CURLOPT_SSLKEY, settings->key_file);
}

int fetch_new(const struct fetch_settings *settings, const struct fetch_document *document, const char *url,
              struct fetch **ret_fetch, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_fetch) struct fetch *fetch = calloc(1, sizeof(*fetch));
        int r;

        if (!fetch)
                return -ENOMEM;
        fetch->settings = settings;
        fetch->document = document;
        r = url_check(fetch, url, detail, detail_size);
        if (r)
                return r;
        if (!easy_prepare(fetch))
                return -ENOMEM;
        *ret_fetch = FERRY_STEAL(fetch);
        return 0;
}

struct fetch *fetch_free(struct fetch *fetch)
{
        if (!fetch)
                return NULL;
        curl_easy_cleanup(fetch->easy);
        curl_url_cleanup(fetch->url);
        if (fetch->body)
                explicit_bzero(fetch->body, fetch->size); /* it held a notification key */
        free(fetch->body);
        free(fetch);
        return NULL;
}

static int judge_failure(const struct fetch *fetch, CURLcode result, char detail[FETCH_DETAIL_SIZE])
{
        const char *text = NULL;
        int error = FERRY_E_TRANSFER_FAILED;

        if (fetch->too_large) {
                error = FERRY_E_INVALID_METADATA;
                text = "the peer's answer is too large for what was asked";
        } else if (fetch->no_memory || result == CURLE_OUT_OF_MEMORY) {
                text = "memory is short";
        } else if (result == CURLE_OPERATION_TIMEDOUT) {
                error = fetch->connected ? FERRY_E_TIMEOUT : FERRY_E_PEER_UNREACHABLE;
                text = fetch->connected ? "the peer did not answer in time" : "no connection to the peer in time";
        } else if (fetch->address_refused && !fetch->address_tried) {
                error = FERRY_E_FORBIDDEN;
                text = "the peer's name leads to an address that --allow-peer does not admit";
        } else if (result == CURLE_COULDNT_RESOLVE_HOST) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "the peer's name could not be resolved";
        } else if (result == CURLE_COULDNT_CONNECT) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "no connection to the peer could be made";
        } else if (result == CURLE_PEER_FAILED_VERIFICATION) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "the peer's certificate is not to be trusted (--peer-ca)";
        } else if (result == CURLE_SSL_CONNECT_ERROR) {
                error = FERRY_E_PEER_UNREACHABLE;
                text = "no TLS connection to the peer could be made";
        }
        if (text)
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "%s", text);
        else
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "%s could not be fetched: %s", fetch->document->name,
                               curl_easy_strerror(result));
        return error;
}

static int judge_body(const struct fetch *fetch, struct ferry_metadata **ret_metadata, char detail[FETCH_DETAIL_SIZE])
{
        struct ferry_json_errors errors = { 0 };
        int r = fetch->document->judge_body(fetch->size ? fetch->body : "", fetch->size, ret_metadata, &errors);

        if (r == 0)
                return 0;
        if (r < 0) {
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "memory is short");
                return FERRY_E_TRANSFER_FAILED;
        }
        (void)snprintf(detail, FETCH_DETAIL_SIZE, "the peer's answer is not %s: %s", fetch->document->name,
                       errors.n ? errors.items[0].detail : ferry_error_title(r));
        return FERRY_E_INVALID_METADATA;
}

int fetch_judge(const struct fetch *fetch, CURLcode result, struct ferry_metadata **ret_metadata,
                char detail[FETCH_DETAIL_SIZE])
{
        long status = 0;

        detail[0] = '\0';
        if (result != CURLE_OK)
                return judge_failure(fetch, result, detail);
        (void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status != 200)
                return fetch->document->judge_status(status, detail);
        return judge_body(fetch, ret_metadata, detail);
}
