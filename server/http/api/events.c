/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"

/*
 * GET /v1/events, as a stream (text/event-stream) or a page. A stream is a content reader of libmicrohttpd: once it has
 * read all, it is listed with the idle readers of its thread and its connection is suspended. Its token is looked at
 * again after each reload of the secrets. A page waits as other requests do.
 *
 * Thread: that of the request's connection.
 */

/* ---- a stream ---- */

enum {
        PIECE = 64 << 10, /* bytes to take from the log at a time, about */
        BLOCK = 1 << 10,  /* libmicrohttpd's block size, which only HTTP/1.0 uses */
};

/* Belongs to its connection's thread. Owned by the response. */
struct event_stream {
        struct event_reader reader;
        struct http_server *server;
        struct event_readers *readers;
        struct http_connection *connection;   /* may be freed before the response */
        struct http_credentials *credentials; /* a reference: those by which it was allowed */
        char label[OPERATION_LABEL_SIZE];
        bool beat;                /* woken: send a keep-alive if there is no event */
        struct ferry_buffer text; /* to send */
        size_t sent;              /* of text */
        bool failed;              /* memory was short */
};

/* Adds text to what is to be sent. */
static void add(struct event_stream *stream, const char *text, size_t size)
{
        stream->failed |= ferry_buffer_append(&stream->text, text, size, SIZE_MAX - 1) < 0;
}

/* Adds an event that is not in the log; members writes what follows id, type and time. */
static void add_own(struct event_stream *stream, const char *type,
                    void (*members)(struct ferry_json_writer *, const void *), const void *object)
{
        char id[EVENT_ID_SIZE];
        struct event_text event;

        event_place_format(stream->server->config.events, &stream->reader.place, id);
        if (event_text_make(id, type, clock_unix_ms(), NULL, members, object, &event) < 0) {
                stream->failed = true;
                return;
        }
        add(stream, event.text, event.size);
        free(event.text);
}

static void write_hello(struct ferry_json_writer *writer, const void *object)
{
        const struct http_config *config = object;

        ferry_json_add_string(writer, "worker", config->worker_name);
        ferry_json_add_id(writer, "epoch", "", config->epoch);
}

static void write_gap(struct ferry_json_writer *writer, const void *object)
{
        const struct event_gap *gap = object;

        ferry_json_add_uint(writer, "count", gap->missed);
        if (gap->restarted)
                ferry_json_add_bool(writer, "restarted", true);
}

static bool take(void *context, const struct event_text *event)
{
        struct event_stream *stream = context;

        add(stream, event->text, event->size);
        return !stream->failed && stream->text.size < PIECE;
}

/* Reads the log. A gap is known only after reading, and is sent before the events that follow it. */
static void read_log(struct event_stream *stream)
{
        struct event_log *log = stream->server->config.events;
        struct event_place before = stream->reader.place;
        struct event_gap gap;

        if (event_log_read(log, &stream->reader.filter, &stream->reader.place, take, stream, &gap) < 0)
                stream->failed = true;
        if ((!gap.missed && !gap.restarted) || stream->failed)
                return;
        struct event_place after = stream->reader.place;
        struct ferry_buffer text = stream->text;
        stream->text = (struct ferry_buffer){ 0 };
        stream->reader.place.next = before.next + gap.missed;
        add_own(stream, "missed", write_gap, &gap);
        stream->reader.place = after;
        add(stream, text.size ? text.data : "", text.size);
        ferry_buffer_clear(&text, false);
        metric_add(stream->server->events_missed, (int64_t)gap.missed);
}

/*
 * A keep-alive: the place alone, which no client takes for an event. The client's Last-Event-ID thus moves on while the
 * filter drops everything.
 */
static void add_beat(struct event_stream *stream)
{
        char id[EVENT_ID_SIZE], beat[EVENT_ID_SIZE + 8];

        event_place_format(stream->server->config.events, &stream->reader.place, id);
        int n = snprintf(beat, sizeof(beat), "id: %s\n\n", id);
        add(stream, beat, (size_t)n);
}

/* Whether the worker's token is another than when the stream was allowed. The stream goes on by the newest set. */
static bool is_revoked(struct event_stream *stream)
{
        struct credentials_cache *cache = connection_credentials(stream->connection);
        struct http_credentials *newest = credentials_current(cache), *before = stream->credentials;

        if (newest == before)
                return false;
        stream->credentials = credentials_ref(newest);
        stream->reader.n_reloads = cache->n_reloads;
        bool revoked = newest->secrets.token && !ferry_secret_equal(newest->secrets.token, before->secrets.token);
        credentials_unref(before);
        return revoked;
}

/* libmicrohttpd's content reader. */
static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t max)
{
        struct event_stream *stream = context;

        while (stream->sent == stream->text.size) {
                ferry_buffer_clear(&stream->text, false);
                stream->sent = 0;
                if (wait_flag_is_set(&stream->connection->end) || is_revoked(stream))
                        return MHD_CONTENT_READER_END_OF_STREAM;
                bool stopped = atomic_load(&stream->server->events_stopped);
                read_log(stream);
                if (!stream->text.size && stream->beat && !stopped)
                        add_beat(stream);
                stream->beat = false;
                if (stream->failed)
                        return MHD_CONTENT_READER_END_WITH_ERROR;
                if (stream->text.size)
                        break;
                if (stopped)
                        return MHD_CONTENT_READER_END_OF_STREAM;
                if (event_reader_idle(stream->readers, &stream->reader)) {
                        MHD_suspend_connection(stream->connection->mhd);
                        return 0;
                }
        }
        size_t left = stream->text.size - stream->sent, n = left < max ? left : max;
        memcpy(buffer, stream->text.data + stream->sent, n);
        stream->sent += n;
        return (ssize_t)n;
}

