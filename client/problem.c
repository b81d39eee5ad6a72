/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * Requests and what came of them. A request is checked here before anything is sent; the reply to it is kept; and
 * problem_classify() makes the caller's result of it: 0, FERRY_E_* of a worker's problem document, or -errno where
 * there was no worker's answer, with f->problem and the sentence of ferry_last_message(). Pure but for the handle.
 *
 * Thread: the one that uses the handle.
 */

/* ---- requests ---- */

/*
 * Whether a text has no control character, which could end the line or begin another one, nor any character below
 * least.
 */
static bool request_text_is_safe(const char *text, unsigned char least)
{
        for (; text && *text; text++) {
                if ((unsigned char)*text < least || *text == 0x7f)
                        return false;
        }
        return true;
}

const char *request_check(const struct ferry_exchange *e)
{
        if (!e->method || !*e->method || strspn(e->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(e->method))
                return "the method is not valid";
        if (!e->path || *e->path != '/' || !request_text_is_safe(e->path, '!') || strchr(e->path, '#'))
                return "the path is not valid";
        if (!request_text_is_safe(e->content_type, ' ') || !request_text_is_safe(e->idempotency_key, ' '))
                return "a header is not valid";
        for (const char *const *line = e->headers; line && *line; line++) {
                if (!strchr(*line, ':') || !request_text_is_safe(*line, ' '))
                        return "a header is not valid";
        }
        if (e->body && e->source)
                return "body and source exclude each other";
        if (e->source && e->source_size != FERRY_SIZE_UNKNOWN && e->source_size > INT64_MAX)
                return "the size is not valid";
        return NULL;
}

void request_set_body(struct request *request, const char *body)
{
        request->exchange.content_type = "application/json";
        request->exchange.body = body;
        request->exchange.size = strlen(body);
}

/* ---- replies ---- */

/* clang-format off */
#define HEADER(name, field) { name, sizeof(name) - 1, offsetof(struct reply, field), sizeof(((struct reply *)0)->field) }
/* clang-format on */

static const struct {
        const char *name;
        size_t name_size, offset, size;
} reply_headers[] = {
        HEADER("content-type", content_type),
        HEADER("etag", etag),
        HEADER("location", location),
        HEADER("request-id", request_id),
        HEADER("content-range", content_range),
        HEADER("retry-after", retry_after),
        HEADER("content-digest", content_digest),
#undef HEADER
};

void reply_forget_head(struct reply *reply)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(reply_headers); i++)
                *((char *)reply + reply_headers[i].offset) = '\0';
}

void reply_take_header(struct reply *reply, const char *line, size_t size)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(reply_headers); i++) {
                size_t n = reply_headers[i].name_size;
                if (size <= n || line[n] != ':' || strncasecmp(line, reply_headers[i].name, n) != 0)
                        continue;
                for (n++; n < size && (line[n] == ' ' || line[n] == '\t'); n++)
                        ;
                while (size > n && strchr(" \t\r\n", line[size - 1]))
                        size--;
                size_t room = reply_headers[i].size - 1, length = size - n < room ? size - n : room;
                *((char *)mempcpy((char *)reply + reply_headers[i].offset, line + n, length)) = '\0';
                return;
        }
}

void reply_clear(struct reply *reply)
{
        ferry_buffer_clear(&reply->body, reply->secret);
        *reply = (struct reply){ 0 };
}

void reply_restart(struct reply *reply)
{
        struct reply kept = { .secret = reply->secret, .gateway_ms = reply->gateway_ms, .lost = reply->lost };
        reply_clear(reply);
        *reply = kept;
}

/* ---- what came of a call ---- */

#define PROBLEM_TYPE "application/problem+json"

void problem_clear(struct ferry *f)
{
        free(f->problem.body);
        f->problem = (struct ferry_problem){ 0 };
        f->message[0] = '\0';
}

