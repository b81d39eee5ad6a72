/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/util.h"
#include "fetch.h"

/* The document is the metadata of one operation; the URL is its own: {base}/v1/operations/{id}/metadata. */

static int locate(CURLU *url, const char *path, const char **ret_why)
{
        static const char head[] = "/v1/operations/", tail[] = "/metadata";
        const char *id = NULL, *next = path;
        size_t length;

        (void)url;
        /* A proxy may have added a prefix to the path. */
        while ((next = strstr(next, head)))
                id = next = next + strlen(head);
        length = id ? strcspn(id, "/") : 0;
        if (length > 0 && strcmp(id + length, tail) == 0)
                return 0;
        *ret_why = "the URL must end in /v1/operations/{id}/metadata";
        return FERRY_E_INVALID_PARAMETER;
}

static int classify_status(long status, char detail[FETCH_DETAIL_SIZE])
{
        switch (status) {
        case 404:
        case 410:
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "the peer no longer has this operation (HTTP %ld)", status);
                return FERRY_E_STALE_METADATA;
        case 401:
        case 403:
                (void)snprintf(detail, FETCH_DETAIL_SIZE,
                               "the peer refused to give its metadata (HTTP %ld); both sides need the same peer token",
                               status);
                return FERRY_E_PEER_REFUSED;
        default:
                (void)snprintf(detail, FETCH_DETAIL_SIZE, "the peer answered HTTP %ld instead of metadata", status);
                return FERRY_E_TRANSFER_FAILED;
        }
}

static int classify_body(const char *text, size_t size, struct ferry_metadata **ret_metadata,
                         struct ferry_json_errors *errors)
{
        return ferry_metadata_decode(text, size, "", ret_metadata, errors);
}

const struct fetch_document fetch_metadata = { "metadata", locate, classify_status, classify_body };
