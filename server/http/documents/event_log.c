/* SPDX-License-Identifier: Apache-2.0 */
#include "documents_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/encoding.h>
#include <ferry/json.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"
#include "documents/documents.h"

/*
 * The log of events: a ring of the last ones, numbered from 1. The text of an operation's event is made when a reader
 * first needs it, that of others when it is published. A reader has a place, the number of the event that it reads
 * next; a gap is what lies between that and the oldest event kept.
 *
 * Thread: any. Lock: the log's, under which listeners are told and readers take; event_log.h has the order.
 */

/* ---- types ---- */

static const struct {
        const char *name, *family;
} types[] = {
#define X(name, family, verb) [EVENT_##name] = { family "." verb, family },
        EVENT_TYPES(X)
#undef X
};

const char *event_type_name(int type)
{
        return type >= 0 && type < EVENT_TYPE_COUNT ? types[type].name : NULL;
}

static bool is_word(const char *text, size_t length, const char *word)
{
        return strlen(word) == length && !memcmp(text, word, length);
}

unsigned event_types_from_text(const char *text)
{
        unsigned all = 0;

        for (;;) {
                size_t length = strcspn(text, ",");
                unsigned some = 0;

                for (size_t i = 0; i < EVENT_TYPE_COUNT; i++)
                        if (is_word(text, length, types[i].name) || is_word(text, length, types[i].family))
                                some |= 1u << i;
                if (!some)
                        return 0;
                all |= some;
                if (!text[length])
                        return all;
                text += length + 1;
        }
}

/* ---- text ---- */

/* "EPOCH-NUMBER". */
static void event_id_format(uint64_t epoch, uint64_t number, char text[EVENT_ID_SIZE])
{
        ferry_id_format("", epoch, text);
        char *end = stpcpy(text + strlen(text), "-");
        (void)ferry_uint_format(number, end);
}

int event_text_make(const char *id, const char *type, uint64_t unix_ms, const char *family,
                    void (*write)(struct ferry_json_writer *writer, const void *object), const void *object,
                    struct event_text *ret_text)
{
        struct ferry_json_writer writer = { 0 };
        size_t size;
        char *text;
        int n;

        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "id", id);
        ferry_json_add_string(&writer, "type", type);
        document_add_time(&writer, "time", unix_ms);
        if (family)
                ferry_json_key(&writer, family);
        write(&writer, object);
        ferry_json_end_object(&writer);
        FERRY_CLEANUP(cleanup_free) char *json = ferry_json_take(&writer, &size);
        if (!json || (n = asprintf(&text, "id: %s\nevent: %s\ndata: %s\n\n", id, type, json)) < 0)
                return -ENOMEM;
        *ret_text = (struct event_text){ text, (size_t)n, text + n - strlen("\n\n") - size, size };
        return 0;
}

/* Makes the text of an event of the log. */
static int make(struct event_log *log, struct event *event, uint64_t number,
                void (*write)(struct ferry_json_writer *writer, const void *object), const void *object)
{
        char id[EVENT_ID_SIZE];

        event_id_format(log->epoch, number, id);
        return event_text_make(id, types[event->type].name, event->unix_ms, types[event->type].family, write, object,
                               &event->text);
}

static void write_operation(struct ferry_json_writer *writer, const void *object)
{
        operation_json_write(writer, object);
}

/* ---- life ---- */

int event_log_new(const struct event_log_config *config, struct event_log **ret_log)
{
        static const char *const label[] = { "type" }, *const limit[] = { "limit" };
        struct event_log *log = calloc(1, sizeof(*log));
        struct metric_family *published;

        if (!log)
                return -ENOMEM;
        atomic_init(&log->refs, 1);
        log->epoch = config->epoch;
        log->kept = config->kept ? config->kept : EVENTS_KEPT;
        log->events = calloc(log->kept + 1, sizeof(*log->events));
        if (!log->events) {
                free(log);
                return -ENOMEM;
        }
        (void)pthread_mutex_init(&log->lock, NULL);
        published = metrics_family(config->metrics, METRIC_COUNTER, "ferry_events_total",
                                   "Events of GET /v1/events, by type.", 1, label, NULL, 0);
        for (int type = 0; type < EVENT_TYPE_COUNT; type++)
                log->published[type] = metric_get(published, (const char *const[]){ event_type_name(type) });
        log->near = metrics_family(config->metrics, METRIC_GAUGE, "ferry_limit_near",
                                   "1 while a limit is nearly used up: from 90 % in use until less than 80 % are.", 1,
                                   limit, NULL, 0);
        *ret_log = log;
        return 0;
}

