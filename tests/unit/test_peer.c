/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "engine_internal.h"
#include "moved_clock.h"
#include "peer.h"
#include "session.h"
#include "unit.h"

/* ---- a worker that is reached by HTTP alone ---- */

enum { EPOCH = 7 };

static void note(struct engine *engine, const struct engine_outcome *outcome)
{
        struct engine_http_note what = { .epoch = EPOCH, .transport = "http", .ended = outcome };

        if (outcome)
                what.outcome = *outcome;
        peer_note_http(engine, &what);
}

static struct engine_peer_view assert_listed(struct engine *engine, enum engine_peer_state state, size_t n_transfers,
                                             int error)
{
        struct engine_peer_view view;
        struct peers_page page = { .views = &view, .max = 1 };

        peers_list(engine, &page);
        assert_int_equal(page.n, 1);
        assert_int_equal(view.state, state);
        assert_int_equal(view.n_transfers, n_transfers);
        assert_int_equal(view.error, error);
        return view;
}

TEST(a_worker_is_connected_by_http_while_another_transfer_runs)
{
        const struct engine_outcome lost = { .error = FERRY_E_PEER_LOST, .detail = "gone" }, complete = { 0 };
        struct engine engine = { 0 };

        for (int again = 0; again < 2; again++) {
                note(&engine, NULL);
                note(&engine, NULL);
                assert_listed(&engine, ENGINE_PEER_CONNECTED, 2, 0);
                note(&engine, &lost);
                assert_listed(&engine, ENGINE_PEER_CONNECTED, 1, 0);
                note(&engine, again ? &complete : &lost);
                assert_listed(&engine, again ? ENGINE_PEER_CONNECTED : ENGINE_PEER_DISCONNECTED, 0,
                              again ? 0 : FERRY_E_PEER_LOST);
        }
        peers_clear(&engine);
}

/* ---- a worker with a link that also moves bytes by HTTP ---- */

static const char *carrier(struct link *link)
{
        (void)link;
        return "shm";
}

static void on_peer_changed(void *context, const struct engine_peer_view *view)
{
        enum engine_peer_state *told = context;

        *told = view->state;
}

/* http_lasts: a transfer over HTTP runs on after the end of the link. */
static void assert_death_is_told(bool http_lasts)
{
        static const struct transport_ops ops = { .carrier = carrier };
        const struct engine_outcome lost = { .error = FERRY_E_PEER_LOST, .detail = "gone" }, complete = { 0 };
        enum engine_peer_state told = ENGINE_PEER_CONNECTING;
        struct engine engine = { .observer = { .peer_changed = on_peer_changed, .context = &told } };
        struct transport transport = { .ops = &ops };
        struct link link = { .transport = &transport, .state = LINK_UP };
        struct session session = { .engine = &engine, .link = &link };

        engine.local = &transport;
        peer_add_link(peer_get(&engine, &(struct engine_peer){ .epoch = EPOCH }), &session);
        peer_notify(&engine, session.peer);
        assert_int_equal(told, ENGINE_PEER_CONNECTED);
        session.peer->no_shm = "a transfer may not use it";
        note(&engine, NULL);
        if (!http_lasts)
                note(&engine, &complete);
        link.state = LINK_FAILED;
        peer_remove_link(&session, FERRY_E_PEER_LOST, "gone");
        if (http_lasts)
                note(&engine, &lost);
        assert_null(assert_listed(&engine, ENGINE_PEER_DISCONNECTED, 0, FERRY_E_PEER_LOST).unused[0].transport);
        assert_int_equal(told, ENGINE_PEER_DISCONNECTED);
        peers_clear(&engine);
}

TEST(a_lost_link_ends_the_minute_after_a_transfer_over_http)
{
        assert_death_is_told(false);
}

TEST(the_end_of_the_last_transfer_over_http_after_a_lost_link_is_told)
{
        assert_death_is_told(true);
}

/* ---- its paths ---- */

TEST(the_pauses_of_a_path_that_fails_grow_to_a_minute)
{
        struct path path = { 0 };

        for (int i = 0; i < 12; i++) {
                uint64_t pause_us = UINT64_C(1000000) << (i < 6 ? i : 6);

                path_fail(&path);
                path_fail(&path); /* the same attempt, told twice */
                assert_in_range(path.retry_us - clock_now_us(), pause_us - 500000, pause_us);
                assert_false(path_begin_probe(&path));
                later_us += pause_us;
                assert_true(path_begin_probe(&path));
                assert_false(path_begin_probe(&path)); /* one at a time */
        }
        path_open(&path);
        assert_int_equal(path_retry_unix_ms(&path), 0);
        path_fail(&path);
        assert_in_range(path.retry_us - clock_now_us(), 500000, 1000000);
}

TEST(a_probe_that_ends_without_a_link_has_failed)
{
        struct path path = { 0 };

        path_fail(&path);
        later_us += 1000001;
        assert_true(path_begin_probe(&path));
        path_end_probe(&path);
        assert_int_equal(path.state, PATH_SHUT);
        path_open(&path);
        path_end_probe(&path);
        assert_int_equal(path.state, PATH_OPEN);
}

/* It opened a link, which says nothing of the way there, and its end nothing either. */
TEST(a_link_that_the_peer_opened_is_no_attempt_of_this_worker)
{
        static const struct transport_ops ops = { .carrier = carrier };
        struct engine engine = { 0 };
        struct transport transport = { .ops = &ops };
        struct link link = { .transport = &transport, .state = LINK_FAILED, .accepted = true };
        struct session session = { .engine = &engine, .link = &link };
        struct peer *peer = peer_get(&engine, &(struct engine_peer){ .epoch = EPOCH });

        engine.local = &transport;
        peer_add_link(peer, &session);
        peer_remove_link(&session, FERRY_E_PEER_UNREACHABLE, "it does not greet");
        assert_int_equal(peer->paths[0].state, PATH_OPEN);
        path_fail(&peer->paths[0]);
        peer_link_up(peer, &session);
        assert_int_equal(peer->paths[0].state, PATH_SHUT);
        peers_clear(&engine);
}
