/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "client_internal.h"

enum { EVENTS_PAGE = 1000 };

/* The caller takes the document as it is: types of events may be added. */
static int page_decode(struct json_object *json, void *nothing, const char **ret_field)
{
        return 0;
}

int ferry_list_events(struct ferry *f, const char *after, const char *label, unsigned wait_ms, char **ret_json)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/events");
        path_query_number(&path, "limit", EVENTS_PAGE);
        path_query(&path, "after", after);
        path_query(&path, "label", label);
        path_query_number(&path, "wait_ms", wait_ms);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "after or label is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data, .wait_ms = wait_ms } };
        return call_decode(f, &request, page_decode, NULL, ret_json);
}
