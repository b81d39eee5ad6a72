/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine_internal.h"
#include "move/ucx.h"
#include "session.h"

/*
 * Peers: what this worker knows of the others, by epoch. A peer is made when its metadata, link or HTTP
 * transfer first names its epoch. While it has a link it stays; without one it is listed in peers_unlinked in the
 * order in which the links ended, and forgotten after ENGINE_PEER_US when somebody lists the peers, or earlier, the
 * oldest first, when more than ENGINE_PEERS_UNLINKED have none.
 *
 * Thread: the holder of the progress lock. engine_peers_page() comes here as a command. The observer (peer_notify)
 * hears of a peer when it becomes connected or disconnected, not of each link.
 */

const char peer_shm_shut[] = "no link to the worker on this machine has come up: its log or this one says why";
const char peer_ucx_shut[] = "the peer's network address cannot be reached: a firewall, or no route?";

/* ---- life ---- */

static void unlinked_remove(struct engine *engine, struct peer *peer)
{
        DL_DELETE2(engine->peers_unlinked, peer, unlinked_prev, unlinked_next);
        engine->n_peers_unlinked--;
}

/* Frees a peer, which has no link. */
static void forget(struct engine *engine, struct peer *peer)
{
        unlinked_remove(engine, peer);
        DL_DELETE(engine->peers, peer);
        HASH_DELETE(hh, engine->peers_by_epoch, peer);
        free(peer);
}

/* Lists a peer that has no link as the newest, and forgets the oldest when there are too many. */
static void unlinked_add(struct engine *engine, struct peer *peer)
{
        peer->unlinked_us = clock_now_us();
        DL_APPEND2(engine->peers_unlinked, peer, unlinked_prev, unlinked_next);
        if (++engine->n_peers_unlinked > ENGINE_PEERS_UNLINKED)
                forget(engine, engine->peers_unlinked);
}

static struct peer *make(struct engine *engine, uint64_t epoch)
{
        struct peer *peer = calloc(1, sizeof(*peer));

        if (!peer)
                return NULL;
        peer->view.epoch = epoch;
        HASH_ADD(hh, engine->peers_by_epoch, view.epoch, sizeof(epoch), peer);
        if (!peer->hh.tbl) {
                free(peer);
                return NULL;
        }
        peer->number = ++engine->n_peers;
        DL_APPEND(engine->peers, peer);
        unlinked_add(engine, peer);
        return peer;
}

struct peer *peer_find(struct engine *engine, uint64_t epoch)
{
        struct peer *peer;

        HASH_FIND(hh, engine->peers_by_epoch, &epoch, sizeof(epoch), peer);
        return peer;
}

/* Copies text, unless it is empty. */
static void note(char *field, size_t size, const char *text)
{
        if (text && text[0])
                (void)text_copy(field, size, text);
}

struct peer *peer_get(struct engine *engine, const struct engine_peer *known)
{
        struct peer *peer = peer_find(engine, known->epoch) ?: make(engine, known->epoch);
        struct engine_peer_view *view;

        if (!peer)
                return NULL;
        view = &peer->view;
        if (engine->ucx && view->data[0] && known->data && known->data[0] && strcmp(view->data, known->data) != 0)
                path_open(&peer->paths[engine->ucx->index]); /* it has another network address than before */
        note(view->name, sizeof(view->name), known->name);
        note(view->url, sizeof(view->url), known->url);
        note(view->data, sizeof(view->data), known->data);
        return peer;
}

void peer_add_link(struct peer *peer, struct session *session)
{
        if (!peer)
                return;
        if (!peer->sessions)
                unlinked_remove(session->engine, peer);
        session->peer = peer;
        DL_APPEND2(peer->sessions, session, peer_prev, peer_next);
}

void peer_link_up(struct peer *peer, const struct session *session)
{
        if (peer && !session->link->accepted)
                path_open(&peer->paths[session->link->transport->index]);
}

static void set_error(struct peer *peer, int error, const char *detail)
{
        peer->view.error = error;
        (void)text_copy(peer->view.detail, sizeof(peer->view.detail), detail);
}

void peer_remove_link(struct session *session, int error, const char *detail)
{
        struct peer *peer = session->peer;

        if (!peer)
                return;
        session->peer = NULL;
        DL_DELETE2(peer->sessions, session, peer_prev, peer_next);
        set_error(peer, error, detail);
        if ((error == FERRY_E_PEER_LOST || error == FERRY_E_STALE_METADATA) && peer->n_http_transfers == 0)
                peer->http_carrier = NULL; /* an earlier transfer over HTTP does not keep a dead worker connected */
        if (error == FERRY_E_PEER_UNREACHABLE && !session->link->accepted)
                path_fail(&peer->paths[session->link->transport->index]);
        if (!peer->sessions)
                unlinked_add(session->engine, peer);
        peer_notify(session->engine, peer);
}

