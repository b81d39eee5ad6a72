/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_ASSET_H
#define HTTP_ASSET_H

#include <stddef.h>

/* A file that is built into the worker (scripts/embed), plain and gzipped. */
struct http_asset {
        const char *type; /* media type */
        const char *etag, *gzip_etag;
        const unsigned char *data, *gzip;
        size_t size, gzip_size;
};

extern const struct http_asset asset_openapi_yaml, asset_openapi_json, asset_docs, asset_docs_script, asset_page,
        asset_page_script, asset_page_style;

#endif
