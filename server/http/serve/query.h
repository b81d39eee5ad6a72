/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server.h"

/*
 * The query parameters of a request, each as a number: a word as its enum's value, a cursor as its id, a text as its
 * address.
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

/* A text parameter, borrowed from the caller of query_add. NULL when it was not given. */
static inline const char *query_text(const struct http_query *query, enum http_parameter parameter)
{
        return (const char *)(uintptr_t)query_value(query, parameter);
}

/*
 * Parses one parameter. value NULL = it had no "=". allowed: the route's parameters. false with a sentence in detail:
 * unknown, given twice, or invalid. Pure.
 */
bool query_add(struct http_query *query, unsigned allowed, const char *name, const char *value, size_t size,
               char detail[QUERY_DETAIL_SIZE]);

/*
 * Formats the query of the next page of a list: the same parameters with another cursor. false: size bytes are too few.
 */
bool query_format_next(const struct http_query *query, uint64_t cursor, char *ret_text, size_t size);

/* Formats a cursor, in the form that query_add parses. */
void query_format_cursor(uint64_t cursor, char text[QUERY_CURSOR_SIZE]);

#endif
