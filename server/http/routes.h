/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include <ferry/encoding.h>

#include "http/server.h"

/*
 * The route of a method (HEAD is GET's) and a decoded path; NULL when there is none. id gets what stands for {id}: ""
 * when the path has none, or when it is too long to be the id of anything. Pure.
 */
const struct http_route *route_find(const char *method, const char *path, char id[FERRY_ID_TEXT_SIZE]);

/* The methods of a path as an Allow header has them. false when no route has the path. Pure. */
bool route_allow(const char *path, char *allow, size_t size);

#endif