/* There is something to read, or a keep-alive is due: the content reader is called again. */
static void wake(struct event_reader *reader)
{
        struct event_stream *stream = FERRY_CONTAINER_OF(reader, struct event_stream, reader);

        stream->beat = true;
        MHD_resume_connection(stream->connection->mhd);
        shard_wake(stream->connection->shard);
}

/* libmicrohttpd frees the response, perhaps after the connection. */
static void free_stream(void *context)
{
        struct event_stream *stream = context;

        event_reader_leave(stream->readers, &stream->reader);
        atomic_fetch_sub(&stream->server->n_streams, 1);
        metric_add(stream->server->event_readers, -1);
        ferry_buffer_clear(&stream->text, false);
        credentials_unref(stream->credentials);
        free(stream);
}

static struct event_stream *new_stream(struct http_request *request, const struct event_filter *filter,
                                       const struct event_place *place)
{
        struct event_stream *stream = calloc(1, sizeof(*stream));
        struct credentials_cache *cache = connection_credentials(request->connection);

        if (!stream)
                return NULL;
        stream->server = request->server;
        stream->connection = request->connection;
        stream->readers = stream->connection->readers;
        stream->credentials = credentials_ref(cache->current);
        stream->reader = (struct event_reader){ .wake = wake,
                                                .left = &stream->connection->end,
                                                .beats = true,
                                                .n_reloads = cache->n_reloads,
                                                .filter = *filter,
                                                .place = *place };
        if (filter->label) {
                (void)snprintf(stream->label, sizeof(stream->label), "%s", filter->label);
                stream->reader.filter.label = stream->label;
        }
        return stream;
}

/*
 * Answers with a stream (text/event-stream) of the events from place on, which ends when the client leaves, or when the
 * token that allowed it is no longer the worker's.
 */
static void event_stream_answer(struct http_request *request, const struct event_filter *filter,
                                const struct event_place *place)
{
        static const char retry[] = "retry: 1000\n";
        struct http_server *server = request->server;
        struct MHD_Response *response;

        if (!strcmp(request->method, "HEAD")) { /* libmicrohttpd 0.9.75 would send a last chunk */
                request_header_text(request, "Content-Type", "text/event-stream", "");
                request_answer_empty(request, 200);
                return;
        }
        if (atomic_fetch_add(&server->n_streams, 1) >= EVENT_READERS_MAX) {
                atomic_fetch_sub(&server->n_streams, 1);
                request_problem(request, FERRY_E_LIMIT_REACHED, "%d clients read events, which is the limit",
                                EVENT_READERS_MAX);
                return;
        }
        struct event_stream *stream = new_stream(request, filter, place);
        response = stream ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, free_stream)
                          : NULL;
        if (!response) {
                atomic_fetch_sub(&server->n_streams, 1);
                if (stream)
                        credentials_unref(stream->credentials);
                free(stream);
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        metric_add(server->event_readers, 1);
        add(stream, retry, strlen(retry));
        add_own(stream, "hello", write_hello, &server->config);
        MHD_add_response_header(response, "Content-Type", "text/event-stream");
        MHD_add_response_header(response, "Cache-Control", "no-store");
        MHD_add_response_header(response, "X-Accel-Buffering", "no");
        request_answer(request, 200, response);
}

/* ---- a page ---- */

/* The state of a request that waits for events. Connection's thread; come may be set on any. */
struct event_wait {
        struct event_reader reader;
        struct wait_flag come;
        struct event_readers *readers;
};

static void event_wait_end(struct http_request *request)
{
        struct event_wait *wait = request->state;

        event_reader_leave(wait->readers, &wait->reader);
        wait_flag_destroy(&wait->come);
        free(wait);
}

static void on_come(struct event_reader *reader)
{
        wait_flag_set(&FERRY_CONTAINER_OF(reader, struct event_wait, reader)->come);
}

/* NULL: no memory. */
static struct event_wait *event_wait_new(struct http_request *request, const struct event_filter *filter,
                                         const struct event_place *place)
{
        struct event_wait *wait = calloc(1, sizeof(*wait));

        if (!wait)
                return NULL;
        wait_flag_init(&wait->come);
        wait->readers = request->connection->readers;
        wait->reader = (struct event_reader){ .wake = on_come,
                                              .n_reloads = connection_credentials(request->connection)->n_reloads,
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

static bool take_json(void *context, const struct event_text *event)
{
        struct answer *answer = context;

        ferry_json_put_text(&answer->writer, event->json, event->json_size);
        return --answer->left > 0;
}

/* Answers with the page from the place on. */
static void answer_events(struct http_request *request, const struct event_filter *filter, struct event_place place)
{
        struct event_log *log = request->server->config.events;
        struct answer answer = { .left = page_limit(request) };
        char next[EVENT_ID_SIZE];
        struct event_gap gap;

        page_begin(&answer.writer, "events");
        if (event_log_read(log, filter, &place, take_json, &answer, &gap) < 0)
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
        wait_flag_or_answer(request, &wait->come, wait_ms, answer_in_time);
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
