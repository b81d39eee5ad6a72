/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

enum { RUNNING_TRIES = 50 };

/* ---- JSON ---- */

static bool has_null(struct json_object *value)
{
        if (!value)
                return true;
        if (json_object_is_type(value, json_type_array))
                for (size_t i = 0; i < json_object_array_length(value); i++)
                        if (has_null(json_object_array_get_idx(value, i)))
                                return true;
        if (json_object_is_type(value, json_type_object)) {
                json_object_object_foreach (value, name, member) {
                        if (!*name || has_null(member))
                                return true;
                }
        }
        return false;
}

TEST_KEEPS(json, struct json_object, json_object_put)

struct json_object *json_parse(const char *text)
{
        struct json_object *object = json_tokener_parse(text);

        if (!object)
                fail_msg("no JSON: %.300s", text);
        return keep_json(object);
}

struct json_object *call_json_with(struct worker *w, int status, const char *method, const char *path, const char *body,
                                   const char *const *headers)
{
        struct ferry_exchange exchange = {
                .method = method,
                .path = path,
                .content_type = body ? "application/json" : NULL,
                .body = body,
                .size = body ? strlen(body) : 0,
                .headers = headers,
                .wait_ms = WAIT_MS,
                .no_status_retry = true,
        };
        struct json_object *object = NULL;
        struct ferry_answer answer;

        (void)ferry_exchange_perform(w->client, &exchange, &answer);
        if (answer.http_status != status)
                print_error("%s %s %.300s\n→ %d %s\n", method, path, body ? body : "", answer.http_status,
                            answer.body ? answer.body : ferry_last_message(w->client));
        assert_int_equal(answer.http_status, status);
        if (answer.body_size > 0) {
                object = json_parse(answer.body);
                assert_false(has_null(object));
        }
        ferry_answer_clear(&answer);
        return object;
}

struct json_object *call_json(struct worker *w, int status, const char *method, const char *path, const char *body)
{
        return call_json_with(w, status, method, path, body, NULL);
}

struct json_object *json_member(struct json_object *object, const char *name)
{
        struct json_object *value = NULL;

        if (!json_object_object_get_ex(object, name, &value))
                fail_msg("no \"%s\" in %s", name, json_object_to_json_string(object));
        return value;
}

const char *json_text(struct json_object *object, const char *name)
{
        struct json_object *value = json_member(object, name);

        assert_true(json_object_is_type(value, json_type_string));
        return json_object_get_string(value);
}

uint64_t json_number(struct json_object *object, const char *name)
{
        struct json_object *value = json_member(object, name);

        assert_true(json_object_is_type(value, json_type_int));
        return json_object_get_uint64(value);
}

bool json_truth(struct json_object *object, const char *name)
{
        struct json_object *value = json_member(object, name);

        assert_true(json_object_is_type(value, json_type_boolean));
        return json_object_get_boolean(value);
}

const char *json_names(struct json_object *object)
{
        const char *names = "";

        json_object_object_foreach (object, name, member) {
                (void)member;
                names = text_format("%s%s%s", names, *names ? " " : "", name);
        }
        return names;
}

const char *operation_body(const char *kind, const char *region, const char *more)
{
        return text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\"}]%s}", kind, region, more);
}

const char *offer_abc(struct worker *w, const char *kind, const char *region)
{
        const char *body = text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\",\"offset\":1,\"size\":1},"
                                       "{\"region\":\"%s\",\"offset\":4,\"size\":2}]}",
                                       kind, region, region);

        return json_text(call_json(w, 201, "POST", "/v1/operations", body), "id");
}

const char *read_body(const char *region, const char *url)
{
        return operation_body("read", region, text_format(",\"remote_url\":\"%s\"", url));
}

struct json_object *read_by_url(struct worker *w, const char *region, const char *url)
{
        return call_json(w, 201, "POST", "/v1/operations", read_body(region, url));
}

struct json_object *operations_make(struct worker *w, const char *query, const char *bodies, const char *const *headers)
{
        size_t size = strlen(bodies) + 32;
        char path[64], *body = malloc(size);
        struct json_object *results;