void peer_fail(struct engine *engine, struct peer *peer, int error, const char *detail)
{
        if (peer)
                set_error(peer, error, detail);
        if (peer && !peer->sessions) {
                unlinked_remove(engine, peer);
                unlinked_add(engine, peer);
        }
}

void peers_clear(struct engine *engine)
{
        while (engine->peers_unlinked)
                forget(engine, engine->peers_unlinked);
}

/* ---- transfers that are not the engine's ---- */

/*
 * Whether a transfer over HTTP is running, or has begun or ended within ENGINE_HTTP_PEER_US: then the worker counts as
 * connected, although HTTP has no link.
 */
static bool moves_by_http(const struct peer *peer, uint64_t now_us)
{
        return peer->http_carrier && (peer->n_http_transfers > 0 || now_us < peer->http_last_us + ENGINE_HTTP_PEER_US);
}

/* Whether an error says that the worker of this epoch is not there, as far as HTTP can tell. */
static bool is_absent(int error)
{
        return error == FERRY_E_PEER_UNREACHABLE || error == FERRY_E_PEER_LOST || error == FERRY_E_STALE_METADATA;
}

void peer_note_http(struct engine *engine, const struct engine_http_note *note)
{
        struct peer *peer = peer_get(engine, &(struct engine_peer){ .epoch = note->epoch, .name = note->name });
        uint64_t now_us = clock_now_us();
        int error = 0;

        if (!peer)
                return;
        if (!moves_by_http(peer, now_us))
                peer->http_since_us = now_us;
        if (!note->ended)
                peer->n_http_transfers++;
        else if (peer->n_http_transfers > 0) /* otherwise its begin was not noted */
                peer->n_http_transfers--;
        if (note->ended && peer->n_http_transfers == 0 && is_absent(note->outcome.error))
                error = note->outcome.error;
        peer->http_carrier = error ? NULL : note->transport;
        peer->http_accepted = note->accepted;
        peer->http_last_us = now_us;
        if (note->ended)
                peer_count(peer, &note->outcome);
        peer_fail(engine, peer, error, error ? note->outcome.detail : "");
        if (peer->reported_up)
                peer_notify(engine, peer);
}

void peer_count(struct peer *peer, const struct engine_outcome *outcome)
{
        if (!peer)
                return;
        peer->view.bytes += outcome->bytes;
        peer->view.n_completed += outcome->error == 0;
}

/* ---- telling ---- */

/* Ranks links as the next transfer does: up before connecting, opened here before accepted, local before UCX. */
static unsigned rank(const struct session *session)
{
        const struct engine *engine = session->engine;

        return (session->link->state == LINK_UP ? 4u : 0u) + (session->link->transport == engine->local ? 2u : 0u) +
               (session->link->accepted ? 0u : 1u);
}

/* The link that the next transfer would take, or NULL. */
static const struct session *best_of(const struct peer *peer)
{
        const struct session *session, *best = NULL;

        DL_FOREACH2 (peer->sessions, session, peer_next)
                if (link_is_usable(session->link) && (!best || rank(session) > rank(best)))
                        best = session;
        return best;
}

static size_t count_transfers(const struct peer *peer)
{
        const struct session *session;
        size_t n = peer->n_http_transfers;

        DL_FOREACH2 (peer->sessions, session, peer_next)
                n += session->n_transfers;
        return n;
}

/* The Unix time, in milliseconds, of a time of the monotonic clock. */
static uint64_t unix_ms_of(uint64_t at_us)
{
        return clock_unix_ms() - (clock_now_us() - at_us) / 1000;
}

/*
 * Appends a reason to the list, unless it is NULL. The list has one place for each of the three transports. path: the
 * one by which the transport would go; it says when that is tried again.
 */
static void add_unused(struct engine_peer_view *view, const char *transport, const struct path *path,
                       const char *reason)
{
        struct engine_unused_transport *unused = view->unused;

        if (!reason)
                return;
        while (unused->transport)
                unused++;
        *unused = (struct engine_unused_transport){
                .transport = transport,
                .reason = reason,
                .retry_unix_ms = path ? path_retry_unix_ms(path) : 0,
        };
}

static const struct path *path_by(const struct peer *peer, const struct transport *transport)
{
        return transport ? &peer->paths[transport->index] : NULL;
}

static bool is_shut(const struct path *path)
{
        return path && path->state != PATH_OPEN;
}

/*
 * Says who chose the transport in use where nothing has failed: the other worker, or "transports". NULL = this worker's
 * route, whose reasons are in the peer.
 */
static const char *chooser(const struct peer *peer, const struct session *best, bool by_http)
{
        if (by_http && peer->http_accepted)
                return "the peer chose HTTP: its GET /v1/peers says why";
        if (by_http)
                return peer->http_chosen ? "\"transports\" allows nothing else" : NULL;
        return best && best->link->accepted ? "the peer chose this link: its GET /v1/peers says why" : NULL;
}

