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
 * Contacts: what this worker knows of the others, by epoch. A contact is made when a peer's metadata, link or HTTP
 * transfer first names its epoch. While it has a link it stays; without one it is listed in contacts_unlinked in the
 * order in which the links ended, and forgotten after ENGINE_CONTACT_US when somebody lists the peers, or earlier, the
 * oldest first, when more than ENGINE_CONTACTS_UNLINKED have none.
 *
 * Thread: the holder of the progress lock. engine_peers_page() comes here as a command. The observer (contact_notify)
 * hears of a contact when it becomes connected or disconnected, not of each link.
 */

const char contact_shm_shut[] = "no link to the worker on this machine has come up: its log or this one says why";
const char contact_ucx_shut[] = "the peer's network address cannot be reached: a firewall, or no route?";

/* ---- life ---- */

static void unlinked_remove(struct engine *engine, struct contact *contact)
{
        DL_DELETE2(engine->contacts_unlinked, contact, unlinked_prev, unlinked_next);
        engine->n_contacts_unlinked--;
}

/* Frees a contact, which has no link. */
static void forget(struct engine *engine, struct contact *contact)
{
        unlinked_remove(engine, contact);
        DL_DELETE(engine->contacts, contact);
        HASH_DELETE(hh, engine->contacts_by_epoch, contact);
        free(contact);
}

/* Lists a contact that has no link as the newest, and forgets the oldest when there are too many. */
static void unlinked_add(struct engine *engine, struct contact *contact)
{
        contact->unlinked_us = clock_now_us();
        DL_APPEND2(engine->contacts_unlinked, contact, unlinked_prev, unlinked_next);
        if (++engine->n_contacts_unlinked > ENGINE_CONTACTS_UNLINKED)
                forget(engine, engine->contacts_unlinked);
}

static struct contact *make(struct engine *engine, uint64_t epoch)
{
        struct contact *contact = calloc(1, sizeof(*contact));

        if (!contact)
                return NULL;
        contact->view.epoch = epoch;
        HASH_ADD(hh, engine->contacts_by_epoch, view.epoch, sizeof(epoch), contact);
        if (!contact->hh.tbl) {
                free(contact);
                return NULL;
        }
        contact->number = ++engine->n_contacts;
        DL_APPEND(engine->contacts, contact);
        unlinked_add(engine, contact);
        return contact;
}

struct contact *contact_find(struct engine *engine, uint64_t epoch)
{
        struct contact *contact;

        HASH_FIND(hh, engine->contacts_by_epoch, &epoch, sizeof(epoch), contact);
        return contact;
}

/* Copies text, unless it is empty. */
static void note(char *field, size_t size, const char *text)
{
        if (text && text[0])
                (void)text_copy(field, size, text);
}

struct contact *contact_get(struct engine *engine, const struct engine_peer *peer)
{
        struct contact *contact = contact_find(engine, peer->epoch) ?: make(engine, peer->epoch);
        struct engine_peer_view *view;

        if (!contact)
                return NULL;
        view = &contact->view;
        if (engine->ucx && view->data[0] && peer->data && peer->data[0] && strcmp(view->data, peer->data) != 0)
                path_open(&contact->paths[engine->ucx->index]); /* it has another network address than before */
        note(view->name, sizeof(view->name), peer->name);
        note(view->url, sizeof(view->url), peer->url);
        note(view->data, sizeof(view->data), peer->data);
        return contact;
}

void contact_add_link(struct contact *contact, struct peer *peer)
{
        if (!contact)
                return;
        if (!contact->peers)
                unlinked_remove(peer->engine, contact);
        peer->contact = contact;
        DL_APPEND2(contact->peers, peer, contact_prev, contact_next);
}

void contact_link_up(struct contact *contact, const struct peer *peer)
{
        if (contact && !peer->link->accepted)
                path_open(&contact->paths[peer->link->transport->index]);
}

static void set_error(struct contact *contact, int error, const char *detail)
{
        contact->view.error = error;
        (void)text_copy(contact->view.detail, sizeof(contact->view.detail), detail);
}

