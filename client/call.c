/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <ferry/json.h>

#include "client_internal.h"

static bool call_type_is(const struct reply *reply, const char *type)
{
        size_t length = strlen(type);
        return strncasecmp(reply->content_type, type, length) == 0 &&
               (reply->content_type[length] == '\0' || strchr("; \t", reply->content_type[length]));
}

int call_check_type(struct ferry *f, const struct reply *reply)
{
        if (call_type_is(reply, "application/json"))
                return 0;
        return problem_protocol(f, "the content type is not application/json", reply->content_type);
}

/* The body is parsed, and is an object. 0 with *ret_json for json_object_put(). */
static int call_parse(struct ferry *f, const struct reply *reply, struct json_object **ret_json)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL;
        int r = call_check_type(f, reply);
        if (r == 0)
                r = ferry_json_parse(reply->body.data, reply->body.size, &json, &errors);
        if (r > 0)
                return problem_protocol(f, "the body is not JSON", errors.items[0].detail);
        if (r == 0 && !json_object_is_type(json, json_type_object)) {
                json_object_put(json);
                return problem_protocol(f, "the body is not a JSON object", "");
        }
        if (r == 0)
                *ret_json = json;
        return r;
}

int call_decode_reply(struct ferry *f, const struct reply *reply, call_decoder decode, void *target)
{
        struct json_object *json = NULL;
        const char *field = "";
        int r = call_parse(f, reply, &json);
        if (r != 0)
                return r;
        r = decode(json, target, &field);
        if (r == -EPROTO)
                (void)problem_protocol(f, "a field is missing or wrong", field);
        json_object_put(json);
        return r;
}

int call_decode(struct ferry *f, const struct request *request, call_decoder decode, void *target, char **ret_text)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        int r = call_send(f, request, &reply);
        if (r == 0)
                r = call_decode_reply(f, &reply, decode, target);
        if (r == 0 && ret_text)
                *ret_text = ferry_buffer_take(&reply.body);
        return r;
}

int call_get_text(struct ferry *f, const char *path, char **ret_json)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct request request = { .exchange = { .method = "GET", .path = path }, .secret = true };
        struct json_object *json = NULL;
        int r = call_send(f, &request, &reply);
        if (r == 0)
                r = call_parse(f, &reply, &json);
        if (r == 0)
                *ret_json = ferry_buffer_take(&reply.body);
        json_object_put(json);
        return r;
}

int call_text(struct ferry *f, const char *path, const char *const *types, char **ret_text)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        int r = call_send(f, &(struct request){ .exchange = { .method = "GET", .path = path } }, &reply);
        if (r != 0)
                return r;
        while (*types && !call_type_is(&reply, *types))
                types++;
        if (!*types)
                return problem_protocol(f, "another content type was expected", reply.content_type);
        char *text = ferry_buffer_take(&reply.body);
        if (!text)
                return -ENOMEM;
        *ret_text = text;
        return 0;
}

int call_plain(struct ferry *f, const struct request *request)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        return call_send(f, request, &reply);
}

int call_path(struct ferry *f, const char *collection, const char *id, const char *suffix, struct path *path)
{
        path_add(path, collection);
        path_add_segment(path, id);
        path_add(path, suffix);
        if (path->error == -EINVAL)
                return problem_argument(f, "the id is empty or too long");
        return path->error;
}

int call_delete(struct ferry *f, const char *collection, const char *id)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        int r = call_path(f, collection, id, "", &path);
        if (r < 0)
                return r;
        r = call_send(f, &(struct request){ .exchange = { .method = "DELETE", .path = path.text.data } }, &reply);
        if ((r == FERRY_E_NOT_FOUND || r == FERRY_E_GONE) && reply.lost) {
                problem_clear(f);
                return 0;
        }
        if (r == 0 && reply.status != 204)
                return problem_protocol(f, "the status of a DELETE is 204", "");
        return r;
}

int call_key(char key[CLIENT_KEY_TEXT_SIZE])
{
        static const char digits[] = "0123456789abcdef";
        unsigned char random[(CLIENT_KEY_TEXT_SIZE - 1) / 2];
        if (getentropy(random, sizeof(random)) < 0)
                return -EIO;
        for (size_t i = 0; i < sizeof(random); i++) {
                key[2 * i] = digits[random[i] >> 4];
                key[2 * i + 1] = digits[random[i] & 15];
        }
        key[2 * sizeof(random)] = '\0';
        return 0;
}

/* ---- any request ---- */

static void answer_fill(struct reply *reply, struct ferry_answer *answer)
{
        answer->http_status = reply->status;
        snprintf(answer->content_type, sizeof(answer->content_type), "%s", reply->content_type);
        snprintf(answer->etag, sizeof(answer->etag), "%s", reply->etag);
        snprintf(answer->location, sizeof(answer->location), "%s", reply->location);
        snprintf(answer->content_digest, sizeof(answer->content_digest), "%s", reply->content_digest);
        if (reply->body.data) {
                answer->body_size = reply->body.size;
                answer->body = ferry_buffer_take(&reply->body);
        }
}

int ferry_exchange_perform(struct ferry *f, const struct ferry_exchange *exchange, struct ferry_answer *ret_answer)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct request request = { .secret = true };
        *ret_answer = (struct ferry_answer){ 0 };
        int r = ARGUMENT_CHECK(f, exchange);
        if (r < 0)
                return r;
        uint64_t wait_ms = 0;
        request.exchange = *exchange;
        if (request.exchange.path)
                (void)path_wait(request.exchange.path, &wait_ms);
        if (request.exchange.wait_ms < wait_ms)
                request.exchange.wait_ms = wait_ms;
        r = call_send(f, &request, &reply);
        if (reply.status)
                answer_fill(&reply, ret_answer);
        return r;
}

int ferry_request(struct ferry *f, const char *method, const char *path, const char *content_type, const void *body,
                  size_t size, struct ferry_answer *ret_answer)
{
        struct ferry_exchange exchange = {
                .method = method,
                .path = path,
                .content_type = content_type,
                .body = body,
                .size = size,
        };
        return ferry_exchange_perform(f, &exchange, ret_answer);
}

void ferry_answer_clear(struct ferry_answer *answer)
{
        /* Any answer may be metadata. */
        if (answer->body)
                explicit_bzero(answer->body, answer->body_size);
        free(answer->body);
        *answer = (struct ferry_answer){ 0 };
}