/*
 * Fills in the better transports that are not used, each with its reason. Everything is better than HTTP, and shared
 * memory than all. best: the link in use, or NULL.
 */
static void explain(const struct engine *engine, const struct peer *peer, const struct session *best, bool by_http,
                    struct engine_peer_view *view)
{
        const struct path *local = path_by(peer, engine->local), *network = path_by(peer, engine->ucx);
        const char *no_rdma = engine->ucx ? ucx_transport_facts(engine->ucx)->device.no_rdma : NULL;
        const char *chosen = chooser(peer, best, by_http), *no_ucx = NULL;
        bool linked = best && !by_http;

        if (linked && best->link->transport == engine->local)
                return;
        if (!best && !by_http && view->error == FERRY_E_PEER_LOST) /* the reasons are those of earlier transfers */
                return;
        if (!linked)
                no_ucx = is_shut(network) ? peer_ucx_shut : peer->no_ucx;
        if (linked && !no_rdma)
                no_rdma = "UCX found no RDMA path between the two workers";
        add_unused(view, "shm", local, (is_shut(local) ? peer_shm_shut : peer->no_shm) ?: chosen);
        if (!linked || strcmp(view->transport, "tcp") == 0)
                add_unused(view, "rdma", network, no_ucx ?: no_rdma ?: chosen);
        if (!linked)
                add_unused(view, "tcp", network, no_ucx ?: chosen);
}

static void look_at_link(struct link *link, struct engine_peer_view *view)
{
        view->accepted = link->accepted;
        view->state = link->state == LINK_UP ? ENGINE_PEER_CONNECTED : ENGINE_PEER_CONNECTING;
        if (view->state == ENGINE_PEER_CONNECTING)
                return;
        view->connect_us = link->connect_us;
        view->connected_unix_ms = unix_ms_of(link->created_us + link->connect_us);
        (void)text_copy(view->transport, sizeof(view->transport), link->transport->ops->carrier(link));
}

static void look_at_http(const struct peer *peer, struct engine_peer_view *view)
{
        view->state = ENGINE_PEER_CONNECTED;
        view->accepted = peer->http_accepted;
        view->connected_unix_ms = unix_ms_of(peer->http_since_us);
        (void)text_copy(view->transport, sizeof(view->transport), peer->http_carrier);
}

static void look_at_end(const struct peer *peer, struct engine_peer_view *view)
{
        const struct link *failed = peer->sessions ? peer->sessions->link : NULL; /* being closed */

        view->state = ENGINE_PEER_DISCONNECTED;
        view->error = failed ? failed->error : peer->view.error;
        (void)text_copy(view->detail, sizeof(view->detail), failed ? failed->detail : peer->view.detail);
        view->disconnected_unix_ms = failed ? clock_unix_ms() : unix_ms_of(peer->unlinked_us);
}

/* Fills in all of a view. A link that is up comes before HTTP, and HTTP before a link that is still connecting. */
static void look(const struct engine *engine, const struct peer *peer, struct engine_peer_view *view)
{
        const struct session *best = best_of(peer);
        bool by_http = (!best || best->link->state != LINK_UP) && moves_by_http(peer, clock_now_us());

        *view = peer->view;
        view->n_transfers = count_transfers(peer);
        view->error = 0; /* unless it is disconnected: look_at_end() */
        view->detail[0] = '\0';
        if (by_http) /* a link may be tried beside it */
                look_at_http(peer, view);
        else if (best)
                look_at_link(best->link, view);
        else
                look_at_end(peer, view);
        explain(engine, peer, best, by_http, view);
}

void peer_notify(struct engine *engine, struct peer *peer)
{
        struct engine_peer_view view;

        if (!peer || !engine->observer.peer_changed)
                return;
        look(engine, peer, &view);
        if (peer->reported_up == (view.state == ENGINE_PEER_CONNECTED))
                return;
        peer->reported_up = !peer->reported_up;
        engine->observer.peer_changed(engine->observer.context, &view);
}

static void forget_old(struct engine *engine)
{
        uint64_t now_us = clock_now_us();

        while (engine->peers_unlinked && now_us >= engine->peers_unlinked->unlinked_us + ENGINE_PEER_US) {
                struct peer *oldest = engine->peers_unlinked;

                if (oldest->n_http_transfers > 0)
                        peer_fail(engine, oldest, 0, "");
                else
                        forget(engine, oldest);
        }
}

void peers_list(struct engine *engine, struct peers_page *page)
{
        const struct peer *peer;
        uint64_t after = page->cursor;

        forget_old(engine);
        page->n = 0;
        page->cursor = 0;
        DL_FOREACH (engine->peers, peer) {
                if (peer->number <= after)
                        continue;
                if (page->n == page->max) {
                        page->cursor = after;
                        break;
                }
                look(engine, peer, &page->views[page->n++]);
                after = peer->number;
        }
}
