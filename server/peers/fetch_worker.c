/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/util.h"
#include "fetch.h"
#include "field.h"

/* The document is the description of a worker, {base}/v1/worker; the URL is the base. */

static void cleanup_text(char **text)
{
        free(*text);
}

static int locate(CURLU *url, const char *path, const char **ret_why)
{
        FERRY_CLEANUP(cleanup_text) char *longer = NULL;
        static const CURLUPart parts[] = { CURLUPART_QUERY, CURLUPART_FRAGMENT };
        size_t length = strlen(path);

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(parts); i++) {
                char *text = NULL;

                if (curl_url_get(url, parts[i], &text, 0) != CURLUE_OK)
                        continue;
                curl_free(text);
                *ret_why = "the base URL of a worker has no query and no fragment";
                return FERRY_E_INVALID_PARAMETER;
        }
        while (length > 0 && path[length - 1] == '/')
                length--;
        if (asprintf(&longer, "%.*s/v1/worker", (int)length, path) < 0) {
                longer = NULL;
                return -ENOMEM;
        }
        return curl_url_set(url, CURLUPART_PATH, longer, 0) == CURLUE_OK ? 0 : -ENOMEM;
}

static int classify_status(long status, char detail[FETCH_DETAIL_SIZE])
{
        switch (status) {
        case 401:
        case 403:
                (void)snprintf(detail, FETCH_DETAIL_SIZE,
                               "the peer refused to identify itself (HTTP %ld); both sides need the same peer token",
                               status);
                return FERRY_E_PEER_REFUSED;
        default:
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "the server at this URL (HTTP %ld) is not a Ferry worker",
                               status);
                return FERRY_E_TRANSFER_FAILED;
        }
}

/* Further fields may come from other versions. */
static int classify_object(struct json_object *object, struct ferry_metadata **ret_metadata,
                           struct ferry_json_errors *errors)
{
        const char *name = field_text(object, "name", FERRY_METADATA_NAME_SIZE), *data = "";
        struct json_object *addresses = json_object_object_get(object, "addresses");
        struct ferry_metadata *metadata;
        char detail[FERRY_JSON_DETAIL_SIZE];
        uint64_t protocol = 0;

        (void)ferry_json_get_uint(json_object_object_get(object, "protocol"), &protocol);
        if (name && ferry_protocol_differs(FERRY_PROTOCOL, protocol, detail, sizeof(detail))) {
                ferry_json_complain(errors, FERRY_E_PROTOCOL_MISMATCH, "/protocol", "%s", detail);
                return FERRY_E_PROTOCOL_MISMATCH;
        }
        if (json_object_object_get_ex(addresses, "data", NULL))
                data = field_text(addresses, "data", FERRY_METADATA_ADDRESS_SIZE);
        metadata = calloc(1, sizeof(*metadata));
        if (!metadata)
                return -ENOMEM;
        if (!name || !data || !field_epoch(object, &metadata->epoch)) {
                free(metadata);
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, "", "name, epoch or address is missing or wrong");
                return FERRY_E_INVALID_METADATA;
        }
        memcpy(metadata->worker, name, strlen(name));
        memcpy(metadata->data, data, strlen(data));
        *ret_metadata = metadata;
        return 0;
}

static int classify_body(const char *text, size_t size, struct ferry_metadata **ret_metadata,
                         struct ferry_json_errors *errors)
{
        struct ferry_json *json = NULL;
        int r = ferry_json_parse(text, size, NULL, &json, errors);

        if (r == 0)
                r = classify_object(ferry_json_root(json), ret_metadata, errors);
        (void)ferry_json_free(json);
        return r;
}

const struct fetch_document fetch_worker = { "the description of a worker", locate, classify_status, classify_body };
