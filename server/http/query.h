/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server.h"

/* The query parameters of a request, each as a number: names are their enum's value, cursors what they stand for. */
struct http_query {
        unsigned present; /* 1u << HTTP_PARAMETER_* */
        uint64_t values[HTTP_PARAMETER_COUNT];
};

enum { QUERY_DETAIL_SIZE = 128, QUERY_CURSOR_SIZE = 24 };

static inline bool query_has(const struct http_query *query, enum http_parameter parameter)
{
        return query->present & (1u << parameter);
}

/*
 * Takes one parameter. value NULL = the parameter had no "=". allowed: bits of those that the route has. false with a
 * sentence in detail: unknown, given twice, or not valid. Pure.
 */
bool query_add(struct http_query *query, unsigned allowed, const char *name, const char *value, size_t size,
               char detail[QUERY_DETAIL_SIZE]);

/* The text of a page's cursor, which query_add reads back. */
void query_format_cursor(uint64_t cursor, char text[QUERY_CURSOR_SIZE]);

#endif
