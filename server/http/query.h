/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server.h"

/*
 * The query parameters of a request, each as a number: words are their enum's value, cursors what they stand for, texts
 * where they are.
 */
struct http_query {
        unsigned present; /* 1u << HTTP_PARAMETER_* */
        uint8_t narrow[HTTP_PARAMETER_COUNT - HTTP_PARAMETER_WIDE_COUNT];
        uint64_t wide[HTTP_PARAMETER_WIDE_COUNT];
};

enum { QUERY_DETAIL_SIZE = 128, QUERY_CURSOR_SIZE = 24 };

static inline bool query_has(const struct http_query *query, enum http_parameter parameter)
{
        return query->present & (1u << parameter);
}

/* 0 when it was not given. */
static inline uint64_t query_value(const struct http_query *query, enum http_parameter parameter)
{
        if (parameter < HTTP_PARAMETER_WIDE_COUNT)
                return query->wide[parameter];
        return query->narrow[parameter - HTTP_PARAMETER_WIDE_COUNT];
}

/* Of a parameter that is a text, which is borrowed from who added it. NULL when it was not given. */
static inline const char *query_text(const struct http_query *query, enum http_parameter parameter)
{
        return (const char *)(uintptr_t)query_value(query, parameter);
}

/*
 * Takes one parameter. value NULL = the parameter had no "=". allowed: bits of those that the route has. false with a
 * sentence in detail: unknown, given twice, or not valid. Pure.
 */
bool query_add(struct http_query *query, unsigned allowed, const char *name, const char *value, size_t size,
               char detail[QUERY_DETAIL_SIZE]);

/*
 * The query of the page after this one: the same with another cursor. For the parameters of lists. false: size bytes
 * are not enough.
 */
bool query_format_next(const struct http_query *query, uint64_t cursor, char *ret_text, size_t size);

/* The text of a page's cursor, which query_add reads back. */
void query_format_cursor(uint64_t cursor, char text[QUERY_CURSOR_SIZE]);

#endif
