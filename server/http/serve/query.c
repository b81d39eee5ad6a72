/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/fields.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/json.h>
#include <ferry/status.h>
#include <ferry/util.h>

#include "documents/documents.h"

/*
 * Query parameters: one table of names, parsers and words; a route says by bits which of them it takes. Each value is a
 * number, or the address of a text, so that the query of a request is a small struct. Pure; any thread.
 */

static const char cursor_prefix[] = "c_";

static bool parse_number(const char *text, uint64_t *ret_value)
{
        return ferry_uint_parse(text, FERRY_JSON_INTEGER_MAX, ret_value);
}

/* What is larger than the worker's cap counts as the cap, however large. */
static bool parse_capped(const char *text, uint64_t *ret_value)
{
        return ferry_uint_parse(text, UINT64_MAX, ret_value);
}

static bool parse_positive(const char *text, uint64_t *ret_value)
{
        return parse_capped(text, ret_value) && *ret_value > 0;
}

static bool parse_cursor(const char *text, uint64_t *ret_value)
{
        return ferry_id_parse(cursor_prefix, text, ret_value);
}

static bool parse_types(const char *text, uint64_t *ret_value)
{
        *ret_value = event_types_from_text(text);
        return *ret_value;
}

static bool parse_region(const char *text, uint64_t *ret_value)
{
        return ferry_id_parse("rgn_", text, ret_value);
}

/* The value is the address of the text, which stays as long as the request. */
static bool parse_text(const char *text, uint64_t *ret_value)
{
        *ret_value = (uintptr_t)text;
        return *text;
}

/* Only ASCII: the answer quotes an id that names nothing. */
static bool parse_ids(const char *text, uint64_t *ret_value)
{
        for (const char *c = text; *c; c++)
                if (*c < ' ' || *c > '~')
                        return false;
        return parse_text(text, ret_value);
}

static bool parse_label(const char *text, uint64_t *ret_value)
{
        return strlen(text) < OPERATION_LABEL_SIZE && parse_text(text, ret_value);
}

static const char *const booleans[] = { "false", "true", NULL }, *const includes[] = { "metadata", NULL },
                         *const registries[] = { "1", "true", NULL }, *const waits[] = { "all", "any", NULL },
                         *const orders[] = { "oldest", "newest", "asc", "desc", NULL };

static const struct {
        const char *name;
        const char *wanted;
        bool (*parse)(const char *text, uint64_t *ret_value);
        const char *const *words; /* one of which is the text, and its place the value; NULL = parse reads it */
} table[] = {
        [HTTP_PARAMETER_AFTER] = { "after", "the \"next\" of an earlier page", parse_cursor },
        [HTTP_PARAMETER_AFTER_EVENT] = { "after", "the id of an event", parse_text },
        [HTTP_PARAMETER_DONE] = { "done", "\"true\" or \"false\"", NULL, booleans },
        [HTTP_PARAMETER_IDS] = { "ids", "ids of operations, separated by commas", parse_ids },
        [HTTP_PARAMETER_INCLUDE] = { "include", "\"metadata\"", NULL, includes },
        [HTTP_PARAMETER_KIND] = { "kind", "\"readable\", \"read\", \"writable\" or \"write\"", NULL, ferry_kind_names },
        [HTTP_PARAMETER_LABEL] = { "label", "a label, 1 to 64 bytes", parse_label },
        [HTTP_PARAMETER_LIMIT] = { "limit", "a number from 1", parse_positive },
        [HTTP_PARAMETER_OFFSET] = { "offset", "a number of bytes", parse_number },
        [HTTP_PARAMETER_ORDER] = { "order", "\"oldest\" or \"newest\"", NULL, orders },
        [HTTP_PARAMETER_REGION] = { "region", "the id of a region", parse_region },
        [HTTP_PARAMETER_REGISTRY] = { "registry", "\"1\"", NULL, registries },
        [HTTP_PARAMETER_REVISION] = { "revision", "a revision number", parse_number },
        [HTTP_PARAMETER_STATUS] = { "status", "a status of operations, such as \"COMPLETE\" or \"IN_PROGRESS\"", NULL,
                                    ferry_status_names },
        [HTTP_PARAMETER_TYPE] = { "type", "types of events, such as \"operation.ended,region\", separated by commas",
                                  parse_types },
        [HTTP_PARAMETER_WAIT_FOR] = { "wait_for", "\"any\" or \"all\"", NULL, waits },
        [HTTP_PARAMETER_WAIT_MS] = { "wait_ms", "a number of milliseconds", parse_capped },
};
_Static_assert(FERRY_ARRAY_SIZE(table) == HTTP_PARAMETER_COUNT, "every parameter is in the table");