void contact_remove_link(struct peer *peer, int error, const char *detail)
{
        struct contact *contact = peer->contact;

        if (!contact)
                return;
        peer->contact = NULL;
        DL_DELETE2(contact->peers, peer, contact_prev, contact_next);
        set_error(contact, error, detail);
        if ((error == FERRY_E_PEER_LOST || error == FERRY_E_STALE_METADATA) && contact->n_http_transfers == 0)
                contact->http_carrier = NULL; /* an earlier transfer over HTTP does not keep a dead worker connected */
        if (error == FERRY_E_PEER_UNREACHABLE && !peer->link->accepted)
                path_fail(&contact->paths[peer->link->transport->index]);
        if (!contact->peers)
                unlinked_add(peer->engine, contact);
        contact_notify(peer->engine, contact);
}

void contact_fail(struct engine *engine, struct contact *contact, int error, const char *detail)
{
        if (contact)
                set_error(contact, error, detail);
        if (contact && !contact->peers) {
                unlinked_remove(engine, contact);
                unlinked_add(engine, contact);
        }
}

void contacts_clear(struct engine *engine)
{
        while (engine->contacts_unlinked)
                forget(engine, engine->contacts_unlinked);
}

/* ---- transfers that are not the engine's ---- */

/*
 * Whether a transfer over HTTP is running, or has begun or ended within ENGINE_HTTP_PEER_US: then the worker counts as
 * connected, although HTTP has no link.
 */
static bool moves_by_http(const struct contact *contact, uint64_t now_us)
{
        return contact->http_carrier &&
               (contact->n_http_transfers > 0 || now_us < contact->http_last_us + ENGINE_HTTP_PEER_US);
}

/* Whether an error says that the worker of this epoch is not there, as far as HTTP can tell. */
static bool is_absent(int error)
{
        return error == FERRY_E_PEER_UNREACHABLE || error == FERRY_E_PEER_LOST || error == FERRY_E_STALE_METADATA;
}

void contact_note_http(struct engine *engine, const struct engine_http_note *note)
{
        struct contact *contact =
                contact_get(engine, &(struct engine_peer){ .epoch = note->epoch, .name = note->name });
        uint64_t now_us = clock_now_us();
        int error = 0;

        if (!contact)
                return;
        if (!moves_by_http(contact, now_us))
                contact->http_since_us = now_us;
        if (!note->ended)
                contact->n_http_transfers++;
        else if (contact->n_http_transfers > 0) /* otherwise its begin was not noted */
                contact->n_http_transfers--;
        if (note->ended && contact->n_http_transfers == 0 && is_absent(note->outcome.error))
                error = note->outcome.error;
        contact->http_carrier = error ? NULL : note->transport;
        contact->http_accepted = note->accepted;
        contact->http_last_us = now_us;
        if (note->ended)
                contact_count(contact, &note->outcome);
        contact_fail(engine, contact, error, error ? note->outcome.detail : "");
        if (contact->reported_up)
                contact_notify(engine, contact);
}

void contact_count(struct contact *contact, const struct engine_outcome *outcome)
{
        if (!contact)
                return;
        contact->view.bytes += outcome->bytes;
        contact->view.n_completed += outcome->error == 0;
}

/* ---- telling ---- */

/* Ranks links as the next transfer does: up before connecting, opened here before accepted, local before UCX. */
static unsigned rank(const struct peer *peer)
{
        const struct engine *engine = peer->engine;

        return (peer->link->state == LINK_UP ? 4u : 0u) + (peer->link->transport == engine->local ? 2u : 0u) +
               (peer->link->accepted ? 0u : 1u);
}

/* The link that the next transfer would take, or NULL. */
static const struct peer *best_of(const struct contact *contact)
{
        const struct peer *peer, *best = NULL;

        DL_FOREACH2 (contact->peers, peer, contact_next)
                if (link_is_usable(peer->link) && (!best || rank(peer) > rank(best)))
                        best = peer;
        return best;
}

