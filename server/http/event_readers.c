/* SPDX-License-Identifier: Apache-2.0 */
#include "event_readers.h"

#include "base/clock.h"
#include "http_internal.h"
#include "server_thread.h"

static uint64_t beat_interval_us(const struct http_thread *thread)
{
        uint64_t ms = thread->server->config.event_beat_ms;

        return (ms ? ms : EVENT_BEAT_MS) * 1000;
}

/* Whether there is something for the reader. */
static bool is_wanted(const struct http_thread *thread, const struct event_reader *reader)
{
        struct http_server *server = thread->server;

        return atomic_load(&server->events_stopped) || (reader->left && atomic_load(reader->left)) ||
               event_log_has(server->config.events, &reader->filter, &reader->place);
}

bool event_reader_idle(struct http_thread *thread, struct event_reader *reader)
{
        struct event_readers *readers = &thread->readers;

        /* Counted before it looks: an event that it does not see finds it counted. */
        atomic_fetch_add(&readers->n_idle, 1);
        if (is_wanted(thread, reader)) {
                atomic_fetch_sub(&readers->n_idle, 1);
                return false;
        }
        reader->listed = true;
        reader->previous = NULL;
        reader->next = readers->idle;
        if (reader->next)
                reader->next->previous = reader;
        readers->idle = reader;
        if (reader->beats && !readers->beat_us)
                readers->beat_us = clock_now_us() + beat_interval_us(thread);
        return true;
}

void event_reader_leave(struct http_thread *thread, struct event_reader *reader)
{
        if (!reader->listed)
                return;
        reader->listed = false;
        if (reader->previous)
                reader->previous->next = reader->next;
        else
                thread->readers.idle = reader->next;
        if (reader->next)
                reader->next->previous = reader->previous;
        atomic_fetch_sub(&thread->readers.n_idle, 1);
}

static void wake_those(struct http_thread *thread, bool news, bool beat, bool all)
{
        struct event_reader *next;

        for (struct event_reader *reader = thread->readers.idle; reader; reader = next) {
                next = reader->next;
                if (!all && !(beat && reader->beats) && !(news && is_wanted(thread, reader)))
                        continue;
                event_reader_leave(thread, reader);
                reader->wake(reader);
        }
}

void event_readers_run(struct http_thread *thread)
{
        struct event_readers *readers = &thread->readers;

        if (!readers->due && atomic_load(&readers->told)) {
                readers->due = true;
                readers->due_us = readers->round_us + EVENT_DELIVERY_US;
        }
        if (!readers->due && !readers->beat_us)
                return;
        uint64_t now = clock_now_us();
        bool news = readers->due && now >= readers->due_us, beat = readers->beat_us && now >= readers->beat_us;
        if (!news && !beat)
                return;
        if (news) {
                readers->due = false;
                readers->round_us = now;
                /* What comes from now on is told anew. Not a store: see run_queued of server_thread.c. */
                (void)atomic_exchange(&readers->told, false);
        }
        if (beat)
                readers->beat_us = atomic_load(&readers->n_idle) ? now + beat_interval_us(thread) : 0;
        wake_those(thread, news, beat, false);
}

void event_readers_end(struct http_thread *thread)
{
        wake_those(thread, false, false, true);
}

bool event_readers_called(const struct http_thread *thread)
{
        return !thread->readers.due && atomic_load(&thread->readers.told);
}

uint64_t event_readers_due(const struct http_thread *thread)
{
        const struct event_readers *readers = &thread->readers;

        if (readers->due && (!readers->beat_us || readers->due_us < readers->beat_us))
                return readers->due_us ? readers->due_us : 1;
        return readers->beat_us;
}

void event_readers_tell(struct http_thread *thread)
{
        if (!atomic_load(&thread->readers.n_idle) || atomic_exchange(&thread->readers.told, true))
                return;
        server_thread_wake(thread);
}

void event_readers_told(void *context)
{
        struct http_server *server = context;

        for (size_t i = 0; i < server->n_threads; i++)
                event_readers_tell(server->threads[i]);
}

void event_readers_stop(struct http_server *server)
{
        atomic_store(&server->events_stopped, true);
        event_readers_told(server);
}
