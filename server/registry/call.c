/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/metrics.h"
#include "base/util.h"
#include "registry_internal.h"

/*
 * Calls: a question to etcd, by its JSON gateway, which goes from endpoint to endpoint until one answers. A call may be
 * up to three requests in a row: a login where etcd demands one, a watch that waits for a change, and the question
 * itself. It is made by any thread, queued, and from then on that of libcurl's thread, which ends it by one call of
 * called().
 *
 * The endpoints are the operator's choice and are not checked against --allow-peer; their answers are bounded in size
 * and time, and parsed strictly. Lock: the registry's, a leaf, for the queue alone.
 */

enum { ANSWER_MAX = 64 * 1024 /* of a login, and of a watch, which is searched again with each piece that comes */ };

struct registry_call {
        struct registry_call *prev, *next; /* of registry->queued, then of registry->calls */
        struct registry *registry;
        struct registry_question question;

        enum { CALL_LOGIN, CALL_WATCH, CALL_QUESTION } stage; /* what the request is */
        struct easy easy;                                     /* of the current endpoint */
        struct curl_slist *headers;
        size_t endpoint;     /* the current one: concurrent calls may be at different ones */
        size_t n_failed;     /* endpoints */
        bool token_replaced; /* at most once */
};

/* Drops the request to the current endpoint and its answer, which may contain a token. */
static void call_clear(struct registry_call *call)
{
        easy_clear(&call->easy);
        ferry_headers_free(FERRY_STEAL(call->headers));
}

/* Ends a call that is in no list any more. */
static void finish(struct registry_call *call, int error, const char *detail, struct json_object *answer)
{
        const char *result = error ? ferry_error_code(error) : "ok";

        metric_add(metric_get(call->registry->calls_total, &result), 1);
        call->question.called(call->question.context, error, detail, answer);
        call_clear(call);
        free(call->question.body);
        free(call->question.watch);
        free(call);
}

/* ---- answers ---- */

struct json_object *registry_parse(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *root = NULL;

        if (ferry_json_parse(text, size, &root, &errors) == 0 && json_object_is_type(root, json_type_object))
                return root;
        (void)json_object_put(root);
        return NULL;
}

int64_t registry_number(struct json_object *object, const char *name)
{
        return json_object_get_int64(json_object_object_get(object, name));
}

/* The first line of a watch says that it has begun. What an event says does not matter: the question comes next. */
static bool watch_ends(const struct easy *easy)
{
        return strstr(easy->body.data, "\"events\"") || strstr(easy->body.data, "\"canceled\"");
}

/* Classifies the answer of one endpoint: 0 with *ret_answer for json_object_put, or FERRY_E_* with a sentence. */
static int classify(const struct registry_call *call, CURLcode result, struct json_object **ret_answer,
                    char detail[EASY_DETAIL_SIZE])
{
        struct json_object *answer;
        const char *message;
        long status = 0;

        if (result != CURLE_OK) {
                (void)snprintf(detail, EASY_DETAIL_SIZE, "%s",
                               call->easy.too_large                 ? "its answer is too large"
                               : result == CURLE_OPERATION_TIMEDOUT ? "no answer in time"
                                                                    : curl_easy_strerror(result));
                return FERRY_E_PEER_UNREACHABLE;
        }
        (void)curl_easy_getinfo(call->easy.curl, CURLINFO_RESPONSE_CODE, &status);
        answer = registry_parse(call->easy.body.data ?: "", call->easy.body.size);
        if (status == 200 && answer) {
                *ret_answer = answer;
                return 0;
        }
        message = json_object_get_string(json_object_object_get(answer, "message"));
        if (status == 200)
                (void)snprintf(detail, EASY_DETAIL_SIZE, "its answer is not one of etcd's JSON gateway");
        else
                (void)snprintf(detail, EASY_DETAIL_SIZE, "it answers HTTP %ld%s%.160s", status, message ? ", " : "",
                               message ?: "");
        for (char *c = detail; *c; c++)
                if (*c < ' ' || *c >= 0x7f)
                        *c = '?';
        (void)json_object_put(answer);
        return status == 401 || status == 403 ? FERRY_E_PEER_REFUSED : FERRY_E_PEER_UNREACHABLE;
}

/* Takes a token that can be sent as the value of a header. */
static bool token_take(struct registry *registry, struct json_object *answer)
{
        const char *token = ferry_json_get_text(answer, "token", sizeof(registry->token));

        (void)text_copy(registry->token, sizeof(registry->token), token);
        return token;
}

/* ---- asking ---- */

static void on_done(struct easy *easy, CURLcode result);

/* The login has no token yet. */
static bool add_headers(struct registry_call *call)
{
        return ferry_header_add(&call->headers, "Content-Type: application/json") &&
               (call->stage == CALL_LOGIN || !call->registry->credentials ||
                ferry_header_add(&call->headers, "Authorization: %s", call->registry->token));
}

