/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"

/* GET /v1/throughput: what has moved in each of the last seconds, by whatever transport. */

enum { SIZE = 3 << 20, LONG = 256 << 20, SEED = 3, SECONDS_MAX = 300 };

/* The sum of one direction, "received" or "sent", over the seconds that are shown. */
static uint64_t moved(struct worker *w, const char *direction)
{
        struct json_object *list = json_member(call_json(w, 200, "GET", "/v1/throughput", NULL), direction);
        uint64_t sum = 0;

        for (size_t i = 0; i < json_object_array_length(list); i++)
                sum += json_object_get_uint64(json_object_array_get_idx(list, i));
        return sum;
}

/* Waits for the second that runs to be over. */
static void await_moved(struct worker *w, const char *direction, uint64_t bytes)
{
        uint64_t seen;

        WAIT_UNTIL_OR((seen = moved(w, direction)) == bytes, "worker %s has %s %llu bytes, not %llu", w->name,
                      direction, (unsigned long long)seen, (unsigned long long)bytes);
}

static void assert_both_count(struct pair *p)
{
        for (int write = 0; write < 2; write++) {
                bytes_move(&p->a, &p->b, write ? FERRY_WRITABLE : FERRY_READABLE, SIZE, false, NULL);
                bytes_move(&p->a, &p->b, write ? FERRY_WRITABLE : FERRY_READABLE, 1, false, NULL);
        }
        for (int b = 0; b < 2; b++) {
                await_moved(b ? &p->b : &p->a, "received", SIZE + 1);
                await_moved(b ? &p->b : &p->a, "sent", SIZE + 1);
        }
}

ON_EACH_PAIR(both_sides_count_what_moves)
{
        assert_both_count(p);
}

WITH_PAIR(both_sides_count_what_moves_by_http)
{
        pair_start_apart(p);
        assert_both_count(p);
}

/* The sum of bytes_done of the worker's operations of a kind. */
static uint64_t done_by(struct worker *w, const char *kind)
{
        struct json_object *list =
                json_member(call_json(w, 200, "GET", text_format("/v1/operations?kind=%s", kind), NULL), "operations");
        uint64_t sum = 0;

        for (size_t i = 0; i < json_object_array_length(list); i++)
                sum += json_number(json_object_array_get_idx(list, i), "bytes_done");
        return sum;
}

/* The peer stands still, so that the transfer cannot end. */
ON_EACH_PAIR(bytes_count_before_their_transfer_ends, SMALL_WINDOW)
{
        struct running r;
        uint64_t seen;

        running_start(p, FERRY_READABLE, LONG, SEED, &p->a, &r);
        WAIT_UNTIL((seen = moved(&p->b, "received")) > 0 && seen == done_by(&p->b, "read"));
        assert_false(json_truth(operation_json(&p->b, r.active), "done"));
        worker_resume(&p->a);
        operation_assert_end(&p->b, r.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, r.passive, FERRY_COMPLETE, NULL);
        await_moved(&p->b, "received", done_by(&p->b, "read"));
        await_moved(&p->a, "sent", done_by(&p->a, "readable"));
        running_drop(p, &r);
}

ON_WORKER(a_young_worker_knows_as_many_seconds_as_it_is_old)
{
        struct json_object *answer;
        size_t n;

        answer = call_json(w, 200, "GET", "/v1/throughput", NULL);
        n = json_object_array_length(json_member(answer, "received"));
        assert_int_equal(json_object_array_length(json_member(answer, "sent")), n);
        assert_in_range(n, 0, SECONDS_MAX);
        assert_int_equal(strlen(json_text(answer, "since")), strlen("2026-01-31T12:00:00.000Z"));
        WAIT_UNTIL(json_object_array_length(json_member(call_json(w, 200, "GET", "/v1/throughput", NULL), "received")) >
                   n);
}
