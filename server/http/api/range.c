/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stddef.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

/*
 * Ranges of content: which bytes a GET asks for, where the body of a PUT goes, and the headers that say so. A Range
 * that cannot be read is ignored, as RFC 9110 wants; a Content-Range that cannot be is refused, since bytes would go
 * astray. The parsers are pure.
 */

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
                return RANGE_PARTIAL;
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
        return RANGE_PARTIAL;
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

bool range_asked(struct http_request *request, uint64_t total, struct http_range *ret_range)
{
        uint64_t first = 0, last = total - 1;
        enum range_result range =
                request->headers.if_range ? RANGE_WHOLE : range_parse(request->headers.range, total, &first, &last);

        if (range == RANGE_UNSATISFIABLE) {
                request_header(request, "Content-Range", "bytes */%" PRIu64, total);
                request_problem(request, FERRY_E_RANGE_NOT_SATISFIABLE, "The content has %" PRIu64 " bytes", total);
                return false;
        }
        *ret_range = (struct http_range){ first, last - first + 1, total, range == RANGE_PARTIAL };
        return true;
}

void range_answer(struct http_request *request, const struct http_range *range, struct MHD_Response *response)
{
        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (range->asked)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->first,
                               range->first + range->size - 1, range->total);
        request_answer(request, range->asked ? 206 : 200, response);
}

void range_add_digest(struct http_request *request, uint64_t checksum)
{
        char text[FERRY_DIGEST_TEXT_SIZE];

        ferry_digest_format(checksum, text);
        request_header_text(request, "Content-Digest", "", text);
}

void range_refuse(struct http_request *request, const char *fault)
{
        request_problem(request, FERRY_E_INVALID_PARAMETER, "Content-Range \"%.64s\" %s",
                        request->headers.content_range, fault);
}

bool range_place(struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_end)
{
        uint64_t last, named;

        *ret_first = query_value(&request->query, HTTP_PARAMETER_OFFSET);
        *ret_end = UINT64_MAX;
        if (!request->headers.content_range)
                return true;
        if (query_has(&request->query, HTTP_PARAMETER_OFFSET))
                range_refuse(request, "and the query parameter offset exclude each other");
        else if (!content_range_parse(request->headers.content_range, ret_first, &last, &named))
                range_refuse(request, "must be like \"bytes 0-1023/4096\"");
        else if (total != UINT64_MAX && named != UINT64_MAX && named != total)
                range_refuse(request, "names another size than the operation's");
        else if (!request->chunked && request->content_length != last - *ret_first + 1)
                range_refuse(request, "and Content-Length disagree");
        else
                *ret_end = last + 1;
        return !request->answered;
}