        assert_non_null(body);
        (void)snprintf(path, sizeof(path), "/v1/operations/batch%s", query);
        (void)snprintf(body, size, "{\"operations\":%s}", bodies);
        results = json_member(call_json_with(w, 200, "POST", path, body, headers), "results");
        free(body);
        return results;
}

struct json_object *operation_json(struct worker *w, const char *id)
{
        const char *path = text_format("/v1/operations/%s", id);

        return call_json(w, 200, "GET", path, NULL);
}

const char *metadata_key(const char *metadata)
{
        return json_text(json_parse(metadata), "notification_key");
}

const char *operation_bearer(struct worker *w, const char *id)
{
        const char *path = text_format("/v1/operations/%s/metadata", id);

        return text_format("Authorization: Bearer %s",
                           json_text(call_json(w, 200, "GET", path, NULL), "notification_key"));
}

const char *metadata_url(const struct worker *w, const char *id)
{
        return text_format("%s/v1/operations/%s/metadata", w->url, id);
}

const char *metadata_with(const char *metadata, const char *name, struct json_object *value)
{
        struct json_object *object = json_parse(metadata);
        const char *text;

        assert_non_null(object);
        json_object_object_del(object, name);
        if (value)
                assert_int_equal(json_object_object_add(object, name, value), 0);
        text = text_keep(strdup(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN)));
        return text;
}

const char *json_request(const char *path, const char *headers, const char *body)
{
        return text_format("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "%sContent-Length: %zu\r\n\r\n%s",
                           path, headers, strlen(body), body);
}

int raw_ask(const struct worker *w, const char *method, const char *target)
{
        const char *request = text_format("%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", method, target);
        int fd = raw_begin(w, request);
        return fd;
}

uint64_t worker_metric(struct worker *w, const char *sample)
{
        size_t n = strlen(sample);
        uint64_t value = 0;
        char *text;

        assert_int_equal(ferry_get_metrics(w->client, &text), 0);
        for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (strncmp(line, sample, n) == 0 && line[n] == ' ')
                        value = strtoull(line + n + 1, NULL, 10);
        free(text);
        return value;
}

void worker_await_metric(struct worker *w, const char *sample, uint64_t value)
{
        uint64_t seen;

        WAIT_UNTIL_OR((seen = worker_metric(w, sample)) == value, "worker %s: %s is %llu, not %llu", w->name, sample,
                      (unsigned long long)seen, (unsigned long long)value);
}

ssize_t pour_blanks(void *context, void *buffer, size_t size)
{
        uint64_t *left = context;
        size_t n = size < *left ? size : (size_t)*left;

        memset(buffer, ' ', n);
        *left -= n;
        return (ssize_t)n;
}

/* ---- a server that is no worker ---- */

int listen_somewhere(char *url, size_t size, const char *path)
{
        uint16_t port;
        int fd = raw_listen(&port);

        (void)snprintf(url, size, "http://127.0.0.1:%d%s", port, path);
        return fd;
}

int accept_request(int listener, const char **ret_request)
{
        struct pollfd p = { .fd = listener, .events = POLLIN };
        int fd;

        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        *ret_request = raw_read_head(fd);
        return fd;
}

const char *serve_once(int listener, const char *text)
{
        const char *request;
        int fd = accept_request(listener, &request);

        raw_send(fd, text, strlen(text));
        (void)shutdown(fd, SHUT_WR);
        (void)close(fd);
        return request;
}

/* ---- one transfer ---- */

void pair_expect_failures(struct pair *p)
{
        worker_expect(&p->a, "operation ended");
        worker_expect(&p->b, "operation ended");
}

void worker_pause(struct worker *w)
{
        int status;

        assert_int_equal(kill(w->pid, SIGSTOP), 0);
        assert_int_equal(waitpid(w->pid, &status, WUNTRACED), w->pid);
        assert_true(WIFSTOPPED(status));
}

void worker_resume(struct worker *w)
{
        int status;

        assert_int_equal(kill(w->pid, SIGCONT), 0);
        assert_int_equal(waitpid(w->pid, &status, WCONTINUED), w->pid);
        assert_true(WIFCONTINUED(status));
}

