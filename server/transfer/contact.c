/* SPDX-License-Identifier: Apache-2.0 */
#include "contact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine_internal.h"
#include "peer.h"
#include "transport/ucx.h"

/* ---- life ---- */

/* false: no memory. */
static bool note(char **field, const char *text)
{
        char *copy;

        if (!text || text[0] == '\0' || (*field && strcmp(*field, text) == 0))
                return true;
        copy = strdup(text);
        if (!copy)
                return false;
        free(*field);
        *field = copy;
        return true;
}

static void forget(struct engine *engine, struct contact *contact)
{
        DL_DELETE2(engine->contacts_left, contact, left_prev, left_next);
        engine->n_contacts_left--;
        DL_DELETE(engine->contacts, contact);
        HASH_DELETE(hh, engine->contacts_by_epoch, contact);
        free(contact->name);
        free(contact->url);
        free(contact->data);
        free(contact);
}

/* Lists a contact that has no link. */
static void enter_left(struct engine *engine, struct contact *contact)
{
        contact->left_us = clock_now_us();
        DL_APPEND2(engine->contacts_left, contact, left_prev, left_next);
        if (++engine->n_contacts_left > ENGINE_CONTACTS_LEFT)
                forget(engine, engine->contacts_left);
}

static void leave_left(struct engine *engine, struct contact *contact)
{
        DL_DELETE2(engine->contacts_left, contact, left_prev, left_next);
        engine->n_contacts_left--;
}

static struct contact *make(struct engine *engine, uint64_t epoch)
{
        struct contact *contact = calloc(1, sizeof(*contact));

        if (!contact)
                return NULL;
        contact->epoch = epoch;
        HASH_ADD(hh, engine->contacts_by_epoch, epoch, sizeof(epoch), contact);
        if (!contact->hh.tbl) {
                free(contact);
                return NULL;
        }
        contact->number = ++engine->n_contacts;
        DL_APPEND(engine->contacts, contact);
        enter_left(engine, contact);
        return contact;
}

struct contact *contact_meet(struct engine *engine, const struct engine_peer *peer)
{
        struct contact *contact;

        HASH_FIND(hh, engine->contacts_by_epoch, &peer->epoch, sizeof(peer->epoch), contact);
        if (!contact)
                contact = make(engine, peer->epoch);
        if (!contact || !note(&contact->name, peer->name) || !note(&contact->url, peer->url) ||
            !note(&contact->data, peer->data))
                return NULL;
        return contact;
}

void contact_name(struct contact *contact, const char *name)
{
        if (contact && !contact->name)
                (void)note(&contact->name, name);
}

void contact_join(struct contact *contact, struct peer *peer)
{
        if (!contact)
                return;
        if (!contact->peers)
                leave_left(peer->engine, contact);
        peer->contact = contact;
        DL_APPEND2(contact->peers, peer, contact_prev, contact_next);
}

static void set_error(struct contact *contact, int error, const char *detail)
{
        contact->error = error;
        (void)snprintf(contact->detail, sizeof(contact->detail), "%s", detail);
}

void contact_leave(struct peer *peer, int error, const char *detail)
{
        struct contact *contact = peer->contact;

        if (!contact)
                return;
        peer->contact = NULL;
        DL_DELETE2(contact->peers, peer, contact_prev, contact_next);
        set_error(contact, error, detail);
        if (!contact->peers)
                enter_left(peer->engine, contact);
        contact_tell(peer->engine, contact);
}

/* Lists it as disconnected now; error 0 = closed for want of use. */
static void stay_left(struct engine *engine, struct contact *contact, int error, const char *detail)
{
        set_error(contact, error, detail);
        if (!contact->peers) {
                leave_left(engine, contact);
                enter_left(engine, contact);
        }
}

void contact_fail(struct engine *engine, struct contact *contact, int error, const char *detail)
{
        if (contact)
                stay_left(engine, contact, error, detail);
}

void contacts_clear(struct engine *engine)
{
        while (engine->contacts_left)
                forget(engine, engine->contacts_left);
}

/* ---- transfers that are not the engine's ---- */

