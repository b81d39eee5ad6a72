/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/buffer.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "base/metrics.h"
#include "base/util.h"
#include "registry_internal.h"

enum { LINE_MAX_SIZE = 64 * 1024, TOKEN_MAX = REGISTRY_TOKEN_SIZE };

static const char authenticate_path[] = "/v3/auth/authenticate";

struct registry_call {
        struct registry_call *prev, *next;
        struct registry *registry;
        struct registry_question question;
        registry_called called;
        void *context;

        struct easy easy; /* of the current endpoint */
        struct curl_slist *headers;
        size_t endpoint; /* the current one: concurrent calls may be at different ones */
        size_t n_tried;  /* endpoints that have failed */
        bool authenticating, authenticated_anew;
        struct ferry_buffer answer; /* of a stream: the incomplete line */
        bool no_memory, changed;
};

static void call_free(struct registry_call *call)
{
        easy_clear(&call->easy);
        easy_free_headers(FERRY_STEAL(call->headers));
        ferry_buffer_clear(&call->answer, true);
        free(call->question.body);
        free(call);
}

/* ---- incoming bytes ---- */

static bool keep(struct registry_call *call, const char *data, size_t size)
{
        call->no_memory |= ferry_buffer_append(&call->answer, data, size, SIZE_MAX - 1) < 0;
        return !call->no_memory;
}

/* A line that cannot be read ends the watch like a change: the caller asks for the current state anyway. */
static bool line_changes(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;
        bool changed = true;

        if (ferry_json_parse(text, size, NULL, &json, &errors) != 0 ||
            !etcd_read_watch(ferry_json_root(json), &changed))
                changed = true;
        (void)ferry_json_free(json);
        return changed;
}

static size_t on_stream(struct registry_call *call, const char *data, size_t size)
{
        size_t done = 0;

        while (done < size) {
                const char *end = memchr(data + done, '\n', size - done);
                size_t length = end ? (size_t)(end - data) - done : size - done;

                if (length > LINE_MAX_SIZE - call->answer.size)
                        call->changed = true; /* only a change takes so many bytes */
                else if (!keep(call, data + done, length))
                        return 0;
                else if (end && call->answer.size && line_changes(call->answer.data, call->answer.size))
                        call->changed = true;
                if (call->changed)
                        return 0;
                if (end)
                        call->answer.size = 0;
                done += length + (end ? 1 : 0);
        }
        return size;
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
        struct registry_call *call = context;

        (void)one;
        if (call->question.watch_ms && !call->authenticating)
                return on_stream(call, data, size);
        if (size > call->question.answer_max - call->answer.size) {
                call->easy.too_large = true;
                return 0;
        }
        return keep(call, data, size) ? size : 0;
}

/* ---- asking ---- */

static bool headers_make(struct registry_call *call)
{
        char line[TOKEN_MAX + 32];
        bool made;

        easy_free_headers(FERRY_STEAL(call->headers));
        made = easy_add_header(&call->headers, "Content-Type: application/json");
        if (made && *call->registry->token && !call->authenticating) {
                (void)snprintf(line, sizeof(line), "Authorization: %s", call->registry->token);
                made = easy_add_header(&call->headers, line);
                explicit_bzero(line, sizeof(line));
        }
        return made;
}

static void on_done(struct easy *easy, CURLcode result);

static bool prepare(struct registry_call *call, const char *path, const char *body)
{
        struct registry *registry = call->registry;
        FERRY_CLEANUP(cleanup_free) char *url = NULL;
        char detail[EASY_DETAIL_SIZE];
        long timeout_ms = registry->call_ms;

        easy_clear(&call->easy);
        if (call->question.watch_ms && !call->authenticating)
                timeout_ms = (long)call->question.watch_ms;
        if (asprintf(&url, "%s%s", registry->endpoints[call->endpoint], path) < 0) {
                url = NULL;
                return false;
        }
        if (easy_locate(&call->easy, &registry->settings, url, detail, sizeof(detail)) != 0)
                return false;
        call->easy.trusted = true; /* the worker's operator chose this endpoint */
        call->easy.done = on_done;
        return headers_make(call) && easy_prepare(&call->easy) &&
               curl_easy_setopt(call->easy.curl, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_POST, 1L) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_POSTFIELDS, body) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body)) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
               curl_easy_setopt(call->easy.curl, CURLOPT_WRITEDATA, call) == CURLE_OK &&
               easy_start(registry->multi, &call->easy);
}