const char *http_parameter_name(int parameter)
{
        return parameter >= 0 && parameter < HTTP_PARAMETER_COUNT ? table[parameter].name : NULL;
}

/* Reads a value by the parser of its row, or finds it among the row's words. */
static bool parse(int i, const char *text, uint64_t *ret_value)
{
        if (table[i].parse)
                return table[i].parse(text, ret_value);
        *ret_value = 0;
        while (table[i].words[*ret_value] && strcmp(table[i].words[*ret_value], text) != 0)
                ++*ret_value;
        return table[i].words[*ret_value];
}

bool query_add(struct http_query *query, unsigned allowed, const char *name, const char *value, size_t size,
               char detail[QUERY_DETAIL_SIZE])
{
        uint64_t parsed;

        if (!*name && !value) /* of "?limit=1&" */
                return true;
        for (int i = 0; i < HTTP_PARAMETER_COUNT; i++) {
                if (!(allowed & (1u << i)) || strcmp(name, table[i].name))
                        continue;
                if (query->present & (1u << i)) {
                        snprintf(detail, QUERY_DETAIL_SIZE, "query parameter \"%s\" is given twice", table[i].name);
                        return false;
                }
                if (!value || strlen(value) != size || !parse(i, value, &parsed)) {
                        snprintf(detail, QUERY_DETAIL_SIZE, "query parameter \"%s\" must be %s", table[i].name,
                                 table[i].wanted);
                        return false;
                }
                if (i < HTTP_PARAMETER_WIDE_COUNT)
                        query->wide[i] = parsed;
                else
                        query->narrow[i - HTTP_PARAMETER_WIDE_COUNT] = (uint8_t)parsed;
                query->present |= 1u << i;
                return true;
        }
        snprintf(detail, QUERY_DETAIL_SIZE, "unknown query parameter \"%.64s\"", name);
        return false;
}

void query_format_cursor(uint64_t cursor, char text[QUERY_CURSOR_SIZE])
{
        _Static_assert((int)QUERY_CURSOR_SIZE >= (int)FERRY_ID_TEXT_SIZE &&
                               (int)QUERY_CURSOR_SIZE >= (int)FERRY_UINT_TEXT_SIZE,
                       "ids and numbers fit");
        ferry_id_format(cursor_prefix, cursor, text);
}

/* ---- the query of the next page ---- */

struct text {
        char *at;
        size_t left; /* 0 = it did not fit */
};

/* Appends a piece. Once one does not fit, nothing is appended any more. */
static void put(struct text *text, const char *piece)
{
        size_t n = strlen(piece);

        text->left = n < text->left ? text->left - n : 0;
        if (text->left)
                text->at = stpcpy(text->at, piece);
}

/* Appends a piece percent-encoded. */
static void put_escaped(struct text *text, const char *piece)
{
        for (; *piece; piece++) {
                char escaped[4];

                snprintf(escaped, sizeof(escaped),
                         isalnum((unsigned char)*piece) || strchr("-._~", *piece) ? "%c" : "%%%02X",
                         (unsigned char)*piece);
                put(text, escaped);
        }
}

bool query_format_next(const struct http_query *query, uint64_t cursor, char *ret_text, size_t size)
{
        struct text text = { ret_text, size };
        char id[QUERY_CURSOR_SIZE];

        query_format_cursor(cursor, id);
        put(&text, "after=");
        put(&text, id);
        for (int i = 0; i < HTTP_PARAMETER_COUNT; i++) {
                uint64_t value = query_value(query, (enum http_parameter)i);

                if (i == HTTP_PARAMETER_AFTER || !query_has(query, (enum http_parameter)i))
                        continue;
                put(&text, "&");
                put(&text, table[i].name);
                put(&text, "=");
                if (i == HTTP_PARAMETER_REGION)
                        ferry_id_format("rgn_", value, id);
                else
                        ferry_uint_format(value, id);
                if (i == HTTP_PARAMETER_LABEL)
                        put_escaped(&text, query_text(query, HTTP_PARAMETER_LABEL));
                else
                        put(&text, table[i].words ? table[i].words[value] : id);
        }
        return text.left > 0;
}
