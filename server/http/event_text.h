/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_TEXT_H
#define HTTP_EVENT_TEXT_H

#include <ferry/json_write.h>

#include "events.h"

/* The types of events by name, and the text of an event. Under the log's lock. */

/*
 * One event. The text of an operation's event is made when a reader first needs it, which is rare; that of others when
 * the event is published.
 */
struct event {
        enum event_type type;
        uint64_t unix_ms;
        char *text; /* owned; as in a stream; NULL = not made yet */
        size_t size, json_at, json_size;
        struct operation_view view; /* of an operation; its texts are the two below */
        char label[OPERATION_LABEL_SIZE], request_id[OPERATION_REQUEST_SIZE];
};

/* "EPOCH-NUMBER". */
void event_id_format(uint64_t epoch, uint64_t number, char text[EVENT_ID_SIZE]);

/* Makes the text of an event: write adds the object that the event is about. 0 or -ENOMEM. */
int event_text_make(struct event *event, uint64_t epoch, uint64_t number,
                    void (*write)(struct ferry_json_writer *writer, const void *object), const void *object);

/* Makes the text of an operation's event from its view, if that was not done. 0 or -ENOMEM. */
int event_text_need(struct event *event, uint64_t epoch, uint64_t number);

#endif
