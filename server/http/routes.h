/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include <ferry/encoding.h>

#include "http/server.h"

/*
 * Finds the route of a method (HEAD is served by GET) and a decoded path; NULL = none. id gets the text in place of
 * {id}: "" when the path has none, or when it is longer than any id. Pure.
 */
const struct http_route *route_find(const char *method, const char *path, char id[FERRY_ID_TEXT_SIZE]);

/* Formats the methods of a path for an Allow header. false: no route has the path. Pure. */
bool route_allow(const char *path, char *allow, size_t size);

#endif
