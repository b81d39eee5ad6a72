/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPENAPI_DOCUMENT_H
#define HTTP_OPENAPI_DOCUMENT_H

#include <stddef.h>

/* openapi/openapi.yaml, as it was when the worker was built (scripts/embed). */
extern const unsigned char openapi_document[];
extern const size_t openapi_document_size;

#endif