struct visit *visit_new(const struct engine_visit *visit)
{
        struct visit *copy = malloc(sizeof(*copy));

        if (!copy)
                return NULL;
        copy->visit = *visit;
        (void)snprintf(copy->name, sizeof(copy->name), "%s", visit->peer.name ?: "");
        (void)snprintf(copy->url, sizeof(copy->url), "%s", visit->peer.url ?: "");
        copy->visit.peer.name = copy->name;
        copy->visit.peer.url = copy->url;
        copy->visit.peer.data = NULL;
        if (visit->outcome) {
                copy->outcome = *visit->outcome;
                copy->visit.outcome = &copy->outcome;
        }
        return copy;
}

static bool is_visited(const struct contact *contact, uint64_t now_us)
{
        return contact->visits_by && (contact->n_visits > 0 || now_us < contact->visited_us + ENGINE_VISIT_US);
}

void contact_note(struct engine *engine, struct visit *copy)
{
        const struct engine_visit *visit = &copy->visit;
        struct contact *contact = contact_meet(engine, &visit->peer);
        uint64_t now_us = clock_now_us();

        if (contact) {
                const struct engine_outcome *outcome = visit->outcome;

                if (!is_visited(contact, now_us))
                        contact->visits_since_us = now_us;
                contact->visits_by = visit->transport;
                contact->visits_accepted = visit->accepted;
                contact->visits_chosen = visit->chosen;
                contact->visited_us = now_us;
                if (!outcome)
                        contact->n_visits++;
                else if (contact->n_visits > 0) /* otherwise its begin was not noted */
                        contact->n_visits--;
                if (outcome)
                        contact_count(contact, outcome);
                stay_left(engine, contact, 0, "");
        }
        free(copy);
}

void contact_count(struct contact *contact, const struct engine_outcome *outcome)
{
        if (!contact)
                return;
        contact->bytes += outcome->bytes;
        contact->n_completed += outcome->error == 0;
}

/* ---- telling ---- */

/* Ranks links as the next transfer does: up before connecting, opened here before accepted, local before UCX. */
static unsigned rank(const struct peer *peer)
{
        const struct engine *engine = peer->engine;

        return (peer->link->state == LINK_UP ? 4u : 0u) + (peer->link->transport == engine->local ? 2u : 0u) +
               (peer->link->accepted ? 0u : 1u);
}

static const struct peer *best_of(const struct contact *contact)
{
        const struct peer *peer, *best = NULL;

        DL_FOREACH2(contact->peers, peer, contact_next)
        if (link_is_usable(peer->link) && (!best || rank(peer) > rank(best)))
                best = peer;
        return best;
}

static size_t count_transfers(const struct contact *contact)
{
        const struct peer *peer;
        size_t n = contact->n_visits;

        DL_FOREACH2(contact->peers, peer, contact_next)
        n += peer->n_transfers;
        return n;
}

static uint64_t unix_ms_of(uint64_t at_us)
{
        return clock_unix_ms() - (clock_now_us() - at_us) / 1000;
}

static void add_unused(struct engine_peer_view *view, const char *transport, const char *reason)
{
        struct engine_unused *unused = view->unused;

        if (!reason)
                return;
        while (unused->transport)
                unused++;
        *unused = (struct engine_unused){ .transport = transport, .reason = reason };
}

static const char *why_not(const struct contact *contact, const char *tried)
{
        if (contact->visits_accepted)
                return "the peer chose HTTP: its own list says why";
        return contact->visits_chosen ? "\"transports\" allows nothing else" : tried;
}

/* Every other carrier is better than HTTP. */
static void explain_visits(const struct engine *engine, const struct contact *contact, struct engine_peer_view *view)
{
        const char *no_rdma = engine->ucx ? ucx_transport_facts(engine->ucx)->device.no_rdma : NULL;

        add_unused(view, "shm", why_not(contact, contact->no_shm));
        add_unused(view, "rdma", why_not(contact, contact->no_ucx ?: no_rdma));
        add_unused(view, "tcp", why_not(contact, contact->no_ucx));
}

