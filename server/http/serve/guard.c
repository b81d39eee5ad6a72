/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/address.h"
#include "base/util.h"

/*
 * Checks of a request before its handler: an end that is unambiguous, a Host that is this worker's, an Origin that
 * is allowed, a token. And the secrets: one set at a time, replaced as a whole by a reload; each HTTP thread keeps a
 * reference to the set that it uses, so that a request takes a lock only after a reload.
 *
 * Thread: any for the sets and the pure functions, the request's for the rest.
 */

/* ---- the secrets ---- */

int credentials_new(const struct http_secrets *secrets, struct http_credentials **ret_credentials)
{
        struct http_secrets kept = *secrets;
        const char **const all[] = { &kept.token,    &kept.peer_token, &kept.metrics_token,
                                     &kept.tls_cert, &kept.tls_key,    &kept.tls_client_ca };
        struct http_credentials *credentials;
        size_t size = 0;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(all); i++)
                size += *all[i] ? strlen(*all[i]) + 1 : 0;
        credentials = calloc(1, sizeof(*credentials) + size);
        if (!credentials)
                return -ENOMEM;
        char *end = credentials->text;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(all); i++) {
                const char *given = *all[i];
                if (!given)
                        continue;
                *all[i] = end;
                end = stpcpy(end, given) + 1;
        }
        credentials->secrets = kept;
        credentials->size = size;
        atomic_init(&credentials->references, 1);
        *ret_credentials = credentials;
        return 0;
}

struct http_credentials *credentials_ref(struct http_credentials *credentials)
{
        atomic_fetch_add(&credentials->references, 1);
        return credentials;
}

struct http_credentials *credentials_unref(struct http_credentials *credentials)
{
        if (!credentials || atomic_fetch_sub(&credentials->references, 1) != 1)
                return NULL;
        explicit_bzero(credentials->text, credentials->size);
        free(credentials);
        return NULL;
}

void credentials_source_init(struct credentials_source *source)
{
        *source = (struct credentials_source){ .newest = NULL };
        (void)pthread_mutex_init(&source->lock, NULL);
}

void credentials_source_destroy(struct credentials_source *source)
{
        credentials_unref(source->newest);
        pthread_mutex_destroy(&source->lock);
}

void credentials_replace(struct credentials_source *source, struct http_credentials *credentials)
{
        pthread_mutex_lock(&source->lock);
        struct http_credentials *replaced = source->newest;
        source->newest = credentials;
        atomic_fetch_add(&source->n_reloads, 1);
        pthread_mutex_unlock(&source->lock);
        credentials_unref(replaced);
}

struct http_credentials *credentials_current(struct credentials_cache *cache)
{
        struct credentials_source *source = cache->source;

        if (cache->current && atomic_load(&source->n_reloads) == cache->n_reloads)
                return cache->current;
        pthread_mutex_lock(&source->lock);
        struct http_credentials *replaced = cache->current;
        cache->current = credentials_ref(source->newest);
        cache->n_reloads = atomic_load(&source->n_reloads);
        pthread_mutex_unlock(&source->lock);
        credentials_unref(replaced);
        return cache->current;
}

void credentials_forget(struct credentials_cache *cache)
{
        cache->current = credentials_unref(cache->current);
}

/* ---- the checks ---- */

const char *guard_framing_fault(const struct http_headers *headers, const char *version)
{
        uint64_t length;

        if (headers->fault)
                return headers->fault;
        if (headers->transfer_encoding && headers->content_length)
                return "The request has both Content-Length and Transfer-Encoding";
        if (headers->transfer_encoding && strcasecmp(headers->transfer_encoding, "chunked"))
                return "The only Transfer-Encoding is chunked";
        if (headers->transfer_encoding && !strcmp(version, "HTTP/1.0"))
                return "HTTP/1.0 has no Transfer-Encoding";
        if (headers->content_length && !headers_parse_length(headers->content_length, &length))
                return "Content-Length is not a number";
        return NULL;
}

bool guard_host_allowed(const char *header, const char *const *names, size_t n)
{
        char host[ADDRESS_HOST_SIZE];

        if (!address_host(header, host))
                return false;
        if (address_is_literal(host) || !strcasecmp(host, "localhost"))
                return true;
        for (size_t i = 0; i < n; i++)
                if (names[i] && !strcasecmp(host, names[i]))
                        return true;
        return false;
}

bool guard_origin_own(const char *origin, const char *host, bool tls, const char *url)
{
        const char *scheme = tls ? "https://" : "http://";
        size_t length = strlen(scheme), own = url ? strlen(url) : 0;

        while (own && url[own - 1] == '/')
                own--;
        if (own && strlen(origin) == own && !strncasecmp(origin, url, own))
                return true;
        return host && !strncasecmp(origin, scheme, length) && !strcasecmp(origin + length, host);
}

bool guard_origin_allowed(const char *origin, const char *const *allowed, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!strcasecmp(origin, allowed[i]))
                        return true;
        return false;
}

const char *guard_bearer(const char *authorization)
{
        if (!authorization || strncasecmp(authorization, "Bearer ", 7))
                return NULL;
        authorization += 7;
        while (*authorization == ' ')
                authorization++;
        return authorization;
}

