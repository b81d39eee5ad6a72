/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/util.h"
#include "event_log_internal.h"

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
