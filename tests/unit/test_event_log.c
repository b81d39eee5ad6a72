/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include "base/util.h"
#include "documents/documents.h"
#include "move/engine.h"

/* The ring of events: numbers, places, filters, what a late reader missed, and limits. */

enum { KEPT = 4 };

static const struct event_filter all = { .types = (1u << EVENT_TYPE_COUNT) - 1, .kind = -1 };

static struct event_log *make_log(void)
{
        struct event_log *log;

        assert_int_equal(event_log_new(&(struct event_log_config){ .epoch = EPOCH, .kept = KEPT }, &log), 0);
        return log;
}

static void happen(struct event_log *log, unsigned n)
{
        const struct engine_peer_view peer = { .epoch = 1, .state = ENGINE_PEER_CONNECTED };

        while (n--)
                event_log_peer(log, &peer);
}

struct read {
        size_t n, most;
        char text[8192];
};

static bool take(void *context, const struct event_text *event)
{
        struct read *read = context;

        (void)snprintf(read->text + strlen(read->text), sizeof(read->text) - strlen(read->text), "%.*s",
                       (int)event->size, event->text);
        assert_true(event->json >= event->text && event->json + event->json_size <= event->text + event->size);
        assert_true(event->json[0] == '{' && event->json[event->json_size - 1] == '}');
        return ++read->n < read->most;
}

static struct read read_on(struct event_log *log, const struct event_filter *filter, struct event_place *place,
                           size_t most, uint64_t missed)
{
        struct read read = { .most = most };
        struct event_gap gap;

        assert_int_equal(event_log_read(log, filter, place, take, &read, &gap), 0);
        assert_int_equal(gap.missed, missed);
        return read;
}

TEST(events_come_in_order_and_a_place_stands_between_them)
{
        struct event_log *log = make_log();
        struct event_place place = event_place_newest(log);
        char id[EVENT_ID_SIZE];

        assert_false(event_log_has(log, &all, &place));
        assert_int_equal(read_on(log, &all, &place, 10, 0).n, 0);
        happen(log, 3);
        assert_true(event_log_has(log, &all, &place));
        struct read read = read_on(log, &all, &place, 2, 0);
        assert_int_equal(read.n, 2);
        char *first = strstr(read.text, "id: 0000000000001111-1\nevent: peer.connected\ndata: {"),
             *second = strstr(read.text, "\n\nid: 0000000000001111-2\n");
        assert_true(first == read.text && second > first);
        event_place_format(log, &place, id);
        assert_string_equal(id, "0000000000001111-2");
        assert_non_null(strstr(read_on(log, &all, &place, 2, 0).text, "id: 0000000000001111-3\n"));
        assert_false(event_log_has(log, &all, &place));
        event_log_free(log);
}

TEST(a_late_reader_is_told_how_many_it_missed)
{
        struct event_log *log = make_log();
        struct event_place place = event_place_newest(log);

        happen(log, KEPT);
        assert_int_equal(read_on(log, &all, &place, 1, 0).n, 1);
        happen(log, KEPT + 2);
        assert_true(event_log_has(log, &all, &place));
        struct read read = read_on(log, &all, &place, 100, 5);
        assert_int_equal(read.n, KEPT);
        assert_non_null(strstr(read.text, "id: 0000000000001111-7\n"));
        /* What does not pass is missed, too: nobody knows any more what it was. */
        const struct event_filter none = { .types = 1u << EVENT_LIMIT_NEAR, .kind = -1 };
        happen(log, KEPT + 1);
        assert_true(event_log_has(log, &none, &place));
        assert_int_equal(read_on(log, &none, &place, 100, 1).n, 0);
        assert_false(event_log_has(log, &none, &place));
        place = event_place_oldest(log);
        assert_int_equal(read_on(log, &all, &place, 100, 0).n, KEPT);
        event_log_free(log);
}

