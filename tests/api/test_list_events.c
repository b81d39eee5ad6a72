/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"
#include "wire.h"

/* GET /v1/events: what happens in a worker, as a stream and as pages. */

enum { CROWD = 1000, MIB = 1 << 20 };

#define TOKEN "full-token-0123456789abcdef"
#define READERS "ferry_event_readers"

/* A stream of events, and what of it has come. */
struct stream {
        int fd;
        char *text;
        size_t size;
};

static struct stream stream_open(const struct worker *w, const char *query, const char *headers)
{
        struct stream s = { .fd = raw_connect(w), .text = calloc(1, 1) };
        const char *request =
                text_format("GET /v1/events%s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                            "%s\r\n",
                            query, headers);

        raw_send(s.fd, request, strlen(request));
        return s;
}

/* false: the worker has closed. */
static bool stream_read(struct stream *s)
{
        char buffer[65536];
        struct pollfd p = { .fd = s->fd, .events = POLLIN };

        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        ssize_t n = recv(s->fd, buffer, sizeof(buffer), 0);
        if (n <= 0)
                return false;
        s->text = realloc(s->text, s->size + (size_t)n + 1);
        assert_non_null(s->text);
        memcpy(s->text + s->size, buffer, (size_t)n);
        s->size += (size_t)n;
        s->text[s->size] = '\0';
        return true;
}

/* Reads until the text has come, and what follows it on its line; returns where it stands. */
static const char *stream_await(struct stream *s, const char *text)
{
        const char *at;

        while (!(at = strstr(s->text, text)) || !strchr(at + strlen(text), '\n'))
                if (!stream_read(s))
                        fail_msg("no \"%s\" in %s", text, s->text);
        return at;
}

static struct stream stream_begin(const struct worker *w, const char *query, const char *headers)
{
        struct stream s = stream_open(w, query, headers);

        (void)stream_await(&s, "event: hello\ndata: ");
        return s;
}

static void stream_close(struct stream *s)
{
        (void)close(s->fd);
        free(s->text);
}

ON_PAIR(a_stream_tells_of_a_life_from_region_to_region)
{
        OPERATION offer, read;

        struct stream a = stream_begin(&p->a, "", ""), b = stream_begin(&p->b, "", "");
        assert_non_null(strstr(a.text, "\r\nContent-Type: text/event-stream\r\n"));
        const char *source = region_make(&p->a, MIB, 1);
        const char *target = region_make(&p->b, MIB, 0);
        offer_make(&p->a, FERRY_READABLE, source, &offer);
        begin_make(&p->b, FERRY_READ, target, offer.metadata, &read);
        operation_assert_end(&p->b, read.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, offer.id, FERRY_COMPLETE, NULL);
        (void)stream_await(&a, "event: operation.ended\n"); /* told after the state can be seen */
        assert_int_equal(ferry_delete_operation(p->a.client, offer.id), 0);
        region_drop(&p->a, source);
        (void)stream_await(&a, "event: region.deleted\n");
        (void)stream_await(&b, "event: operation.ended\n");
        static const char *const order[] = { "event: region.created\n", "event: operation.created\n",
                                             "event: operation.ended\n", "event: region.deleted\n" };
        const char *at = a.text;
        for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
                at = strstr(at, order[i]);
                if (!at)
                        fail_msg("no \"%s\" where it belongs in %s", order[i], a.text);
        }
        assert_non_null(strstr(a.text, "event: peer.connected\n"));
        assert_non_null(strstr(b.text, "\"status\":\"COMPLETE\""));
        assert_non_null(strstr(b.text, "\"transport\":\"shm\""));
        /* The key of the offer is in no event. */
        struct json_object *metadata = json_parse(offer.metadata);
        assert_null(strstr(a.text, json_text(metadata, "notification_key")));
        assert_null(strstr(b.text, json_text(metadata, "notification_key")));
        stream_close(&a);
        stream_close(&b);
}

ON_PAIR(the_death_of_a_peer_is_told)
{
        pair_assert_serving(p);
        struct stream b = stream_begin(&p->b, "?type=peer", "");
        worker_kill(&p->a);
        (void)stream_await(&b, "event: peer.disconnected\n");
        assert_non_null(strstr(stream_await(&b, "\"peer\":{"), "\"code\":\"peer-lost\""));
        stream_close(&b);
}

