/* SPDX-License-Identifier: Apache-2.0 */
#include "http/event_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"
#include "events.h"
#include "http/server.h"
#include "operation_json.h"
#include "peer_json.h"
#include "region_json.h"
#include "transfer/engine.h"

static const struct {
        const char *name, *family;
} types[] = {
#define X(name, family, verb) [EVENT_##name] = { family "." verb, family },
        EVENT_TYPES(X)
#undef X
};

/* One event. An operation's text is made when somebody reads it: mostly nobody does. */
struct event {
        enum event_type type;
        uint64_t unix_ms;
        char *text; /* owned; as a stream has it; NULL = not made yet */
        size_t size, json_at, json_size;
        struct operation_view view; /* of an operation; its texts are the two below */
        char label[OPERATION_LABEL_SIZE], request_id[OPERATION_REQUEST_SIZE];
};

struct level {
        const char *name;      /* in /v1/limits; NULL = not watched (yet) */
        uint64_t max;          /* fixed before anything is counted against it */
        _Atomic uint64_t turn; /* in use when the next event comes: at least so many, or when near, fewer */
        atomic_bool near;      /* written under the lock */
};

struct event_log {
        uint64_t epoch;
        size_t kept;
        struct metric *published[EVENT_TYPE_COUNT];
        struct level levels[EVENT_LIMIT_COUNT];
        pthread_mutex_t lock; /* guards all below */
        struct event *events; /* one more than kept, for the one that is being written */
        uint64_t newest;      /* number; 0 = none */
        void (*told)(void *context);
        void *told_context;
};

/* ---- words ---- */

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

/* ---- life ---- */

int event_log_new(const struct event_log_config *config, struct event_log **ret_log)
{
        static const char *const label[] = { "type" };
        struct event_log *log = calloc(1, sizeof(*log));
        struct metric_family *published;

        if (!log)
                return -ENOMEM;
        log->epoch = config->epoch;
        log->kept = config->kept ? config->kept : EVENTS_KEPT;
        log->events = calloc(log->kept + 1, sizeof(*log->events));
        if (!log->events) {
                free(log);
                return -ENOMEM;
        }
        (void)pthread_mutex_init(&log->lock, NULL);
        published = metrics_family(config->metrics, METRIC_COUNTER, "ferry_events_total",
                                   "What GET /v1/events had to tell, by type.", 1, label, NULL, 0);
        for (int type = 0; type < EVENT_TYPE_COUNT; type++)
                log->published[type] = metric_get(published, (const char *const[]){ types[type].name });
        *ret_log = log;
        return 0;
}

struct event_log *event_log_free(struct event_log *log)
{
        if (!log)
                return NULL;
        for (size_t i = 0; i <= log->kept; i++)
                free(log->events[i].text);
        free(log->events);
        (void)pthread_mutex_destroy(&log->lock);
        free(log);
        return NULL;
}

void event_log_listen(struct event_log *log, void (*told)(void *context), void *context)
{
        (void)pthread_mutex_lock(&log->lock);
        log->told = told;
        log->told_context = context;
        (void)pthread_mutex_unlock(&log->lock);
}

/* ---- writing ---- */

static void format_id(const struct event_log *log, uint64_t number, char text[EVENT_ID_SIZE])
{
        ferry_id_format("", log->epoch, text);
        char *end = stpcpy(text + strlen(text), "-");
        (void)ferry_uint_format(number, end);
}

/* Where its object goes. The text must be finished by finish_text. */
static void begin_text(const struct event_log *log, struct event *event, uint64_t number,
                       struct ferry_json_writer *writer)
{
        char id[EVENT_ID_SIZE], time[CLOCK_TEXT_SIZE];

        format_id(log, number, id);
        clock_format(event->unix_ms, time);
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "id", id);
        ferry_json_add_string(writer, "type", types[event->type].name);
        ferry_json_add_string(writer, "time", time);
        ferry_json_key(writer, types[event->type].family);
}

/* Puts the frame of a stream around the document. -ENOMEM: it has no text. */
static int finish_text(const struct event_log *log, struct event *event, uint64_t number,
                       struct ferry_json_writer *writer)
{
        static const char id_line[] = "id: ", type_line[] = "\nevent: ", data_line[] = "\ndata: ", end[] = "\n\n";
        char id[EVENT_ID_SIZE];
        size_t size;

