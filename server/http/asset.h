/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_ASSET_H
#define HTTP_ASSET_H

#include <stddef.h>

struct http_request;

/* A file that the worker serves as it was when the worker was built (scripts/embed), packed at build as well. */
struct http_asset {
        const char *type; /* media type */
        const char *etag, *gzip_etag;
        const unsigned char *data, *gzip;
        size_t size, gzip_size;
};

extern const struct http_asset asset_openapi_yaml, asset_openapi_json, asset_docs, asset_page, asset_page_script,
        asset_page_style;

/* Answers with it, or with 304 where the client has it; gzip where the client takes that. policy: for a page, what it
 * may load (Content-Security-Policy); NULL = it is none. */
void asset_answer(struct http_request *request, const struct http_asset *asset, const char *policy);

#endif
