/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <ferry/error.h>
#include <ferry/json_write.h>

#include "base/metrics.h"
#include "base/util.h"
#include "connection.h"
#include "event_readers.h"
#include "event_stream.h"
#include "handlers.h"
#include "http_internal.h"
#include "latch.h"
#include "page.h"
#include "request.h"
#include "shard.h"
#include "wait.h"

/* The state of a request that waits for events. Connection's thread; come may be set on any. */
struct event_wait {
        struct event_reader reader;
        struct http_latch come;
        struct event_readers *readers;
};

static void event_wait_end(struct http_request *request)
{
        struct event_wait *wait = request->state;

        event_reader_leave(wait->readers, &wait->reader);
        latch_destroy(&wait->come);
        free(wait);
}

static void on_come(struct event_reader *reader)
{
        latch_set(&FERRY_CONTAINER_OF(reader, struct event_wait, reader)->come);
}

/* NULL: no memory. */
static struct event_wait *event_wait_new(struct http_request *request, const struct event_filter *filter,
                                         const struct event_place *place)
{
        struct event_wait *wait = calloc(1, sizeof(*wait));

        if (!wait)
                return NULL;
        latch_init(&wait->come);
        wait->readers = request->connection->readers;
        wait->reader = (struct event_reader){ .wake = on_come,
                                              .n_reloads = request->connection->shard->owner->credentials.n_reloads,
                                              .filter = *filter,
                                              .place = *place };
        request_keep(request, wait, event_wait_end);
        return wait;
}

/* ---- answering ---- */

struct answer {
        struct ferry_json_writer writer;
        size_t left;
};

static bool take(void *context, const struct event_text *event)
{
        struct answer *answer = context;

        ferry_json_put_text(&answer->writer, event->json, event->json_size);
        return --answer->left > 0;
}

static void answer_events(struct http_request *request, const struct event_filter *filter, struct event_place place)
{
        struct event_log *log = request->server->config.events;
        struct answer answer = { .left = page_limit(request) };
        char next[EVENT_ID_SIZE];
        struct event_gap gap;

        page_begin(&answer.writer, "events");
        if (event_log_read(log, filter, &place, take, &answer, &gap) < 0)
                answer.writer.failed = true;
        ferry_json_end_array(&answer.writer);
        event_place_format(log, &place, next);
        ferry_json_add_string(&answer.writer, "next", next);
        if (gap.missed)
                ferry_json_add_uint(&answer.writer, "missed", gap.missed);
        if (gap.restarted)
                ferry_json_add_bool(&answer.writer, "restarted", true);
        ferry_json_end_object(&answer.writer);
        metric_add(request->server->events_missed, (int64_t)gap.missed);
        request_answer_json(request, 200, &answer.writer);
}

static void answer_in_time(struct http_request *request)
{
        struct event_wait *wait = request->state;

        event_reader_leave(wait->readers, &wait->reader);
        answer_events(request, &wait->reader.filter, wait->reader.place);
}

/* Waits until an event passes the filter, at most wait_ms. */
static void answer_later(struct http_request *request, const struct event_filter *filter,
                         const struct event_place *place, uint64_t wait_ms)
{
        struct event_wait *wait = event_wait_new(request, filter, place);

        if (!wait || !event_reader_idle(wait->readers, &wait->reader)) {
                answer_events(request, filter, *place);
                return;
        }
        wait_latch_or_answer(request, &wait->come, wait_ms, answer_in_time);
}

/* ---- asking ---- */

/* The place to read from. false: answered. */
static bool find_place(struct http_request *request, bool stream, struct event_place *ret_place)
{
        struct event_log *log = request->server->config.events;
        const char *after = query_text(&request->query, HTTP_PARAMETER_AFTER_EVENT);

        if (stream && request->headers.last_event_id)
                after = request->headers.last_event_id;
        if (!after) {
                *ret_place = stream ? event_place_newest(log) : event_place_oldest(log);
                return true;
        }
        if (event_place_parse(log, after, ret_place))
                return true;
        request_problem(request, FERRY_E_INVALID_PARAMETER, "\"%.64s\" is not the id of an event", after);
        return false;
}

void list_events(struct http_request *request)
{
        const struct http_query *query = &request->query;
        bool stream = headers_accept(request->headers.accept, "text/event-stream") > 0;
        const struct event_filter filter = {
                .types = query_has(query, HTTP_PARAMETER_TYPE) ? (unsigned)query_value(query, HTTP_PARAMETER_TYPE)
                                                               : (1u << EVENT_TYPE_COUNT) - 1,
                .kind = query_has(query, HTTP_PARAMETER_KIND) ? (int)query_value(query, HTTP_PARAMETER_KIND) : -1,
                .label = query_text(query, HTTP_PARAMETER_LABEL),
        };
        struct event_place place;

        if (!find_place(request, stream, &place))
                return;
        if (stream) {
                event_stream_answer(request, &filter, &place);
                return;
        }
        uint64_t wait_ms = request_wait_ms(request);
        if (wait_ms)
                answer_later(request, &filter, &place, wait_ms);
        else
                answer_events(request, &filter, place);
}