static size_t count_transfers(const struct contact *contact)
{
        const struct peer *peer;
        size_t n = contact->n_http_transfers;

        DL_FOREACH2 (contact->peers, peer, contact_next)
                n += peer->n_transfers;
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

static const struct path *path_by(const struct contact *contact, const struct transport *transport)
{
        return transport ? &contact->paths[transport->index] : NULL;
}

static bool is_shut(const struct path *path)
{
        return path && path->state != PATH_OPEN;
}

/*
 * Says who chose the transport in use where nothing has failed: the other worker, or "transports". NULL = this worker's
 * route, whose reasons are in the contact.
 */
static const char *chooser(const struct contact *contact, const struct peer *best, bool by_http)
{
        if (by_http && contact->http_accepted)
                return "the peer chose HTTP: its GET /v1/peers says why";
        if (by_http)
                return contact->http_chosen ? "\"transports\" allows nothing else" : NULL;
        return best && best->link->accepted ? "the peer chose this link: its GET /v1/peers says why" : NULL;
}

/*
 * Fills in the better transports that are not used, each with its reason. Everything is better than HTTP, and shared
 * memory than all. best: the link in use, or NULL.
 */
static void explain(const struct engine *engine, const struct contact *contact, const struct peer *best, bool by_http,
                    struct engine_peer_view *view)
{
        const struct path *local = path_by(contact, engine->local), *network = path_by(contact, engine->ucx);
        const char *no_rdma = engine->ucx ? ucx_transport_facts(engine->ucx)->device.no_rdma : NULL;
        const char *chosen = chooser(contact, best, by_http), *no_ucx = NULL;
        bool linked = best && !by_http;

        if (linked && best->link->transport == engine->local)
                return;
        if (!best && !by_http && view->error == FERRY_E_PEER_LOST) /* the reasons are those of earlier transfers */
                return;
        if (!linked)
                no_ucx = is_shut(network) ? contact_ucx_shut : contact->no_ucx;
        if (linked && !no_rdma)
                no_rdma = "UCX found no RDMA path between the two workers";
        add_unused(view, "shm", local, (is_shut(local) ? contact_shm_shut : contact->no_shm) ?: chosen);
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

static void look_at_http(const struct contact *contact, struct engine_peer_view *view)
{
        view->state = ENGINE_PEER_CONNECTED;
        view->accepted = contact->http_accepted;
        view->connected_unix_ms = unix_ms_of(contact->http_since_us);
        (void)text_copy(view->transport, sizeof(view->transport), contact->http_carrier);
}

static void look_at_end(const struct contact *contact, struct engine_peer_view *view)
{
        const struct link *failed = contact->peers ? contact->peers->link : NULL; /* being closed */

        view->state = ENGINE_PEER_DISCONNECTED;
        view->error = failed ? failed->error : contact->view.error;
        (void)text_copy(view->detail, sizeof(view->detail), failed ? failed->detail : contact->view.detail);
        view->disconnected_unix_ms = failed ? clock_unix_ms() : unix_ms_of(contact->unlinked_us);
}

/* Fills in all of a view. A link that is up comes before HTTP, and HTTP before a link that is still connecting. */
static void look(const struct engine *engine, const struct contact *contact, struct engine_peer_view *view)
{
        const struct peer *best = best_of(contact);
        bool by_http = (!best || best->link->state != LINK_UP) && moves_by_http(contact, clock_now_us());

        *view = contact->view;
        view->n_transfers = count_transfers(contact);
        view->error = 0; /* unless it is disconnected: look_at_end() */
        view->detail[0] = '\0';
        if (by_http) /* a link may be tried beside it */
                look_at_http(contact, view);
        else if (best)
                look_at_link(best->link, view);
        else
                look_at_end(contact, view);
        explain(engine, contact, best, by_http, view);
}

void contact_notify(struct engine *engine, struct contact *contact)
{
        struct engine_peer_view view;

        if (!contact || !engine->observer.peer_changed)
                return;
        look(engine, contact, &view);
        if (contact->reported_up == (view.state == ENGINE_PEER_CONNECTED))
                return;
        contact->reported_up = !contact->reported_up;
        engine->observer.peer_changed(engine->observer.context, &view);
}

static void forget_old(struct engine *engine)
{
        uint64_t now_us = clock_now_us();

        while (engine->contacts_unlinked && now_us >= engine->contacts_unlinked->unlinked_us + ENGINE_CONTACT_US) {
                struct contact *oldest = engine->contacts_unlinked;

                if (oldest->n_http_transfers > 0)
                        contact_fail(engine, oldest, 0, "");
                else
                        forget(engine, oldest);
        }
}

void contacts_list(struct engine *engine, struct contacts_page *page)
{
        const struct contact *contact;
        uint64_t after = page->cursor;

        forget_old(engine);
        page->n = 0;
        page->cursor = 0;
        DL_FOREACH (engine->contacts, contact) {
                if (contact->number <= after)
                        continue;
                if (page->n == page->max) {
                        page->cursor = after;
                        break;
                }
                look(engine, contact, &page->views[page->n++]);
                after = contact->number;
        }
}