/* A reader is asked about before every delivery, whether or not it gets anything. */
TEST(a_reader_in_time_misses_nothing_however_much_passes_it_by)
{
        const struct event_filter none = { .types = 1u << EVENT_LIMIT_NEAR, .kind = -1 };
        struct event_log *log = make_log();
        struct event_place place = event_place_newest(log);
        char id[EVENT_ID_SIZE];

        for (unsigned n = 0; n < 3 * KEPT; n++) {
                happen(log, 1);
                assert_false(event_log_has(log, &none, &place));
        }
        assert_int_equal(read_on(log, &none, &place, 100, 0).n, 0);
        event_place_format(log, &place, id);
        assert_string_equal(id, "0000000000001111-12");
        event_log_free(log);
}

TEST(an_id_of_another_worker_begins_anew)
{
        struct event_log *log = make_log();
        struct event_place place;
        struct event_gap gap;

        happen(log, 3);
        assert_true(event_place_parse(log, "0000000000001111-2", &place));
        assert_true(place.next == 3 && !place.restarted);
        assert_true(event_place_parse(log, "3", &place));
        assert_true(place.next == 4 && !place.restarted);
        FOR_EACH_TEXT (other, "0000000000002222-1", "4", "0000000000001111-9007199254740991") {
                struct read read = { .most = 10 };

                assert_true(event_place_parse(log, other, &place));
                assert_true(place.next == 1 && place.restarted);
                assert_true(event_log_has(log, &all, &place));
                assert_int_equal(event_log_read(log, &all, &place, take, &read, &gap), 0);
                assert_true(gap.restarted && !gap.missed);
                assert_int_equal(read.n, 3);
                assert_false(place.restarted);
        }
        FOR_EACH_TEXT (wrong, "", "-1", "x", "0000000000001111-", "0000000000001111-x", "111-1", " 1", "1 ",
                       "00000000000011111-1", "9007199254740992", "0000000000001111-1-1")
                assert_false(event_place_parse(log, wrong, &place));
        event_log_free(log);
}

TEST(types_are_named_alone_or_by_their_family)
{
        assert_int_equal(event_types_from_text("operation.ended"), 1u << EVENT_OPERATION_ENDED);
        assert_int_equal(event_types_from_text("region,limit.near"),
                         1u << EVENT_REGION_CREATED | 1u << EVENT_REGION_CHANGED | 1u << EVENT_REGION_DELETED |
                                 1u << EVENT_LIMIT_NEAR);
        assert_int_equal(event_types_from_text("operation,region,peer,limit"), all.types);
        FOR_EACH_TEXT (wrong, "", "operation.", "operation,", ",region", "Operation", "missed")
                assert_int_equal(event_types_from_text(wrong), 0);
        for (int type = 0; type < EVENT_TYPE_COUNT; type++)
                assert_int_equal(event_types_from_text(event_type_name(type)), 1u << type);
        assert_null(event_type_name(EVENT_TYPE_COUNT));
}

TEST(a_limit_is_told_once_when_it_is_near_and_once_when_it_is_not)
{
        const struct http_limits limits = { .regions_max = 100, .waiters_max = 1 };
        const struct operation_limits operations = { .operations_max = 10 };
        struct event_log *log = make_log();
        struct event_place place = event_place_newest(log);

        event_log_used(log, EVENT_LIMIT_REGIONS, 100); /* not known yet */
        event_log_limits(log, &limits, &operations);
        event_log_used(log, EVENT_LIMIT_MEMORY, 1); /* there is none */
        event_log_used(log, EVENT_LIMIT_REGIONS, 89);
        assert_int_equal(read_on(log, &all, &place, 10, 0).n, 0);
        event_log_used(log, EVENT_LIMIT_REGIONS, 90);
        event_log_used(log, EVENT_LIMIT_REGIONS, 100);
        event_log_used(log, EVENT_LIMIT_REGIONS, 80);
        struct read read = read_on(log, &all, &place, 10, 0);
        assert_int_equal(read.n, 1);
        assert_non_null(strstr(read.text, "\"type\":\"limit.near\""));
        assert_non_null(strstr(read.text, "\"limit\":{\"name\":\"regions_max\",\"used\":90,\"max\":100}"));
        event_log_used(log, EVENT_LIMIT_REGIONS, 79);
        event_log_used(log, EVENT_LIMIT_REGIONS, 89);
        read = read_on(log, &all, &place, 10, 0);
        assert_int_equal(read.n, 1);
        assert_non_null(strstr(read.text, "\"type\":\"limit.cleared\""));
        event_log_used(log, EVENT_LIMIT_WAITERS, 1);
        event_log_used(log, EVENT_LIMIT_WAITERS, 0);
        assert_int_equal(read_on(log, &all, &place, 10, 0).n, 2);
        event_log_free(log);
}

