/* SPDX-License-Identifier: Apache-2.0 */
#include <microhttpd.h>

#include "handlers.h"
#include "openapi_document.h"
#include "request.h"

void get_openapi(struct http_request *request)
{
        struct MHD_Response *response = MHD_create_response_from_buffer(
                openapi_document_size, (void *)(uintptr_t)openapi_document, MHD_RESPMEM_PERSISTENT);

        if (response)
                MHD_add_response_header(response, "Content-Type", "application/yaml");
        request_answer(request, 200, response);
}
