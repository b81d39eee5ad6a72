/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GUARD_H
#define HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "headers.h"
#include "http/server.h"

struct http_request;

/*
 * What stands before every handler: a message whose end is not clear, a name that is not ours (DNS rebinding), a
 * browser's page of another origin, a missing token.
 */

/*
 * Whether the headers leave no doubt about where the body ends: request smuggling lives on such doubts, and
 * libmicrohttpd lets some through. NULL when they do, else a sentence. Pure.
 */
const char *guard_framing_fault(const struct http_headers *headers, const char *version);

/* Whether a Host header names this worker: an IP literal, localhost, or one of the n names. Pure. */
bool guard_host_allowed(const char *header, const char *const *names, size_t n);

/* Whether an Origin is one of the n allowed ones; they are compared without regard to case. Pure. */
/*
 * Whether the origin is the worker's own: its page at the host that the request names, which has been judged before, or
 * at url (NULL = there is none).
 */
bool guard_origin_own(const char *origin, const char *host, bool tls, const char *url);

bool guard_origin_allowed(const char *origin, const char *const *allowed, size_t n);

/* What an Authorization header (NULL = none) of the scheme Bearer holds; NULL = nothing. Pure. */
const char *guard_bearer(const char *authorization);

/*
 * Whether an Authorization header (NULL = none) opens a route that needs the given token. full NULL = no token is asked
 * for. 0, FERRY_E_UNAUTHENTICATED or FERRY_E_FORBIDDEN (a token that opens other routes). Pure; compares in constant
 * time. HTTP_AUTH_KEY: what has the form of a key passes, for the handler to compare.
 */
struct guard_tokens {
        const char *full, *peer, *metrics; /* NULL = there is none */
};
int guard_authorize(const char *authorization, const struct guard_tokens *tokens, enum http_auth need);

/* Framing, Host and Origin of a request. false: it has been answered. */
bool guard_admit(struct http_request *request);

/* The secrets that hold now. Of the connection's thread, until the handler returns. */
const struct http_secrets *guard_secrets(const struct http_request *request);

/* The token of a request that has a route. false: it has been answered. */
bool guard_authenticate(struct http_request *request);

#endif