WITH_HTTP(an_operation_is_told_of_as_it_was_then)
{
        struct event_place place = event_place_newest(h->events);
        struct operation *operation = make(h->f, FERRY_READABLE);

        event_log_operation(h->events, h->f->store, operation, OPERATION_MADE);
        operation_cancel(h->f->store, operation);
        /* CHANGED after the operation has ended is ignored. */
        event_log_operation(h->events, h->f->store, operation, OPERATION_CHANGED);
        event_log_operation(h->events, h->f->store, operation, OPERATION_ENDED);
        struct read read = read_on(h->events, &all, &place, 10, 0);
        assert_int_equal(read.n, 2);
        assert_non_null(strstr(read.text, "\"type\":\"operation.created\""));
        assert_non_null(strstr(read.text, "\"status\":\"INITIALIZED\",\"done\":false,\"revision\":1,"));
        assert_non_null(strstr(read.text, "\"status\":\"CANCELLED\",\"done\":true"));
        assert_null(strstr(read.text, "descriptors"));
        assert_null(strstr(read.text, "key"));
}

/* Another thread may end an operation before the one that made it tells of it. */
WITH_HTTP(the_creation_of_an_operation_is_told_once_and_before_its_end)
{
        struct event_place place = event_place_newest(h->events);
        struct operation *operation = make(h->f, FERRY_READABLE);

        operation_cancel(h->f->store, operation);
        event_log_operation(h->events, h->f->store, operation, OPERATION_ENDED);
        event_log_operation(h->events, h->f->store, operation, OPERATION_MADE);
        struct read read = read_on(h->events, &all, &place, 10, 0);
        assert_int_equal(read.n, 2);
        const char *created = strstr(read.text, "\"type\":\"operation.created\""),
                   *ended = strstr(read.text, "\"type\":\"operation.ended\"");
        assert_true(created && ended && created < ended);
}

WITH_HTTP(labels_and_kinds_let_operations_pass_only)
{
        const struct operation_slice slice = { .region = h->f->region, .size = 1 };
        const struct operation_spec spec = { .kind = FERRY_WRITABLE, .slices = &slice, .n_slices = 1, .label = "mine" };
        const struct event_filter label = { .types = all.types, .kind = -1, .label = "mine" },
                                  kind = { .types = all.types, .kind = FERRY_READABLE };
        struct operation *one = make(h->f, FERRY_READABLE), *other;
        struct event_place place = event_place_newest(h->events), again = place;

        assert_int_equal(make_spec(h->f, &spec, &other), 0);
        event_log_operation(h->events, h->f->store, one, OPERATION_MADE);
        event_log_operation(h->events, h->f->store, other, OPERATION_MADE);
        happen(h->events, 1);
        struct read read = read_on(h->events, &label, &place, 10, 0);
        assert_int_equal(read.n, 1);
        assert_non_null(strstr(read.text, "\"label\":\"mine\""));
        read = read_on(h->events, &kind, &again, 10, 0);
        assert_int_equal(read.n, 1);
        assert_non_null(strstr(read.text, "\"kind\":\"readable\""));
}
