/* SPDX-License-Identifier: Apache-2.0 */
#include "range.h"

#include <stddef.h>
#include <strings.h>

#include <ferry/encoding.h>

#include "headers.h"

/* Parses digits at *text. Saturates at UINT64_MAX. */
static bool take_number(const char **text, uint64_t *ret_value)
{
        const char *end = ferry_uint_read(*text, ret_value);

        if (end)
                *text = end;
        return end;
}

enum range_result range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_last)
{
        uint64_t first, last = UINT64_MAX;

        if (!header || strncasecmp(header, "bytes=", 6))
                return RANGE_WHOLE;
        const char *text = headers_skip_blanks(header + 6);
        if (*text == '-') {
                text++;
                if (!take_number(&text, &last) || *headers_skip_blanks(text))
                        return RANGE_WHOLE;
                if (!last || !size)
                        return RANGE_UNSATISFIABLE;
                *ret_first = last < size ? size - last : 0;
                *ret_last = size - 1;
                return RANGE_PART;
        }
        if (!take_number(&text, &first) || *text++ != '-')
                return RANGE_WHOLE;
        (void)take_number(&text, &last);
        if (*headers_skip_blanks(text) || first > last)
                return RANGE_WHOLE;
        if (first >= size)
                return RANGE_UNSATISFIABLE;
        *ret_first = first;
        *ret_last = last < size ? last : size - 1;
        return RANGE_PART;
}

bool content_range_parse(const char *header, uint64_t *ret_first, uint64_t *ret_last, uint64_t *ret_total)
{
        *ret_total = UINT64_MAX;
        if (strncasecmp(header, "bytes ", 6))
                return false;
        const char *text = headers_skip_blanks(header + 6);
        if (!take_number(&text, ret_first) || *text++ != '-' || !take_number(&text, ret_last) || *text++ != '/')
                return false;
        if (*text == '*')
                text++;
        else if (!take_number(&text, ret_total) || *ret_total > INT64_MAX)
                return false;
        return !*headers_skip_blanks(text) && *ret_first <= *ret_last && *ret_last < *ret_total &&
               *ret_last < INT64_MAX;
}
