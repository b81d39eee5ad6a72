/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/log.h"
#include "operations/operations.h"
#include "peers/peers.h"

/* The state between the request and the fetched metadata. */
struct remote {
        struct operation_store *store;
        struct operation *operation; /* a reference */
};

static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct remote *remote = context;
        char reason[OPERATION_DETAIL_SIZE] = "";

        if (!error) {
                error = operation_begin(remote->store, remote->operation, metadata, false, reason);
                detail = reason;
        }
        if (error < 0) {
                log_event(LOG_ERROR, "operation not started", LOG_S("reason", strerror(-error)));
                error = FERRY_E_INTERNAL;
                detail = NULL;
        }
        if (error)
                operation_fail(remote->store, remote->operation, error,
                               detail && *detail ? detail : ferry_error_title(error));
        ferry_metadata_free(metadata);
        operation_unref(remote->operation);
        free(remote);
}

static bool is_wanted(void *context)
{
        const struct remote *remote = context;

        return !operation_is_past(remote->store, remote->operation, 0);
}

int remote_begin(struct operation_store *store, struct peers *peers, struct operation *operation, const char *url,
                 char *detail, size_t detail_size)
{
        struct remote *remote = malloc(sizeof(*remote));

        if (!remote)
                return -ENOMEM;
        remote->store = store;
        remote->operation = operation_ref(operation);
        int error = peers_fetch_metadata(peers, url, on_fetched, is_wanted, remote, detail, detail_size);
        if (error) {
                operation_unref(remote->operation);
                free(remote);
        }
        return error;
}