/* Sends the next request to the current endpoint. false: memory is short. */
static bool call_send(struct registry_call *call)
{
        struct registry *registry = call->registry;
        const struct registry_question *question = &call->question;
        const struct {
                const char *path, *body;
                long ms;
                size_t answer_max;
        } requests[] = {
                [CALL_LOGIN] = { "/v3/auth/authenticate", registry->credentials, registry->call_ms, ANSWER_MAX },
                [CALL_WATCH] = { "/v3/watch", question->watch, (long)question->watch_ms, ANSWER_MAX },
                [CALL_QUESTION] = { question->path, question->body, registry->call_ms, question->answer_max },
        }, *request;
        char url[REGISTRY_ENDPOINT_SIZE + 32], detail[EASY_DETAIL_SIZE];

        call_clear(call);
        call->stage = registry->credentials && !*registry->token ? CALL_LOGIN
                      : question->watch                          ? CALL_WATCH
                                                                 : CALL_QUESTION;
        request = &requests[call->stage];
        (void)snprintf(url, sizeof(url), "%s%s", registry->endpoints[call->endpoint], request->path);
        if (easy_locate(&call->easy, &registry->settings, url, detail, sizeof(detail)) != 0)
                return false;
        call->easy.trusted = true; /* the worker's operator chose this endpoint */
        call->easy.done = on_done;
        call->easy.enough = call->stage == CALL_WATCH ? watch_ends : NULL;
        return add_headers(call) && easy_prepare(&call->easy) && easy_collect(&call->easy, request->answer_max) &&
               curl_easy_setopt(call->easy.curl, CURLOPT_TIMEOUT_MS, request->ms) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_POSTFIELDS, request->body) == CURLE_OK &&
               easy_start(&registry->thread->multi, &call->easy);
}

/* Chooses the request after one that has ended. false: the call is over, with the error. */
static bool goes_on(struct registry_call *call, int error)
{
        struct registry *registry = call->registry;

        if (call->stage == CALL_WATCH) {
                free(FERRY_STEAL(call->question.watch)); /* whatever has ended it */
                return true;
        }
        if (!error) {
                registry->endpoint = call->endpoint;
                return call->stage == CALL_LOGIN;
        }
        if (error == FERRY_E_PEER_REFUSED && call->stage == CALL_QUESTION && registry->credentials &&
            !call->token_replaced) {
                registry->token[0] = '\0'; /* etcd's tokens expire */
                return call->token_replaced = true;
        }
        call->endpoint = (call->endpoint + 1) % registry->n_endpoints;
        return ++call->n_failed < registry->n_endpoints;
}

/* The handle is in no multi handle any more. Thread: libcurl's. */
static void on_done(struct easy *easy, CURLcode result)
{
        struct registry_call *call = FERRY_CONTAINER_OF(easy, struct registry_call, easy);
        struct registry *registry = call->registry;
        struct json_object *answer = NULL;
        char detail[EASY_DETAIL_SIZE] = "";
        int error = classify(call, result, &answer, detail);

        if (!error && call->stage == CALL_LOGIN && !token_take(registry, answer)) {
                error = FERRY_E_PEER_UNREACHABLE;
                (void)snprintf(detail, sizeof(detail), "its answer to the name and password is not one of etcd's");
        }
        if (!goes_on(call, error)) {
                DL_DELETE(registry->calls, call);
                finish(call, error, detail, answer);
        } else if (!call_send(call)) {
                DL_DELETE(registry->calls, call);
                finish(call, FERRY_E_PEER_UNREACHABLE, "memory is short", NULL);
        }
        (void)json_object_put(answer);
}

int registry_ask(struct registry *registry, const struct registry_question *question)
{
        struct registry_call *call = question->body ? calloc(1, sizeof(*call)) : NULL;
        int r = call ? easy_thread_start(registry->thread) : -ENOMEM;

        if (r == 0) {
                call->registry = registry;
                call->question = *question;
                pthread_mutex_lock(&registry->lock);
                if (registry->phase == REGISTRY_STOPPED)
                        r = FERRY_E_CANCELLED;
                else
                        DL_APPEND(registry->queued, call);
                pthread_mutex_unlock(&registry->lock);
        }
        if (r == 0) {
                easy_thread_wake(registry->thread);
                return 0;
        }
        free(question->body);
        free(question->watch);
        free(call);
        return r;
}

void registry_calls_run(struct registry *registry, bool stop)
{
        static const char stopping[] = "the worker is shutting down";
        struct registry_call *queued, *call, *next;

        pthread_mutex_lock(&registry->lock);
        queued = FERRY_STEAL(registry->queued);
        pthread_mutex_unlock(&registry->lock);
        DL_FOREACH_SAFE (queued, call, next) {
                DL_DELETE(queued, call);
                call->endpoint = registry->endpoint;
                if (stop)
                        finish(call, FERRY_E_CANCELLED, stopping, NULL);
                else if (call_send(call))
                        DL_APPEND(registry->calls, call);
                else
                        finish(call, FERRY_E_PEER_UNREACHABLE, "memory is short", NULL);
        }
        if (!stop)
                return;
        DL_FOREACH_SAFE (registry->calls, call, next) {
                DL_DELETE(registry->calls, call);
                easy_stop(&call->easy);
                finish(call, FERRY_E_CANCELLED, stopping, NULL);
        }
}