int guard_authorize(const char *authorization, const struct guard_tokens *tokens, enum http_auth need)
{
        if (need == HTTP_AUTH_NONE || (!tokens->full && need != HTTP_AUTH_KEY))
                return 0;
        const char *given = guard_bearer(authorization);
        bool takes_key = need == HTTP_AUTH_KEY || need == HTTP_AUTH_FULL_OR_KEY;
        uint8_t key[FERRY_KEY_SIZE];
        if (!given)
                return FERRY_E_UNAUTHENTICATED;
        /* Always compares all: the time must not tell which token was close. */
        bool full = tokens->full && ferry_secret_equal(given, tokens->full);
        bool peer = tokens->peer && ferry_secret_equal(given, tokens->peer);
        bool metrics = tokens->metrics && ferry_secret_equal(given, tokens->metrics);
        if (full || (peer && need == HTTP_AUTH_PEER) || (metrics && need == HTTP_AUTH_METRICS))
                return 0;
        if (takes_key && ferry_key_parse(given, key)) {
                explicit_bzero(key, sizeof(key));
                return 0;
        }
        return peer || metrics ? FERRY_E_FORBIDDEN : FERRY_E_UNAUTHENTICATED;
}

/* A CORS preflight, which browsers send without a token. */
static void answer_preflight(struct http_request *request)
{
        request_header(request, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
        request_header(request, "Access-Control-Allow-Headers", "*, Authorization"); /* which * does not include */
        request_header(request, "Access-Control-Max-Age", "600");
        request_answer_empty(request, 204);
}

/*
 * The checks stand in the order of what they protect: the framing of the next request on the connection, then this
 * worker from names that lead here by accident or by DNS rebinding, then its users from other sites' pages.
 */
bool guard_admit(struct http_request *request)
{
        const struct http_headers *headers = &request->headers;
        const struct http_config *config = &request->server->config;
        const char *fault = request->target_fault ? "The request target holds a NUL"
                            : request->head_fault ? "The head holds a NUL, or a header is folded"
                                                  : guard_framing_fault(headers, request->version);

        if (fault) {
                request->must_close = true;
                request_problem(request, FERRY_E_INVALID_PARAMETER, "%s", fault);
                return false;
        }
        const struct http_listener *listener = request->connection->listener;
        const char *names[] = { config->advertise, listener->host };
        if (!listener->local && headers->host && strcmp(headers->host, listener->authority) != 0 &&
            !guard_host_allowed(headers->host, names, 2) &&
            !guard_host_allowed(headers->host, config->allow_host, config->n_allow_host)) {
                request_problem(request, FERRY_E_HOST_REFUSED,
                                "Host \"%.64s\" is not allowed: use an IP address or localhost, or start the worker "
                                "with --allow-host",
                                headers->host);
                return false;
        }
        if (!listener->local && !headers->host && strcmp(request->version, "HTTP/1.0")) {
                request->must_close = true;
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The request has no Host");
                return false;
        }
        if (!headers->origin || (!listener->local && guard_origin_own(headers->origin, headers->host, listener->tls,
                                                                      config->advertise_url)))
                return true;
        if (!guard_origin_allowed(headers->origin, config->allow_origin, config->n_allow_origin)) {
                request_problem(request, FERRY_E_ORIGIN_REFUSED, "Origin is not allowed: see --allow-origin");
                return false;
        }
        request->cross_origin = true;
        if (!strcmp(request->method, "OPTIONS") && headers->requested_method) {
                answer_preflight(request);
                return false;
        }
        return true;
}

const struct http_secrets *guard_secrets(const struct http_request *request)
{
        return &credentials_current(&request->connection->shard->owner->credentials)->secrets;
}

void guard_trust(struct http_request *request)
{
        request->connection->trust = request->connection->shard->owner->credentials.n_reloads;
}

/* Adds what RFC 6750, section 3, wants of a 401 or 403: nothing but the scheme where no token was sent. */
static void add_challenge(struct http_request *request, int error)
{
        const char *why = error == FERRY_E_FORBIDDEN                     ? " error=\"insufficient_scope\""
                          : guard_bearer(request->headers.authorization) ? " error=\"invalid_token\""
                                                                         : "";

        request_header_text(request, "WWW-Authenticate", "Bearer", why);
}

bool guard_authenticate(struct http_request *request)
{
        const struct http_secrets *secrets = guard_secrets(request);
        const struct guard_tokens tokens = { secrets->token, secrets->peer_token, secrets->metrics_token };
        int error = guard_authorize(request->headers.authorization, &tokens, request->route->auth);

        if (!error) {
                if (!secrets->token ||
                    (request->route->auth != HTTP_AUTH_NONE && request->route->auth != HTTP_AUTH_KEY &&
                     request->route->auth != HTTP_AUTH_FULL_OR_KEY))
                        guard_trust(request);
                return true;
        }
        add_challenge(request, error);
        if (error == FERRY_E_FORBIDDEN)
                request_problem(request, error,
                                "A peer's token may fetch metadata and /v1/worker only, a metrics token /metrics only");
        else if (request->route->auth == HTTP_AUTH_KEY || request->route->auth == HTTP_AUTH_FULL_OR_KEY)
                request_problem(request, error,
                                "Send the notification_key of the operation's metadata as Authorization: Bearer");
        else if (guard_bearer(request->headers.authorization))
                request_problem(request, error, "The token is not one of this worker's");
        else
                request_problem(request, error, "Send the worker's token as Authorization: Bearer");
        return false;
}