int problem_argument(struct ferry *f, const char *why)
{
        problem_clear(f);
        snprintf(f->problem.detail, sizeof(f->problem.detail), "%s", why);
        snprintf(f->message, sizeof(f->message), "%s", why);
        return -EINVAL;
}

int problem_reserved(struct ferry *f, const void *reserved, size_t size)
{
        if (!reserved) {
                if (f)
                        (void)problem_argument(f, "an argument is missing");
                return -EINVAL;
        }
        for (size_t i = 0; i < size; i++) {
                if (!((const char *)reserved)[i])
                        continue;
                if (f)
                        (void)problem_argument(f, "an argument has a field of a later version of libferry");
                return -ENOTSUP;
        }
        return 0;
}

int problem_forked(struct ferry *f)
{
        (void)problem_argument(f, "the handle belongs to the process that forked this one; make one here");
        return -ECHILD;
}

int problem_late(struct ferry *f)
{
        (void)problem_argument(f, "not done within the time limit");
        return -ETIMEDOUT;
}

int problem_protocol(struct ferry *f, const char *why, const char *what)
{
        struct ferry_problem *p = &f->problem;
        snprintf(p->detail, sizeof(p->detail), "%s%s%s", why, *what ? ": " : "", what);
        if (p->http_status)
                snprintf(f->message, sizeof(f->message), "not the answer of a worker (HTTP status %d): %s",
                         p->http_status, p->detail);
        else
                snprintf(f->message, sizeof(f->message), "not the answer of a worker: %s", p->detail);
        return -EPROTO;
}

bool problem_is_gateway(const struct reply *reply)
{
        return (reply->status == 502 || reply->status == 503 || reply->status == 504) &&
               strncasecmp(reply->content_type, PROBLEM_TYPE, strlen(PROBLEM_TYPE)) != 0;
}

/* Takes the pointer of the first of the problem's "errors", where it has any. */
static void problem_take_pointer(struct ferry_problem *p, struct json_object *list)
{
        static const struct ferry_json_field fields[] = {
                FERRY_JSON_FIELD("pointer", PROSE, false, struct ferry_problem, pointer),
        };
        struct ferry_json_errors errors = { .lenient = true };
        if (list && json_object_array_length(list) > 0)
                (void)DECODE(json_object_array_get_idx(list, 0), fields, p, &errors);
}

int problem_decode(struct json_object *json, void *problem, struct ferry_json_errors *errors)
{
        struct problem_answer {
                struct ferry_problem p;
                struct json_object *errors;
        } answer = { .p = *(struct ferry_problem *)problem };
        static const struct ferry_json_field fields[] = {
                FERRY_JSON_FIELD("code", TEXT, true, struct problem_answer, p.code),
                FERRY_JSON_FIELD("title", PROSE, false, struct problem_answer, p.title),
                FERRY_JSON_FIELD("detail", PROSE, false, struct problem_answer, p.detail),
                FERRY_JSON_FIELD("retryable", BOOL, false, struct problem_answer, p.retryable),
                FERRY_JSON_FIELD("errors", ARRAY, false, struct problem_answer, errors),
        };
        int r = DECODE(json, fields, &answer, errors);
        if (r < 0)
                return r;
        problem_take_pointer(&answer.p, answer.errors);
        int error = ferry_error_from_code(answer.p.code, answer.p.http_status);
        answer.p.error = error > 0 ? error : FERRY_E_OTHER;
        *(struct ferry_problem *)problem = answer.p;
        return 0;
}

/* Fills the problem from the body. Returns false when the body is no problem document. */
static bool problem_take(struct ferry_problem *p, const struct reply *reply)
{
        struct ferry_json_errors errors = { .lenient = true };
        struct json_object *json = NULL;
        if (strncasecmp(reply->content_type, PROBLEM_TYPE, strlen(PROBLEM_TYPE)) != 0 || !reply->body.data)
                return false;
        if (ferry_json_parse(reply->body.data, reply->body.size, &json, &errors) != 0)
                return false;
        bool ok = problem_decode(json, p, &errors) == 0;
        json_object_put(json);
        return ok;
}

