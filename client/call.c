/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "client_internal.h"

/*
 * The common part of all calls: one request, its answer checked and decoded. A document is decoded whole or not at
 * all, and leniently: unknown fields are those of a later worker. Whatever goes wrong is told in f->problem, and by the
 * result.
 *
 * Thread: the one that uses the handle.
 */

static bool call_type_is(const struct reply *reply, const char *type)
{
        size_t length = strlen(type);
        return strncasecmp(reply->content_type, type, length) == 0 &&
               (reply->content_type[length] == '\0' || strchr("; \t", reply->content_type[length]));
}

/* Whether an answer is JSON: 0, or -EPROTO with f->problem set. */
static int call_check_type(struct ferry *f, const struct reply *reply)
{
        if (call_type_is(reply, "application/json"))
                return 0;
        return problem_protocol(f, "the content type is not application/json", reply->content_type);
}

int call_decode_reply(struct ferry *f, const struct reply *reply, call_decoder decode, void *target)
{
        struct ferry_json_errors errors = { .lenient = true };
        struct json_object *json = NULL;
        int r = call_check_type(f, reply);
        if (r == 0)
                r = ferry_json_parse(reply->body.data, reply->body.size, &json, &errors);
        if (r > 0)
                return problem_protocol(f, "the body is not JSON", errors.items[0].detail);
        if (r == 0 && !json_object_is_type(json, json_type_object))
                r = problem_protocol(f, "the body is not a JSON object", "");
        else if (r == 0 && decode && (r = decode(json, target, &errors)) == -EPROTO)
                (void)problem_protocol(f, "a field is missing or wrong", errors.items[0].pointer);
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

int call_get(struct ferry *f, const char *path, call_decoder decode, void *target, char **ret_text)
{
        const struct request request = { .exchange = { .method = "GET", .path = path }, .secret = !decode };
        return call_decode(f, &request, decode, target, ret_text);
}

int call_get_page(struct ferry *f, const struct path *path, struct call_page *page, char **ret_text)
{
        if (path->error)
                return path->error == -EINVAL ? problem_argument(f, "the query is too long") : path->error;
        return call_get(f, path->text.data, call_decode_page, page, ret_text);
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
        uint64_t random[2];
        if (getentropy(random, sizeof(random)) < 0)
                return -EIO;
        ferry_id_format("", random[0], key);
        ferry_id_format("", random[1], key + strlen(key));
        return 0;
}

/* ---- what several answers have ---- */

int call_decode_error(struct json_object *json, int *error, char code[64], char detail[512],
                      struct ferry_json_errors *errors)
{
        struct failure {
                char code[64], detail[512];
        } failure = { 0 };
        static const struct ferry_json_field fields[] = {
                FERRY_JSON_FIELD("code", TEXT, true, struct failure, code),
                FERRY_JSON_FIELD("detail", PROSE, false, struct failure, detail),
        };
        if (!json)
                return 0;
        int r = DECODE(json, fields, &failure, errors);
        if (r < 0)
                return r;
        int number = ferry_error_from_code(failure.code, 0);
        *error = number > 0 ? number : FERRY_E_OTHER;
        memcpy(code, failure.code, sizeof(failure.code));
        memcpy(detail, failure.detail, sizeof(failure.detail));
        return 0;
}

/* Frees the items that were decoded before the one that could not be. */
static void page_clear(struct call_page *page)
{
        for (size_t i = 0; page->list->clear && i < page->n; i++)
                page->list->clear((char *)page->items + i * page->list->item_size);
        free(page->items);
        free(page->next);
}

int call_decode_page(struct json_object *json, void *target, struct ferry_json_errors *errors)
{
        struct call_page *ret_page = target, page = { .list = ret_page->list };
        struct page_answer {
                struct json_object *items;
                const char *next;
        } answer = { 0 };
        const struct ferry_json_field fields[] = {
                FERRY_JSON_FIELD(page.list->key, ARRAY, true, struct page_answer, items),
                FERRY_JSON_FIELD("next", STRING, false, struct page_answer, next),
        };
        int r = DECODE(json, fields, &answer, errors);
        if (r < 0)
                return r;
        size_t n = json_object_array_length(answer.items);
        page.items = calloc(n ?: 1, page.list->item_size);
        page.next = answer.next ? strdup(answer.next) : NULL;
        if (!page.items || !page.next != !answer.next)
                r = -ENOMEM;
        for (; r == 0 && page.n < n; page.n += r == 0)
                r = page.list->decode(json_object_array_get_idx(answer.items, page.n),
                                      (char *)page.items + page.n * page.list->item_size, errors);
        if (r < 0)
                page_clear(&page);
        else
                *ret_page = page;
        return r;
}

/* ---- any request ---- */

/* Moves the body, and copies the headers. */
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
