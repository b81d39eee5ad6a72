/* SPDX-License-Identifier: Apache-2.0 */
#include "connecting.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/log.h"
#include "http/server.h"
#include "latch.h"
#include "peers/peers.h"

struct connecting {
        /* fixed */
        const struct peers *peers;
        struct http_connector connector;
        uint64_t own_epoch;
        char url[FERRY_METADATA_URL_SIZE]; /* "" = it was too long to keep */
        atomic_uint references;
        struct http_latch over;
        struct connecting_result result; /* written by the work until over */
};

struct connecting *connecting_unref(struct connecting *c)
{
        if (c && atomic_fetch_sub(&c->references, 1) == 1) {
                latch_destroy(&c->over);
                free(c);
        }
        return NULL;
}

/* Ends the work, and drops its reference. */
static void finish(struct connecting *c, int error, const char *detail)
{
        c->result.error = error;
        (void)snprintf(c->result.detail, sizeof(c->result.detail), "%s", detail);
        latch_set(&c->over);
        connecting_unref(c);
}

/* Thread: that which holds the progress lock. */
static void on_connected(void *context, const struct engine_connection *connection)
{
        struct connecting *c = context;

        c->result.connection = *connection;
        finish(c, connection->error, connection->detail);
}

/* Thread: the peers'. The engine outlives the peers. */
static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct connecting *c = context;
        struct engine_connect spec = { .context = c, .connected = on_connected };

        if (error) {
                finish(c, error, detail ? detail : "");
                return;
        }
        if (metadata->epoch == c->own_epoch) {
                finish(c, FERRY_E_INVALID_PARAMETER, "This is the worker itself");
                ferry_metadata_free(metadata);
                return;
        }
        if (*metadata->http) /* set where the URL was ferry://NAME */
                memcpy(c->url, metadata->http, sizeof(c->url));
        memcpy(c->result.worker, metadata->worker, sizeof(c->result.worker));
        c->result.epoch = metadata->epoch;
        spec.peer = (struct engine_peer){
                .epoch = metadata->epoch,
                .data = metadata->data,
                .name = metadata->worker,
                .url = c->url,
        };
        error = c->connector.connect(c->connector.context, &spec);
        ferry_metadata_free(metadata);
        if (error == -ESHUTDOWN) {
                finish(c, FERRY_E_CANCELLED, "The data plane is shut down");
        } else if (error < 0) {
                log_event(LOG_ERROR, "connection to a peer failed", LOG_S("reason", strerror(-error)));
                finish(c, FERRY_E_INTERNAL, "");
        }
}

int connecting_begin(const struct http_config *config, const char *url, struct connecting **ret_connecting,
                     char *detail, size_t detail_size)
{
        struct connecting *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->peers = config->peers;
        c->connector = config->connector;
        c->own_epoch = config->epoch;
        if (strlen(url) < sizeof(c->url))
                strcpy(c->url, url);
        atomic_init(&c->references, 2);
        latch_init(&c->over);
        int error = peers_fetch_worker(config->peers, url, on_fetched, c, detail, detail_size);
        if (error) {
                latch_destroy(&c->over);
                free(c);
                return error;
        }
        *ret_connecting = c;
        return 0;
}

struct http_latch *connecting_over(struct connecting *c)
{
        return &c->over;
}

const struct connecting_result *connecting_look(struct connecting *c)
{
        return latch_is_set(&c->over) ? &c->result : NULL;
}
