/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GUARD_H
#define HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "headers.h"
#include "http/server.h"

/*
 * Checks before every handler: refuses messages whose end is ambiguous, Host names that are not the worker's (DNS
 * rebinding), pages of other origins, and missing tokens.
 */

/*
 * Checks that the headers say unambiguously where the body ends; ambiguity enables request smuggling, and libmicrohttpd
 * lets some of it through. NULL = they do; else a sentence that says what is wrong. Pure.
 */
const char *guard_framing_fault(const struct http_headers *headers, const char *version);

/* Whether a Host header names this worker: an IP literal, localhost, or one of the n names. Pure. */
bool guard_host_allowed(const char *header, const char *const *names, size_t n);

/* Whether the origin is the worker's own: that of the request's Host, which was checked before, or url (or NULL). Pure.
 */
bool guard_origin_own(const char *origin, const char *host, bool tls, const char *url);

/* Whether the origin is one of the n allowed ones, ignoring case. Pure. */
bool guard_origin_allowed(const char *origin, const char *const *allowed, size_t n);

/* The token of an Authorization header (or NULL) of scheme Bearer; NULL = none. Pure. */
const char *guard_bearer(const char *authorization);

/*
 * Checks an Authorization header (or NULL) against the tokens for a route that needs `need`. Where tokens->full is NULL
 * every route is open but those of HTTP_AUTH_KEY. 0; FERRY_E_UNAUTHENTICATED; FERRY_E_FORBIDDEN (the token is for other
 * routes). For HTTP_AUTH_KEY and HTTP_AUTH_FULL_OR_KEY anything in the form of a key passes: the handler compares it.
 * Pure; compares in constant time.
 */
struct guard_tokens {
        const char *full, *peer, *metrics; /* NULL = none */
};
int guard_authorize(const char *authorization, const struct guard_tokens *tokens, enum http_auth need);

/* Checks framing, Host and Origin of a request. false: answered. */
bool guard_admit(struct http_request *request);

/* The secrets in force. Valid on the connection's thread until the handler returns. */
const struct http_secrets *guard_secrets(const struct http_request *request);

/*
 * Checks the token of a request that has a route. false: answered. A connection with one is trusted; one with an
 * operation's key, once the handler has compared that.
 */
bool guard_authenticate(struct http_request *request);

/* The request was allowed by a secret of the set in force: its connection keeps its place (connection_gives_way). */
void guard_trust(struct http_request *request);

#endif