/* Sends the question, or the credentials first, to the current endpoint. */
static bool send_question(struct registry_call *call)
{
        struct registry *registry = call->registry;

        call->authenticating = registry->credentials && !*registry->token;
        return call->authenticating ? prepare(call, authenticate_path, registry->credentials)
                                    : prepare(call, call->question.path, call->question.body);
}

static void finish(struct registry_call *call, int error, const char *detail, struct json_object *answer)
{
        struct registry *registry = call->registry;
        const char *result = error ? ferry_error_code(error) : "ok";

        DL_DELETE(registry->calls, call);
        metric_add(metric_get(registry->calls_total, &result), 1);
        call->called(call->context, error, detail, answer);
        call_free(call);
}

/* ---- results ---- */

/* Etcd's own message of a failure, made printable. */
static void say_status(long status, const char *text, size_t size, char detail[EASY_DETAIL_SIZE])
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *message = NULL;
        struct ferry_json *json = NULL;

        (void)snprintf(detail, EASY_DETAIL_SIZE, "it answers HTTP %ld", status);
        if (ferry_json_parse(text, size, NULL, &json, &errors) != 0)
                return;
        if (json_object_is_type(ferry_json_root(json), json_type_object) &&
            json_object_object_get_ex(ferry_json_root(json), "message", &message) &&
            json_object_is_type(message, json_type_string)) {
                (void)snprintf(detail, EASY_DETAIL_SIZE, "it answers HTTP %ld, %.160s", status,
                               json_object_get_string(message));
                for (char *c = detail; *c; c++)
                        if (*c < ' ' || *c >= 0x7f)
                                *c = '?';
        }
        (void)ferry_json_free(json);
}

/* Classifies an answer to the question or to the credentials: 0, or FERRY_E_* with a sentence; -ENOMEM. */
static int classify(const struct registry_call *call, CURLcode result, const char *text, size_t size,
                    struct ferry_json **ret_json, char detail[EASY_DETAIL_SIZE])
{
        struct ferry_json_errors errors = { 0 };
        long status = 0;
        int r;

        if (call->no_memory)
                return -ENOMEM;
        if (result != CURLE_OK) {
                (void)snprintf(detail, EASY_DETAIL_SIZE, "%s",
                               call->easy.too_large                 ? "its answer is too large"
                               : result == CURLE_OPERATION_TIMEDOUT ? "no answer in time"
                                                                    : curl_easy_strerror(result));
                return FERRY_E_PEER_UNREACHABLE;
        }
        (void)curl_easy_getinfo(call->easy.curl, CURLINFO_RESPONSE_CODE, &status);
        if (status != 200)
                say_status(status, text, size, detail);
        if (status == 401 || status == 403)
                return FERRY_E_PEER_REFUSED;
        if (status == 404 && memmem(text, size, "lease not found", strlen("lease not found")))
                return FERRY_E_NOT_FOUND;
        if (status != 200)
                return FERRY_E_PEER_UNREACHABLE;
        r = ferry_json_parse(text, size, NULL, ret_json, &errors);
        if (r == 0 && !json_object_is_type(ferry_json_root(*ret_json), json_type_object)) {
                *ret_json = ferry_json_free(*ret_json);
                r = FERRY_E_INVALID_JSON;
        }
        if (r > 0) {
                (void)snprintf(detail, EASY_DETAIL_SIZE, "its answer is not one of etcd's JSON gateway");
                return FERRY_E_PEER_UNREACHABLE;
        }
        return r;
}