static const char *why_no_shm(const struct contact *contact, const struct peer *best)
{
        if (best && best->link->accepted && !contact->no_shm)
                return "the peer chose this link: its own list says why";
        return contact->no_shm;
}

static const char *why_no_rdma(const struct engine *engine, const struct contact *contact, const struct peer *best)
{
        const char *here = engine->ucx ? ucx_transport_facts(engine->ucx)->device.no_rdma : NULL;

        if (!best && contact->no_ucx)
                return contact->no_ucx;
        if (here)
                return here;
        return best ? "UCX found no RDMA path between the two" : NULL;
}

static void explain(const struct engine *engine, const struct contact *contact, const struct peer *best,
                    struct engine_peer_view *view)
{
        if (best && best->link->transport == engine->local)
                return;
        add_unused(view, "shm", why_no_shm(contact, best));
        if (!best || strcmp(view->transport, "tcp") == 0)
                add_unused(view, "rdma", why_no_rdma(engine, contact, best));
        if (!best)
                add_unused(view, "tcp", contact->no_ucx);
}

static void copy(char *to, size_t size, const char *from)
{
        (void)snprintf(to, size, "%s", from ? from : "");
}

static void look_at_link(struct link *link, struct engine_peer_view *view)
{
        view->accepted = link->accepted;
        view->state = link->state == LINK_UP ? ENGINE_PEER_CONNECTED : ENGINE_PEER_CONNECTING;
        if (view->state == ENGINE_PEER_CONNECTING)
                return;
        view->connect_us = link->connect_us;
        view->connected_unix_ms = unix_ms_of(link->created_us + link->connect_us);
        copy(view->transport, sizeof(view->transport), link->transport->ops->carrier(link));
}

static void look_at_visits(const struct contact *contact, struct engine_peer_view *view)
{
        view->state = ENGINE_PEER_CONNECTED;
        view->accepted = contact->visits_accepted;
        view->connected_unix_ms = unix_ms_of(contact->visits_since_us);
        copy(view->transport, sizeof(view->transport), contact->visits_by);
}

static void look_at_end(const struct contact *contact, struct engine_peer_view *view)
{
        const struct link *failed = contact->peers ? contact->peers->link : NULL; /* being closed */

        view->state = ENGINE_PEER_DISCONNECTED;
        view->error = failed ? failed->error : contact->error;
        copy(view->detail, sizeof(view->detail), failed ? failed->detail : contact->detail);
        view->disconnected_unix_ms = failed ? clock_unix_ms() : unix_ms_of(contact->left_us);
}

static void look(const struct engine *engine, const struct contact *contact, struct engine_peer_view *view)
{
        const struct peer *best = best_of(contact);

        bool visited = !best && is_visited(contact, clock_now_us());

        *view = (struct engine_peer_view){ .epoch = contact->epoch,
                                           .n_transfers = count_transfers(contact),
                                           .n_completed = contact->n_completed,
                                           .bytes = contact->bytes };
        copy(view->name, sizeof(view->name), contact->name);
        copy(view->url, sizeof(view->url), contact->url);
        copy(view->data, sizeof(view->data), contact->data);
        if (best)
                look_at_link(best->link, view);
        else if (visited)
                look_at_visits(contact, view);
        else
                look_at_end(contact, view);
        if (visited)
                explain_visits(engine, contact, view);
        else
                explain(engine, contact, best, view);
}

void contact_tell(struct engine *engine, struct contact *contact)
{
        struct engine_peer_view view;

        if (!contact || !engine->observer.peer_changed)
                return;
        look(engine, contact, &view);
        if (contact->told_up == (view.state == ENGINE_PEER_CONNECTED))
                return;
        contact->told_up = !contact->told_up;
        engine->observer.peer_changed(engine->observer.context, &view);
}

static void forget_old(struct engine *engine)
{
        uint64_t now_us = clock_now_us();

        while (engine->contacts_left && now_us >= engine->contacts_left->left_us + ENGINE_CONTACT_US) {
                struct contact *oldest = engine->contacts_left;

                if (oldest->n_visits > 0)
                        stay_left(engine, oldest, 0, "");
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