/* A further reference, to be given back by event_log_free. */
static struct event_log *event_log_ref(struct event_log *log)
{
        atomic_fetch_add(&log->refs, 1);
        return log;
}

struct event_log *event_log_free(struct event_log *log)
{
        if (!log || atomic_fetch_sub(&log->refs, 1) != 1)
                return NULL;
        for (size_t i = 0; i <= log->kept; i++)
                free(log->events[i].text.text);
        free(log->events);
        (void)pthread_mutex_destroy(&log->lock);
        free(log);
        return NULL;
}

void event_log_listen(struct event_log *log, struct event_listener *listener)
{
        (void)pthread_mutex_lock(&log->lock);
        DL_APPEND(log->listeners, listener);
        (void)pthread_mutex_unlock(&log->lock);
}

void event_log_unlisten(struct event_log *log, struct event_listener *listener)
{
        (void)pthread_mutex_lock(&log->lock);
        if (listener->prev)
                DL_DELETE(log->listeners, listener);
        listener->prev = NULL;
        (void)pthread_mutex_unlock(&log->lock);
}

/* ---- writing ---- */

static struct event *event_at(const struct event_log *log, uint64_t number)
{
        return &log->events[number % (log->kept + 1)];
}

struct event *event_log_next(struct event_log *log, enum event_type type)
{
        struct event *event = event_at(log, log->newest + 1);

        free(FERRY_STEAL(event->text.text));
        event->type = type;
        event->unix_ms = clock_unix_ms();
        event->label[0] = event->request_id[0] = '\0';
        return event;
}

void event_log_publish(struct event_log *log, const struct event *event)
{
        struct event_listener *listener;

        log->newest++;
        metric_add(log->published[event->type], 1);
        DL_FOREACH (log->listeners, listener)
                listener->told(listener->context);
}

void event_log_publish_object(struct event_log *log, enum event_type type,
                              void (*write)(struct ferry_json_writer *writer, const void *object), const void *object)
{
        struct event *event = event_log_next(log, type);

        if (!make(log, event, log->newest + 1, write, object))
                event_log_publish(log, event);
}

/* ---- places ---- */

/* The number of the oldest event kept. Under the lock. */
static uint64_t oldest(const struct event_log *log)
{
        return log->newest > log->kept ? log->newest - log->kept + 1 : 1;
}

void event_place_format(const struct event_log *log, const struct event_place *place, char text[EVENT_ID_SIZE])
{
        event_id_format(log->epoch, place->next - 1, text);
}

bool event_place_parse(struct event_log *log, const char *text, struct event_place *ret_place)
{
        const char *dash = strchr(text, '-');
        uint64_t epoch = log->epoch, number = 0;
        char first[FERRY_ID_TEXT_SIZE];

        if (dash) {
                if ((size_t)(dash - text) >= sizeof(first))
                        return false;
                memcpy(first, text, (size_t)(dash - text));
                first[dash - text] = '\0';
                if (!ferry_id_parse("", first, &epoch))
                        return false;
                text = dash + 1;
        }
        if (!ferry_uint_parse(text, FERRY_JSON_INTEGER_MAX, &number))
                return false;
        (void)pthread_mutex_lock(&log->lock);
        bool known = epoch == log->epoch && number <= log->newest;
        *ret_place = (struct event_place){ .next = known ? number + 1 : 1, .restarted = !known };
        (void)pthread_mutex_unlock(&log->lock);
        return true;
}

struct event_place event_place_oldest(struct event_log *log)
{
        (void)pthread_mutex_lock(&log->lock);
        struct event_place place = { .next = oldest(log) };
        (void)pthread_mutex_unlock(&log->lock);
        return place;
}

struct event_place event_place_newest(struct event_log *log)
{
        (void)pthread_mutex_lock(&log->lock);
        struct event_place place = { .next = log->newest + 1 };
        (void)pthread_mutex_unlock(&log->lock);
        return place;
}

/* ---- reading ---- */

