/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_STREAM_H
#define HTTP_EVENT_STREAM_H

#include "events.h"

struct http_request;

/*
 * Answers with a stream (text/event-stream) of the events from place on, which ends when the client leaves, or when the
 * token that allowed it is no longer the worker's.
 */
void event_stream_answer(struct http_request *request, const struct event_filter *filter,
                         const struct event_place *place);

#endif