/* The sentence about a worker's problem. Returns its FERRY_E_*. */
static int problem_worker(struct ferry *f)
{
        struct ferry_problem *p = &f->problem;
        size_t length = strlen(p->pointer);
        bool named = length == 0 || strncmp(p->detail, p->pointer, length) == 0; /* as workers do */
        snprintf(f->message, sizeof(f->message), "%d %s: %s%s%s%s", p->http_status, p->code,
                 p->detail[0] ? p->detail : p->title, named ? "" : " (at ", named ? "" : p->pointer, named ? "" : ")");
        return p->error;
}

/* The answer to a HEAD is a problem without its body, which alone has the code. */
static int problem_bodiless(struct ferry *f)
{
        f->problem.error = FERRY_E_OTHER;
        snprintf(f->message, sizeof(f->message), "HTTP status %d", f->problem.http_status);
        return FERRY_E_OTHER;
}

/* There was no answer: the sentence has the error's text and libcurl's reason. Returns the result. */
static int problem_transport(struct ferry *f, const struct reply *reply, int result)
{
        snprintf(f->problem.detail, sizeof(f->problem.detail), "%s", reply->fault);
        snprintf(f->message, sizeof(f->message), "%s%s%s", strerror(-result), reply->fault[0] ? ": " : "",
                 reply->fault);
        return result;
}

/* A proxy in front of the worker answers for itself, mostly in HTML. 0: this one is no such answer. */
static int problem_proxy(struct ferry *f)
{
        static const struct {
                int status, result;
                const char *means;
        } proxies[] = {
                { 413, FERRY_E_TOO_LARGE, "takes no body of that size (nginx: client_max_body_size)" },
                { 502, -EHOSTUNREACH, "does not reach it" },
                { 503, -EHOSTUNREACH, "does not reach it" },
                { 504, -ETIMEDOUT, "had no answer of it in time (nginx: proxy_read_timeout)" },
        };
        struct ferry_problem *p = &f->problem;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(proxies); i++) {
                if (proxies[i].status != p->http_status)
                        continue;
                snprintf(p->detail, sizeof(p->detail), "a proxy in front of the worker %s", proxies[i].means);
                snprintf(f->message, sizeof(f->message), "HTTP status %d: %s", p->http_status, p->detail);
                if (proxies[i].result > 0)
                        p->error = proxies[i].result;
                return proxies[i].result;
        }
        return 0;
}

int problem_classify(struct ferry *f, const struct request *request, const struct reply *reply, int result)
{
        struct ferry_problem *p = &f->problem;
        problem_clear(f);
        p->http_status = reply->status;
        _Static_assert(sizeof(p->request_id) == sizeof(reply->request_id), "copied as a whole");
        memcpy(p->request_id, reply->request_id, sizeof(p->request_id));
        if (result < 0)
                return problem_transport(f, reply, result);
        if (reply->status / 100 == 2 || reply->status == 304)
                return 0;
        if (reply->status / 100 == 3)
                return problem_protocol(f, "it leads to another URL", reply->location);
        p->retry_after_ms = reply->retry_after_ms;
        if (reply->body.data) {
                p->body = malloc(reply->body.size + 1);
                if (!p->body)
                        return -ENOMEM;
                memcpy(p->body, reply->body.data, reply->body.size + 1);
                p->body_size = reply->body.size;
        }
        if (problem_take(p, reply))
                return problem_worker(f);
        if (strcmp(request->exchange.method, "HEAD") == 0 &&
            strncasecmp(reply->content_type, PROBLEM_TYPE, strlen(PROBLEM_TYPE)) == 0)
                return problem_bodiless(f);
        result = problem_proxy(f);
        return result != 0 ? result : problem_protocol(f, "no problem document came", reply->content_type);
}
