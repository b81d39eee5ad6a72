/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_ANSWERS_H
#define CLIENT_ANSWERS_H

#include "client_fixture.h"

/* Answers of scripted servers, and what is looked at in requests. */

#define OK(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" body
#define OK_EMPTY OK("Content-Length: 2\r\n\r\n{}")
#define NO_CONTENT "HTTP/1.1 204 No Content\r\nRequest-Id: req-7\r\n\r\n"
#define REGION "{\"id\":\"rgn_1\",\"size\":4096,\"device\":\"cpu\"}"
#define CREATED_REGION "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n" REGION
#define PROBLEM(status, code, extra)                                                                                   \
        "HTTP/1.1 " status " No\r\nContent-Type: application/problem+json\r\nRequest-Id: req-9\r\n" extra              \
        "Connection: close\r\n\r\n{\"type\":\"about:blank\",\"title\":\"A title\",\"status\":" status ","              \
        "\"detail\":\"Some detail\",\"code\":\"" code "\",\"retryable\":true,"                                         \
        "\"errors\":[{\"pointer\":\"/descriptors/0/size\",\"detail\":\"must not be 0\"}]}"

#define START(x, ...) START_WITH(x, &(struct ferry_options){ .timeout_ms = 20000 }, __VA_ARGS__)

/* The value of a header of a request, in a static buffer; "" = none. */
static inline const char *header_of(const char *request, const char *name)
{
        static char value[256];
        const char *start = text_format("\r\n%s: ", name);
        const char *line = strcasestr(request, start);
        snprintf(value, sizeof(value), "%.*s", line ? (int)strcspn(line + strlen(start), "\r") : 0,
                 line ? line + strlen(start) : "");
        return value;
}

static inline void assert_starts(const char *text, const char *start)
{
        if (strncmp(text, start, strlen(start)) != 0)
                fail_msg("\"%s\" does not start with \"%s\"", text, start);
}

#endif