static void operations_drop(struct pair *p, struct running *r)
{
        assert_int_equal(ferry_delete_operation(p->a.client, r->passive), 0);
        assert_int_equal(ferry_delete_operation(p->b.client, r->active), 0);
}

static void region_await_unused(struct worker *w, const char *id)
{
        struct ferry_region region;

        WAIT_UNTIL(ferry_get_region(w->client, id, &region) == 0 && region.in_use == 0);
}

static void running_begin(struct pair *p, struct running *r)
{
        OPERATION passive, active;

        offer_in_rows(&p->a, r->kind, r->offered, r->size, &passive);
        memcpy(r->passive, passive.id, FERRY_ID_SIZE);
        begin_in_rows(&p->b, kind_of_peer(r->kind), r->local, r->size, passive.metadata, &active);
        memcpy(r->active, active.id, FERRY_ID_SIZE);
}

/* Whether the worker's operation ends within wait_ms, and how far it came. */
static bool running_look(const struct pair *p, const struct running *r, struct worker *w, uint64_t wait_ms,
                         uint64_t *ret_bytes)
{
        OPERATION now;
        bool done;

        assert_int_equal(ferry_get_operation(w->client, w == &p->a ? r->passive : r->active, wait_ms, 0, &now), 0);
        done = now.done;
        *ret_bytes = now.bytes_done;
        return done;
}

/*
 * Lets one worker run for moments, until the transfer stands in its middle, at least bytes from its begin, as the other
 * worker sees it, also once that has had time to take what was sent to it before. false: it was past that before it
 * could be stopped, or has failed on either side; the worker runs.
 */
static bool running_step(struct pair *p, const struct running *r, struct worker *paused, uint64_t least)
{
        enum { SETTLE_MS = 50 };
        struct worker *w = paused == &p->a ? &p->b : &p->a;
        uint64_t bytes, bytes_of_paused;
        bool done;

        do {
                worker_pause(paused);
                done = running_look(p, r, w, 0, &bytes);
                if (!done && bytes >= least && bytes < r->size - r->size / 4 &&
                    !running_look(p, r, w, SETTLE_MS, &bytes))
                        return true;
                worker_resume(paused);
        } while (!done && bytes < least && !running_look(p, r, paused, 0, &bytes_of_paused));
        return false;
}

void running_start_at(struct pair *p, enum ferry_kind passive_kind, uint64_t size, uint64_t seed, struct worker *paused,
                      uint64_t least, struct running *ret_running)
{
        struct running r = { .kind = passive_kind, .size = size };
        bool readable = passive_kind == FERRY_READABLE;

        r.offered = region_make(&p->a, size, readable ? seed : 0);
        r.local = region_make(&p->b, size, readable ? 0 : seed);
        for (int i = 0; i < RUNNING_TRIES; i++) {
                running_begin(p, &r);
                if (running_step(p, &r, paused, least)) {
                        *ret_running = r;
                        return;
                }
                operations_drop(p, &r);
                region_await_unused(&p->a, r.offered); /* quiet before one of them is stopped again */
                region_await_unused(&p->b, r.local);
        }
        fail_msg("no transfer could be stopped in its middle");
}

void running_start(struct pair *p, enum ferry_kind passive_kind, uint64_t size, uint64_t seed, struct worker *paused,
                   struct running *ret_running)
{
        running_start_at(p, passive_kind, size, seed, paused, 1, ret_running);
}

struct worker *running_target(struct pair *p, const struct running *r)
{
        return r->kind == FERRY_READABLE ? &p->b : &p->a;
}

const char *running_target_region(const struct running *r)
{
        return r->kind == FERRY_READABLE ? r->local : r->offered;
}

void operation_assert_left(struct worker *w, const char *id)
{
        OPERATION end;

        assert_int_equal(ferry_wait_operation(w->client, id, WAIT_MS, &end), 0);
        assert_true(end.error == FERRY_E_CANCELLED_BY_PEER || end.error == FERRY_E_PEER_LOST);
}

void running_drop(struct pair *p, struct running *r)
{
        operations_drop(p, r);
        region_drop(&p->a, r->offered);
        region_drop(&p->b, r->local);
}
