/* SPDX-License-Identifier: Apache-2.0 */
#include "resources.h"

#include <ferry/json_write.h>

#include "base/util.h"
#include "transfer/engine.h"

static const char *const states[] = {
        [ENGINE_PEER_CONNECTING] = "connecting",
        [ENGINE_PEER_CONNECTED] = "connected",
        [ENGINE_PEER_DISCONNECTED] = "disconnected",
};

void peer_json_addresses(struct ferry_json_writer *writer, const char *url, const char *data)
{
        ferry_json_open_object(writer, "addresses");
        ferry_json_open_array(writer, "http");
        if (*url)
                ferry_json_put_string(writer, url);
        ferry_json_end_array(writer);
        document_add_text(writer, "data", data);
        ferry_json_end_object(writer);
}

static void add_unused(struct ferry_json_writer *writer, const struct engine_peer_view *peer)
{
        ferry_json_open_array(writer, "unused");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(peer->unused) && peer->unused[i].transport; i++) {
                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "transport", peer->unused[i].transport);
                ferry_json_add_string(writer, "reason", peer->unused[i].reason);
                document_add_time(writer, "retry_at", peer->unused[i].retry_unix_ms);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

void peer_json_write(struct ferry_json_writer *writer, const struct engine_peer_view *peer)
{
        ferry_json_begin_object(writer);
        document_add_text(writer, "worker", peer->name);
        ferry_json_add_id(writer, "epoch", "", peer->epoch);
        peer_json_addresses(writer, peer->url, peer->data);
        ferry_json_add_string(writer, "status", states[peer->state]);
        document_add_text(writer, "transport", peer->transport);
        if (peer->state != ENGINE_PEER_DISCONNECTED)
                ferry_json_add_string(writer, "opened_by", peer->accepted ? "peer" : "this-worker");
        document_add_time(writer, "connected_at", peer->connected_unix_ms);
        if (peer->state == ENGINE_PEER_CONNECTED && peer->connect_us)
                ferry_json_add_uint(writer, "connect_us", peer->connect_us);
        document_add_time(writer, "disconnected_at", peer->disconnected_unix_ms);
        ferry_json_add_uint(writer, "transfers", peer->n_transfers);
        ferry_json_add_uint(writer, "transfers_completed", peer->n_completed);
        ferry_json_add_uint(writer, "bytes_done", peer->bytes);
        add_unused(writer, peer);
        if (peer->error)
                problem_add_error(writer, peer->error, peer->detail);
        ferry_json_end_object(writer);
}