/* Whether an event passes the filter of a reader. */
static bool passes(const struct event *event, const struct event_filter *filter)
{
        bool of_operation = event->type <= EVENT_OPERATION_ENDED;

        if (!(filter->types & (1u << event->type)))
                return false;
        if (filter->kind >= 0 && (!of_operation || (int)event->view.kind != filter->kind))
                return false;
        return !filter->label || (of_operation && !strcmp(event->label, filter->label));
}

bool event_log_has(struct event_log *log, const struct event_filter *filter, struct event_place *place)
{
        (void)pthread_mutex_lock(&log->lock);
        bool has = place->restarted || place->next < oldest(log);
        while (!has && place->next <= log->newest) {
                has = passes(event_at(log, place->next), filter);
                place->next += !has;
        }
        (void)pthread_mutex_unlock(&log->lock);
        return has;
}

int event_log_read(struct event_log *log, const struct event_filter *filter, struct event_place *place,
                   bool (*take)(void *context, const struct event_text *event), void *context,
                   struct event_gap *ret_gap)
{
        bool more = true;
        int r = 0;

        (void)pthread_mutex_lock(&log->lock);
        *ret_gap = (struct event_gap){ .restarted = place->restarted };
        if (place->next < oldest(log)) {
                ret_gap->missed = oldest(log) - place->next;
                place->next = oldest(log);
        }
        place->restarted = false;
        for (; more && place->next <= log->newest; place->next++) {
                struct event *event = event_at(log, place->next);

                if (!passes(event, filter))
                        continue;
                r = event->text.text ? 0 : make(log, event, place->next, write_operation, &event->view);
                if (r < 0)
                        break;
                more = take(context, &event->text);
        }
        (void)pthread_mutex_unlock(&log->lock);
        return r;
}

/* ---- a program that reads the events ---- */

/* A reader of the events that is the program itself. One thread at a time. */
struct event_watch {
        struct event_log *log; /* a reference */
        struct event_listener listener;
        struct event_place place;
        struct event_gap gap; /* not told yet */
};

int event_watch_new(struct event_log *log, const char *after, void (*told)(void *context), void *context,
                    struct event_watch **ret_watch)
{
        struct event_watch *watch = calloc(1, sizeof(*watch));

        if (!watch)
                return -ENOMEM;
        if (!after) {
                watch->place = event_place_newest(log);
        } else if (!event_place_parse(log, after, &watch->place)) {
                free(watch);
                return -EINVAL;
        }
        watch->log = event_log_ref(log);
        watch->listener = (struct event_listener){ .told = told, .context = context };
        event_log_listen(log, &watch->listener);
        *ret_watch = watch;
        return 0;
}

struct event_watch *event_watch_free(struct event_watch *watch)
{
        if (!watch)
                return NULL;
        event_log_unlisten(watch->log, &watch->listener);
        (void)event_log_free(watch->log);
        free(watch);
        return NULL;
}

/* Copies an event, and reads no further. */
static bool take(void *context, const struct event_text *event)
{
        char **json = context;

        *json = strndup(event->json, event->json_size);
        return false;
}

/* 1 with a gap's text; 0; -ENOMEM. */
static int take_gap(struct event_watch *watch, char **ret_json)
{
        int r;

        if (watch->gap.restarted)
                r = asprintf(ret_json, "{\"type\":\"restarted\"}");
        else if (watch->gap.missed)
                r = asprintf(ret_json, "{\"type\":\"missed\",\"missed\":%" PRIu64 "}", watch->gap.missed);
        else
                return 0;
        if (r < 0)
                return -ENOMEM;
        if (watch->gap.restarted)
                watch->gap.restarted = false;
        else
                watch->gap.missed = 0;
        return 1;
}

int event_watch_take(struct event_watch *watch, char **ret_json)
{
        const struct event_filter all = { .types = (1u << EVENT_TYPE_COUNT) - 1, .kind = -1 };
        struct event_place before;
        struct event_gap gap;
        char *json = NULL;
        int r = take_gap(watch, ret_json);

        if (r)
                return r;
        before = watch->place;
        r = event_log_read(watch->log, &all, &watch->place, take, &json, &gap);
        if (r < 0)
                return r;
        if (gap.missed || gap.restarted) { /* which comes before the event */
                free(json);
                watch->gap = gap;
                watch->place = (struct event_place){ .next = before.next + gap.missed };
                return take_gap(watch, ret_json);
        }
        if (!json && watch->place.next != before.next) { /* there was one */
                watch->place = before;
                return -ENOMEM;
        }
        *ret_json = json;
        return json != NULL;
}