static bool token_take(struct registry *registry, struct json_object *answer)
{
        struct json_object *token = NULL;
        const char *text;

        if (!json_object_object_get_ex(answer, "token", &token) || !json_object_is_type(token, json_type_string))
                return false;
        text = json_object_get_string(token);
        if (!*text || strlen(text) >= sizeof(registry->token))
                return false;
        for (const char *c = text; *c; c++)
                if (*c <= ' ' || *c >= 0x7f)
                        return false;
        memcpy(registry->token, text, strlen(text) + 1);
        return true;
}

/* Asks the next endpoint, or ends the call when all have failed. */
static void try_next(struct registry_call *call, int error, const char *detail)
{
        struct registry *registry = call->registry;

        call->n_tried++;
        call->endpoint = (call->endpoint + 1) % registry->n_endpoints;
        if (call->n_tried >= registry->n_endpoints)
                finish(call, error, detail, NULL);
        else if (!send_question(call))
                finish(call, FERRY_E_PEER_UNREACHABLE, "memory is short", NULL);
}

static void on_authenticated(struct registry_call *call, int error, const char *detail, struct json_object *answer)
{
        if (!error && !token_take(call->registry, answer)) {
                error = FERRY_E_PEER_UNREACHABLE;
                detail = "its answer to the name and password is not one of etcd's";
        }
        if (error)
                try_next(call, error == FERRY_E_PEER_UNREACHABLE ? error : FERRY_E_PEER_REFUSED, detail);
        else if (!send_question(call))
                finish(call, FERRY_E_PEER_UNREACHABLE, "memory is short", NULL);
}

/* Renews the token once: etcd's tokens expire. */
static bool authenticate_anew(struct registry_call *call)
{
        if (call->authenticating || call->authenticated_anew || !call->registry->credentials)
                return false;
        call->authenticated_anew = true;
        call->registry->token[0] = '\0';
        return send_question(call);
}

/* The handle is in no multi handle any more. Thread: the peers'. */
static void on_done(struct easy *easy, CURLcode result)
{
        struct registry_call *call = FERRY_CONTAINER_OF(easy, struct registry_call, easy);
        bool watched = call->question.watch_ms && !call->authenticating;
        struct ferry_json *json = NULL; /* points into text, which outlives the call */
        size_t size = call->answer.size;
        char *text = FERRY_STEAL(call->answer.data);
        char detail[EASY_DETAIL_SIZE] = "memory is short";
        int error;

        if (watched && (call->changed || result == CURLE_OPERATION_TIMEDOUT)) {
                free(text);
                finish(call, 0, "", NULL);
                return;
        }
        call->answer = (struct ferry_buffer){ 0 };
        error = classify(call, result, text ?: "", size, &json, detail);
        if (error < 0)
                error = FERRY_E_PEER_UNREACHABLE;
        if (error == 0 || error == FERRY_E_NOT_FOUND)
                call->registry->endpoint = call->endpoint;
        if (error == FERRY_E_PEER_REFUSED && authenticate_anew(call))
                error = 0;
        else if (call->authenticating)
                on_authenticated(call, error, detail, json ? ferry_json_root(json) : NULL);
        else if (error && error != FERRY_E_NOT_FOUND)
                try_next(call, error, detail);
        else
                finish(call, error, detail, json ? ferry_json_root(json) : NULL);
        (void)ferry_json_free(json);
        if (text)
                explicit_bzero(text, size); /* it may contain a token */
        free(text);
}

int registry_ask(struct registry *registry, const struct registry_question *question, registry_called called,
                 void *context)
{
        struct registry_call *call = question->body ? calloc(1, sizeof(*call)) : NULL;

        if (!call) {
                free(question->body);
                return -ENOMEM;
        }
        call->registry = registry;
        call->endpoint = registry->endpoint;
        call->question = *question;
        call->called = called;
        call->context = context;
        if (!send_question(call)) {
                call_free(call);
                return -ENOMEM;
        }
        DL_APPEND(registry->calls, call);
        return 0;
}

void registry_calls_cancel(struct registry *registry)
{
        struct registry_call *call, *next;

        DL_FOREACH_SAFE (registry->calls, call, next) {
                easy_stop(&call->easy);
                finish(call, FERRY_E_CANCELLED, "the worker is shutting down", NULL);
        }
}
