/* SPDX-License-Identifier: Apache-2.0 */
#include "asset.h"

#include <microhttpd.h>
#include <stdint.h>

#include "handlers.h"
#include "http_internal.h"
#include "request.h"

/* Only what comes from this worker, nothing in line, and in no frame of another page. */
#define POLICY                                                                                                         \
        "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "                   \
        "frame-ancestors 'none'"

/* Content-Security-Policy of a page; NULL = it is no page. */
static const char *policy_of(const struct http_asset *asset)
{
        if (asset == &asset_page)
                return POLICY "; script-src 'self'; connect-src 'self'";
        return asset == &asset_docs ? POLICY : NULL;
}

void asset_answer(struct http_request *request, const struct http_asset *asset)
{
        bool packed = headers_accept(request->headers.accept_encoding, "gzip") > 0;
        const char *etag = packed ? asset->gzip_etag : asset->etag;
        bool known = request->headers.if_none_match && headers_etag_matches(request->headers.if_none_match, etag, true);
        const void *data = packed ? asset->gzip : asset->data;
        size_t size = packed ? asset->gzip_size : asset->size; /* the Content-Length of a 304, too, which has no body */
        struct MHD_Response *response =
                MHD_create_response_from_buffer(size, (void *)(uintptr_t)data, MHD_RESPMEM_PERSISTENT);

        if (response) {
                MHD_add_response_header(response, "ETag", etag);
                MHD_add_response_header(response, "Vary", "Accept, Accept-Encoding");
                MHD_add_response_header(response, "Cache-Control", "no-cache");
                if (packed && !known)
                        MHD_add_response_header(response, "Content-Encoding", "gzip");
                if (!known)
                        MHD_add_response_header(response, "Content-Type", asset->type);
                if (policy_of(asset)) {
                        MHD_add_response_header(response, "Content-Security-Policy", policy_of(asset));
                        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
                }
        }
        request_answer(request, known ? 304 : 200, response);
}

void get_asset(struct http_request *request)
{
        asset_answer(request, request->route->asset);
}