WITH_PAIR(progress_comes_ten_times_a_second_at_most)
{
        enum { SIZE = 128 * MIB };
        OPERATION offer, write, ended;

        pair_start(p, true);
        const char *target = region_make(&p->a, SIZE, 0);
        const char *source = region_make(&p->b, SIZE, 0);
        struct stream b = stream_begin(&p->b, "?kind=write", "");
        offer_make(&p->a, FERRY_WRITABLE, target, &offer);
        begin_make(&p->b, FERRY_WRITE, source, offer.metadata, &write);
        operation_assert_end(&p->b, write.id, FERRY_COMPLETE, &ended);
        (void)stream_await(&b, "event: operation.ended\n");
        size_t n = text_count(b.text, "event: operation.changed\n");
        assert_true(n >= 1);
        assert_true(n <= 2 + ended.duration_us / 100000);
        stream_close(&b);
}

static void assert_start_then_end(struct stream *s)
{
        const char *start, *end;

        (void)stream_await(s, "event: operation.ended\n");
        start = strstr(s->text, "event: operation.changed\n");
        end = strstr(s->text, "event: operation.ended\n");
        assert_non_null(start);
        assert_true(start < end);
        start = strstr(start, "\"status\":\"IN_PROGRESS\",");
        assert_true(start && start < end);
        stream_close(s);
}

/* Both are told after the messages of the transfer are sent. */
ON_PAIR(a_start_is_told_before_the_end_however_short_the_transfer)
{
        for (int i = 0; i < 2; i++) {
                OPERATION offer, active, ended_here, ended_there;

                struct stream a = stream_begin(&p->a, "?type=operation", "");
                struct stream b = stream_begin(&p->b, "?type=operation", "");
                offer_make(&p->a, i ? FERRY_WRITABLE : FERRY_READABLE, region_make(&p->a, 4096, 0), &offer);
                begin_make(&p->b, i ? FERRY_WRITE : FERRY_READ, region_make(&p->b, 4096, 0), offer.metadata, &active);
                operation_assert_end(&p->b, active.id, FERRY_COMPLETE, &ended_here);
                operation_assert_end(&p->a, offer.id, FERRY_COMPLETE, &ended_there);
                assert_start_then_end(&a);
                assert_start_then_end(&b);
        }
}

/* The id of the last event of the stream, for free(). */
static char *last_id(const struct stream *s)
{
        const char *id = s->text, *next;

        while ((next = strstr(id + 1, "\nid: ")))
                id = next;
        return strndup(id + strlen("\nid: "), strcspn(id + strlen("\nid: "), "\n"));
}

ON_WORKER(a_stream_that_was_cut_goes_on_where_it_was)
{
        struct stream s = stream_begin(w, "", "");
        const char *first = region_make(w, 10, 0);
        (void)stream_await(&s, first);
        char *id = last_id(&s);
        const char *header = text_format("Last-Event-ID: %s\r\n", id);
        stream_close(&s);
        worker_await_metric(w, READERS, 0);
        const char *second = region_make(w, 10, 0);
        const char *third = region_make(w, 10, 0);
        s = stream_begin(w, "", header);
        (void)stream_await(&s, second);
        (void)stream_await(&s, third);
        assert_true(strstr(s.text, second) < strstr(s.text, third));
        assert_null(strstr(s.text, first));
        assert_null(strstr(s.text, "missed"));
        stream_close(&s);
        /* By a page, too. */
        struct json_object *page = call_json(w, 200, "GET", text_format("/v1/events?after=%s", id), NULL);
        assert_int_equal(json_object_array_length(json_member(page, "events")), 2);
        free(id);
}

ON_WORKER(a_reader_of_an_earlier_worker_hears_of_the_restart)
{
        struct stream s = stream_begin(w, "", "Last-Event-ID: 00000000000000aa-17\r\n");
        assert_non_null(strstr(stream_await(&s, "event: missed\n"), "\"count\":0,\"restarted\":true}"));
        stream_close(&s);
        assert_true(json_truth(call_json(w, 200, "GET", "/v1/events?after=00000000000000aa-17", NULL), "restarted"));
}

