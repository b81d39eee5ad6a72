/* SPDX-License-Identifier: Apache-2.0 */
#include "octets.h"

#include <inttypes.h>
#include <microhttpd.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "range.h"
#include "request.h"

bool octets_asked(struct http_request *request, uint64_t total, struct octets *ret_octets)
{
        uint64_t first = 0, last = total - 1;
        enum range_result range =
                request->headers.if_range ? RANGE_WHOLE : range_parse(request->headers.range, total, &first, &last);

        if (range == RANGE_UNSATISFIABLE) {
                request_header(request, "Content-Range", "bytes */%" PRIu64, total);
                request_problem(request, FERRY_E_RANGE_NOT_SATISFIABLE, "The content has %" PRIu64 " bytes", total);
                return false;
        }
        *ret_octets = (struct octets){ first, last - first + 1, total, range == RANGE_PART };
        return true;
}

void octets_answer(struct http_request *request, const struct octets *octets, struct MHD_Response *response)
{
        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (octets->part)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, octets->first,
                               octets->first + octets->size - 1, octets->total);
        request_answer(request, octets->part ? 206 : 200, response);
}

void octets_add_digest(struct http_request *request, uint64_t checksum)
{
        char text[FERRY_DIGEST_TEXT_SIZE];

        ferry_digest_format(checksum, text);
        request_header_text(request, "Content-Digest", "", text);
}

void octets_refuse_range(struct http_request *request, const char *fault)
{
        request_problem(request, FERRY_E_INVALID_PARAMETER, "Content-Range \"%.64s\" %s",
                        request->headers.content_range, fault);
}

bool octets_place(struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_end)
{
        uint64_t last, named;

        *ret_first = query_value(&request->query, HTTP_PARAMETER_OFFSET);
        *ret_end = UINT64_MAX;
        if (!request->headers.content_range)
                return true;
        if (query_has(&request->query, HTTP_PARAMETER_OFFSET))
                octets_refuse_range(request, "and the query parameter offset exclude each other");
        else if (!content_range_parse(request->headers.content_range, ret_first, &last, &named))
                octets_refuse_range(request, "must be like \"bytes 0-1023/4096\"");
        else if (total != UINT64_MAX && named != UINT64_MAX && named != total)
                octets_refuse_range(request, "names another size than the operation's");
        else if (!request->chunked && request->content_length != last - *ret_first + 1)
                octets_refuse_range(request, "and Content-Length disagree");
        else
                *ret_end = last + 1;
        return !request->answered;
}
