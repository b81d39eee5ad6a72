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

/* Answers with the file, gzipped where the client accepts that, or with 304. policy: Content-Security-Policy of a page;
 * NULL = it is no page. */
static void asset_answer(struct http_request *request, const struct http_asset *asset, const char *policy)
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
                MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
                if (packed && !known)
                        MHD_add_response_header(response, "Content-Encoding", "gzip");
                if (!known)
                        MHD_add_response_header(response, "Content-Type", asset->type);
                if (policy) {
                        MHD_add_response_header(response, "Content-Security-Policy", policy);
                        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
                }
        }
        request_answer(request, known ? 304 : 200, response);
}

void get_openapi(struct http_request *request)
{
        asset_answer(request, &asset_openapi_yaml, NULL);
}

void get_openapi_json(struct http_request *request)
{
        asset_answer(request, &asset_openapi_json, NULL);
}

void get_docs(struct http_request *request)
{
        asset_answer(request, &asset_docs, POLICY);
}

void get_page(struct http_request *request)
{
        asset_answer(request, &asset_page, POLICY "; script-src 'self'; connect-src 'self'");
}

void get_page_script(struct http_request *request)
{
        asset_answer(request, &asset_page_script, NULL);
}

void get_page_style(struct http_request *request)
{
        asset_answer(request, &asset_page_style, NULL);
}
