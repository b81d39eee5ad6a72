/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "harness.h"

/*
 * A worker that has nothing to do sleeps: also when links are open, a request is parked and an offer waits. It wakes
 * once a second to sweep what is due, and two or three times more for what UCX keeps alive.
 */

/* A thread that did not sleep would take all of the time; a few wake-ups take 2 to 25 ms, as busy as the machine is. */
enum {
        SECONDS = 3,
        ALONE = 2 * SECONDS,  /* wake-ups: it has one or two */
        LINKED = 6 * SECONDS, /* it has 10 or 11 */
        PROCESSOR_MS = SECONDS * 1000 / 20,
};

struct scene {
        struct worker quiet, local, network;
        int parked;
};

static void park(struct scene *s, const char *id)
{
        char request[256];

        s->parked = raw_connect(&s->quiet);
        (void)snprintf(request, sizeof(request),
                       "GET /v1/operations/%s?wait_ms=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
        raw_send(s->parked, request, strlen(request));
}

static void assert_sleeps(struct scene *s, uint64_t wakeups_max)
{
        struct wakeups before;
        uint64_t wakeups, processor_ms;

        worker_wakeups(&s->quiet, &before);
        processor_ms = worker_processor_ms(&s->quiet);
        pass_time(SECONDS * 1000);
        wakeups = worker_wakeups_since(&s->quiet, &before);
        processor_ms = worker_processor_ms(&s->quiet) - processor_ms;
        print_message("%d wake-ups and %d ms of processor time in %d s\n", (int)wakeups, (int)processor_ms, SECONDS);
#if !defined(__SANITIZE_THREAD__) /* it has a thread of its own, which wakes */
        assert_true(wakeups <= wakeups_max);
        assert_true(processor_ms <= PROCESSOR_MS);
#endif
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(a_fresh_worker_sleeps)
{
        worker_start(&s->quiet, "quiet", NULL);
        assert_sleeps(s, ALONE);
}

WITH_SCENE(a_worker_with_links_and_waiters_sleeps)
{
        OPERATION offer;
        char *metrics;

        worker_start(&s->quiet, "quiet", STRINGS("--data-listen", "127.0.0.1:0"));
        worker_start(&s->local, "local", NULL);
        worker_start(&s->network, "network", STRINGS("--data-listen", "127.0.0.1:0", "--local", "off"));
        pair_assert_serving(&(struct pair){ .a = s->quiet, .b = s->local });
        pair_assert_serving(&(struct pair){ .a = s->local, .b = s->quiet });
        pair_assert_serving(&(struct pair){ .a = s->quiet, .b = s->network });
        pair_assert_serving(&(struct pair){ .a = s->network, .b = s->quiet });
        const char *region = region_make(&s->quiet, 4096, 0);
        offer_make(&s->quiet, FERRY_READABLE, region, &offer);
        park(s, offer.id);
        assert_int_equal(ferry_get_metrics(s->quiet.client, &metrics), 0);
        /* Each side that was active has opened one. */
        assert_non_null(strstr(metrics, "ferry_links{transport=\"local\"} 2\n"));
        assert_non_null(strstr(metrics, "ferry_links{transport=\"ucx\"} 2\n"));
        free(metrics);
        assert_sleeps(s, LINKED);
        worker_stop(&s->network);
        worker_stop(&s->local);
        worker_stop(&s->quiet);
        (void)close(s->parked);
}