        ferry_json_end_object(writer);
        FERRY_CLEANUP(cleanup_free) char *json = ferry_json_take(writer, &size);
        format_id(log, number, id);
        size_t head =
                strlen(id_line) + strlen(id) + strlen(type_line) + strlen(types[event->type].name) + strlen(data_line);
        char *text = json ? malloc(head + size + sizeof(end)) : NULL;
        if (!text)
                return -ENOMEM;
        stpcpy(stpcpy(stpcpy(stpcpy(stpcpy(text, id_line), id), type_line), types[event->type].name), data_line);
        memcpy(text + head, json, size);
        memcpy(text + head + size, end, sizeof(end));
        event->text = text;
        event->size = head + size + strlen(end);
        event->json_at = head;
        event->json_size = size;
        return 0;
}

static struct event *event_at(const struct event_log *log, uint64_t number)
{
        return &log->events[number % (log->kept + 1)];
}

/* Under the lock. The place of the next event, which is told of by publish. */
static struct event *take_place(struct event_log *log, enum event_type type)
{
        struct event *event = event_at(log, log->newest + 1);

        free(FERRY_STEAL(event->text));
        event->type = type;
        event->unix_ms = clock_unix_ms();
        event->label[0] = event->request_id[0] = '\0';
        return event;
}

static void publish(struct event_log *log, const struct event *event)
{
        log->newest++;
        metric_add(log->published[event->type], 1);
        if (log->told)
                log->told(log->told_context);
}

/* An event whose text write makes; object is what it tells of. Under the lock. Without memory it has not happened. */
static void publish_text(struct event_log *log, enum event_type type,
                         void (*write)(struct ferry_json_writer *writer, const void *object), const void *object)
{
        struct event *event = take_place(log, type);
        struct ferry_json_writer writer = { 0 };

        begin_text(log, event, log->newest + 1, &writer);
        write(&writer, object);
        if (!finish_text(log, event, log->newest + 1, &writer))
                publish(log, event);
}

/* The operation is looked at under the lock: what is told of it is never older than what was told before. */
void event_log_operation(void *context, struct operation_store *store, struct operation *operation,
                         enum operation_change change)
{
        static const enum event_type type_of[] = { [OPERATION_MADE] = EVENT_OPERATION_CREATED,
                                                   [OPERATION_CHANGED] = EVENT_OPERATION_CHANGED,
                                                   [OPERATION_ENDED] = EVENT_OPERATION_ENDED };
        struct event_log *log = context;

        (void)pthread_mutex_lock(&log->lock);
        struct event *event = take_place(log, type_of[change]);
        operation_look(store, operation, &event->view);
        if (change == OPERATION_ENDED || (!event->view.done && !event->view.deleted)) {
                stpcpy(event->label, event->view.label);
                stpcpy(event->request_id, event->view.request_id);
                event->view.label = event->label;
                event->view.request_id = event->request_id;
                event->view.brief = true;
                event->view.descriptors = NULL; /* the operation's */
                publish(log, event);
        }
        (void)pthread_mutex_unlock(&log->lock);
        if (change != OPERATION_CHANGED)
                event_log_used(log, EVENT_LIMIT_OPERATIONS, operation_store_live(store));
}

static void write_region(struct ferry_json_writer *writer, const void *object)
{
        region_json_write(writer, object);
}

void event_log_region(void *context, struct region_table *table, uint64_t id, struct region *gone,
                      enum region_change change)
{
        static const enum event_type type_of[] = { [REGION_LISTED] = EVENT_REGION_CREATED,
                                                   [REGION_CHANGED] = EVENT_REGION_CHANGED,
                                                   [REGION_GONE] = EVENT_REGION_DELETED };
        struct event_log *log = context;
        struct region *region = gone ? region_ref(gone) : region_find(table, id);
        uint64_t bytes;
        size_t n;

        (void)pthread_mutex_lock(&log->lock);
        if (region && (gone || !region_deleted(region)))
                publish_text(log, type_of[change], write_region, region);
        (void)pthread_mutex_unlock(&log->lock);
        region_unref(region);
        region_totals(table, &n, &bytes);
        event_log_used(log, EVENT_LIMIT_REGIONS, n);
        event_log_used(log, EVENT_LIMIT_MEMORY, bytes);
}

static void write_peer(struct ferry_json_writer *writer, const void *object)
{
        peer_json_write(writer, object);
}

void event_log_peer(void *context, const struct engine_peer_view *peer)
{
        struct event_log *log = context;

        (void)pthread_mutex_lock(&log->lock);
        publish_text(log, peer->state == ENGINE_PEER_CONNECTED ? EVENT_PEER_CONNECTED : EVENT_PEER_DISCONNECTED,
                     write_peer, peer);
        (void)pthread_mutex_unlock(&log->lock);
}

