/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/util.h"
#include "fetch.h"

static void cleanup_fetch(struct fetch **fetch)
{
        *fetch = fetch_free(*fetch);
}

static void cleanup_curl(char **text)
{
        curl_free(*text);
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
        struct fetch *fetch = context;
        int r = ferry_buffer_append(&fetch->body, data, size, fetch->easy.settings->max_body);

        (void)one;
        fetch->easy.too_large |= r == -EMSGSIZE;
        fetch->no_memory |= r == -ENOMEM;
        return r ? 0 : size;
}

static int locate(struct fetch *fetch, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_curl) char *path = NULL;
        const char *why = "this is not an http or https URL";
        int r = FERRY_E_INVALID_PARAMETER;

        if (curl_url_get(fetch->easy.url, CURLUPART_PATH, &path, 0) == CURLUE_OK)
                r = fetch->document->locate(fetch->easy.url, path, &why);
        if (r > 0)
                (void)snprintf(detail, detail_size, "%s", why);
        return r;
}

static bool prepare(struct fetch *fetch)
{
        return easy_prepare(&fetch->easy) &&
               curl_easy_setopt(fetch->easy.curl, CURLOPT_TIMEOUT_MS, fetch->easy.settings->timeout_ms) == CURLE_OK &&
               curl_easy_setopt(fetch->easy.curl, CURLOPT_HTTPHEADER, fetch->easy.settings->headers) == CURLE_OK &&
               curl_easy_setopt(fetch->easy.curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
               curl_easy_setopt(fetch->easy.curl, CURLOPT_WRITEDATA, fetch) == CURLE_OK;
}

int fetch_new(const struct easy_settings *settings, const struct fetch_document *document, const char *url,
              struct fetch **ret_fetch, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_fetch) struct fetch *fetch = calloc(1, sizeof(*fetch));
        int r;

        if (!fetch)
                return -ENOMEM;
        fetch->document = document;
        r = easy_locate(&fetch->easy, settings, url, detail, detail_size);
        if (r == 0)
                r = locate(fetch, detail, detail_size);
        if (r == 0)
                r = easy_admit(&fetch->easy, detail, detail_size);
        if (r)
                return r;
        if (!prepare(fetch))
                return -ENOMEM;
        *ret_fetch = FERRY_STEAL(fetch);
        return 0;
}

struct fetch *fetch_free(struct fetch *fetch)
{
        if (!fetch)
                return NULL;
        easy_clear(&fetch->easy);
        ferry_buffer_clear(&fetch->body, true); /* it contained a notification key */
        free(fetch);
        return NULL;
}

static int classify_body(const struct fetch *fetch, struct ferry_metadata **ret_metadata,
                         char detail[FETCH_DETAIL_SIZE])
{
        struct ferry_json_errors errors = { 0 };
        int r = fetch->document->classify_body(fetch->body.size ? fetch->body.data : "", fetch->body.size, ret_metadata,
                                               &errors);

        if (r == 0)
                return 0;
        if (r < 0) {
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "memory is short");
                return FERRY_E_TRANSFER_FAILED;
        }
        if (r == FERRY_E_PROTOCOL_MISMATCH) {
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "%s", errors.items[0].detail);
                return r;
        }
        (void)snprintf(detail, FETCH_DETAIL_SIZE, "the peer's answer is not %s: %s", fetch->document->name,
                       errors.n ? errors.items[0].detail : ferry_error_title(r));
        return FERRY_E_INVALID_METADATA;
}

int fetch_classify(const struct fetch *fetch, CURLcode result, struct ferry_metadata **ret_metadata,
                   char detail[FETCH_DETAIL_SIZE])
{
        long status = 0;

        detail[0] = '\0';
        if (fetch->no_memory)
                result = CURLE_OUT_OF_MEMORY;
        if (result != CURLE_OK)
                return easy_classify(&fetch->easy, result, fetch->document->name, detail);
        (void)curl_easy_getinfo(fetch->easy.curl, CURLINFO_RESPONSE_CODE, &status);
        if (status != 200)
                return fetch->document->classify_status(status, detail);
        return classify_body(fetch, ret_metadata, detail);
}