ON_WORKER(a_label_lets_its_own_operations_pass)
{
        struct stream s = stream_begin(w, "?label=mine", "");
        const char *region = region_make(w, 10, 0);
        static const char *const labels[] = { "theirs", "mine" };
        for (int i = 0; i < 2; i++) {
                const char *more = text_format(",\"label\":\"%s\"", labels[i]),
                           *body = operation_body("readable", region, more);
                call_json(w, 201, "POST", "/v1/operations", body);
        }
        (void)stream_await(&s, "\"label\":\"mine\"");
        assert_null(strstr(s.text, "theirs"));
        assert_null(strstr(s.text, "region.created"));
        stream_close(&s);
        /* No operation has one of 65 bytes; its first 64 are another label. */
        wire_refused(w, 400, "invalid-parameter",
                     "GET /v1/events?label=%065d HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", 0);
}

/* The worker reads its token anew: a stream goes on with the same one, and ends with another. */
WITH_WORKER(a_stream_ends_with_its_token)
{
        const char *path = file_make(TOKEN "\n");

        worker_start_plain(w, "a", STRINGS("--listen", "127.0.0.1:0", "--token-file", path));
        worker_connect(w, NULL, &(struct ferry_options){ .token = TOKEN });
        struct stream s = stream_begin(w, "", "Authorization: Bearer " TOKEN "\r\nConnection: close\r\n");
        worker_hang_up(w, "tokens and certificates reloaded", 1);
        (void)stream_await(&s, region_make(w, 10, 0));
        int waiting = raw_connect(w);
        const char *request = "GET /v1/events?type=peer&wait_ms=50000 HTTP/1.1\r\nHost: localhost\r\n"
                              "Authorization: Bearer " TOKEN "\r\nConnection: close\r\n\r\n";
        raw_send(waiting, request, strlen(request));
        file_write(path, "another-" TOKEN "\n");
        const size_t size = s.size;
        worker_hang_up(w, "tokens and certificates reloaded", 2);
        while (stream_read(&s))
                assert_in_range(s.size, size, size + 100); /* not beat after beat */
        (void)raw_end(waiting);
        stream_close(&s);
        wire_refused(w, 401, "unauthenticated",
                     "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " TOKEN "\r\n\r\n");
}

ON_WORKER(near_limits_are_told, "--max-regions", "10")
{
        const char *ids[10];

        struct stream s = stream_begin(w, "?type=limit", "");
        for (int i = 0; i < 10; i++)
                ids[i] = region_make(w, 10, 0);
        (void)stream_await(&s, "\"limit\":{\"name\":\"regions_max\",\"used\":9,\"max\":10}");
        worker_await_metric(w, "ferry_limit_near{limit=\"regions_max\"}", 1);
        worker_await_metric(w, "ferry_limit_near{limit=\"memory_limit\"}", 0);
        for (int i = 0; i < 3; i++)
                region_drop(w, ids[i]);
        (void)stream_await(&s, "event: limit.cleared\n");
        worker_await_metric(w, "ferry_limit_near{limit=\"regions_max\"}", 0);
        stream_close(&s);
}

ON_WORKER(a_crowd_of_readers_costs_nothing_until_something_happens)
{
        static struct stream crowd[CROWD];
        struct wakeups before;

        for (int i = 0; i < CROWD; i++)
                crowd[i] = stream_open(w, "", "");
        for (int i = 0; i < CROWD; i++)
                (void)stream_await(&crowd[i], "event: hello\ndata: ");
        worker_await_metric(w, READERS, CROWD);
        pass_time(100); /* what the opening has left to do */
        worker_wakeups(w, &before);
        uint64_t used = worker_processor_ms(w);
        pass_time(500);
        assert_in_range(worker_wakeups_since(w, &before), 0, 20);
        if (!SANITIZED)
                assert_true(worker_processor_ms(w) - used <= 20);
        const char *region = region_make(w, 10, 0);
        for (int i = 0; i < CROWD; i++)
                (void)stream_await(&crowd[i], region);
        for (int i = 0; i < CROWD; i++)
                stream_close(&crowd[i]);
        worker_await_metric(w, READERS, 0);
}

ON_WORKER(a_worker_that_stops_ends_its_streams)
{
        OPERATION offer;
        const char *region = region_make(w, 10, 0);

        offer_make(w, FERRY_READABLE, region, &offer);
        struct stream s = stream_begin(w, "", "");
        worker_stop(w);
        while (stream_read(&s))
                ;
        assert_non_null(strstr(s.text, "\"status\":\"CANCELLED\""));
        assert_non_null(strstr(s.text, "\r\n0\r\n\r\n"));
        stream_close(&s);
}