/* ---- limits ---- */

static uint64_t near_at(uint64_t max)
{
        return max - max / 10;
}

static uint64_t clear_below(uint64_t max)
{
        return max - max / 5;
}

void event_log_limits(struct event_log *log, const struct http_limits *limits,
                      const struct operation_limits *operations)
{
        const struct {
                const char *name;
                uint64_t max;
        } all[] = {
                [EVENT_LIMIT_CONNECTIONS] = { "connections_max", limits->connections_max },
                [EVENT_LIMIT_MEMORY] = { "memory_limit", limits->memory_limit },
                [EVENT_LIMIT_OPERATIONS] = { "operations_max", operations->operations_max },
                [EVENT_LIMIT_REGIONS] = { "regions_max", limits->regions_max },
                [EVENT_LIMIT_WAITERS] = { "waiters_max", limits->waiters_max },
        };

        _Static_assert(FERRY_ARRAY_SIZE(all) == EVENT_LIMIT_COUNT, "every limit has its maximum");
        (void)pthread_mutex_lock(&log->lock);
        for (size_t i = 0; i < EVENT_LIMIT_COUNT; i++) {
                log->levels[i].name = all[i].name;
                log->levels[i].max = all[i].max;
                atomic_store(&log->levels[i].turn, all[i].max ? near_at(all[i].max) : UINT64_MAX);
        }
        (void)pthread_mutex_unlock(&log->lock);
}

struct usage {
        const struct level *level;
        uint64_t used;
};

static void write_limit(struct ferry_json_writer *writer, const void *object)
{
        const struct usage *usage = object;

        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "name", usage->level->name);
        ferry_json_add_uint(writer, "used", usage->used);
        ferry_json_add_uint(writer, "max", usage->level->max);
        ferry_json_end_object(writer);
}

static bool turns(const struct level *level, uint64_t used)
{
        uint64_t turn = atomic_load(&level->turn);

        return turn && (atomic_load(&level->near) ? used < turn : used >= turn);
}

void event_log_used(struct event_log *log, enum event_limit limit, uint64_t used)
{
        struct level *level = &log->levels[limit];

        if (!turns(level, used)) /* almost always, and without the lock */
                return;
        (void)pthread_mutex_lock(&log->lock);
        if (turns(level, used)) {
                bool near = !atomic_load(&level->near);
                const struct usage usage = { level, used };

                atomic_store(&level->near, near);
                atomic_store(&level->turn, near ? clear_below(level->max) : near_at(level->max));
                publish_text(log, near ? EVENT_LIMIT_NEAR : EVENT_LIMIT_CLEARED, write_limit, &usage);
        }
        (void)pthread_mutex_unlock(&log->lock);
}

/* ---- places ---- */

/* Under the lock. */
static uint64_t oldest(const struct event_log *log)
{
        return log->newest > log->kept ? log->newest - log->kept + 1 : 1;
}

void event_place_format(const struct event_log *log, const struct event_place *place, char text[EVENT_ID_SIZE])
{
        format_id(log, place->next - 1, text);
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

static bool passes(const struct event *event, const struct event_filter *filter)
{
        bool of_operation = event->type <= EVENT_OPERATION_ENDED;

        if (!(filter->types & (1u << event->type)))
                return false;
        if (filter->kind >= 0 && (!of_operation || (int)event->view.kind != filter->kind))
                return false;
        return !filter->label || (of_operation && !strcmp(event->label, filter->label));
}

bool event_log_has(struct event_log *log, const struct event_filter *filter, const struct event_place *place)
{
        (void)pthread_mutex_lock(&log->lock);
        bool has = place->restarted || place->next < oldest(log);
        for (uint64_t number = place->next; !has && number <= log->newest; number++)
                has = passes(event_at(log, number), filter);
        (void)pthread_mutex_unlock(&log->lock);
        return has;
}

static int make_text(const struct event_log *log, struct event *event, uint64_t number)
{
        struct ferry_json_writer writer = { 0 };

        if (event->text)
                return 0;
        begin_text(log, event, number, &writer);
        operation_json_write(&writer, &event->view);
        return finish_text(log, event, number, &writer);
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
                r = make_text(log, event, place->next);
                if (r < 0)
                        break;
                more = take(context, &(struct event_text){ event->text, event->size, event->text + event->json_at,
                                                           event->json_size });
        }
        (void)pthread_mutex_unlock(&log->lock);
        return r;
}
