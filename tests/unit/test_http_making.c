/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

/* POST /v1/regions of large regions, whose memory comes when the test opens a gate. */

enum { SIZE = 300 << 10, LIMIT = 2 * SIZE };

struct scene {
        struct http_fixture *h;
        struct region_table *regions;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool open;
        size_t n_waiting;
        int error; /* of who passes */
};

static const char body[] = "{\"size\":307200}";

static int gate_pass(void *context, size_t size)
{
        struct scene *s = context;
        int error;

        pthread_mutex_lock(&s->lock);
        s->n_waiting++;
        pthread_cond_broadcast(&s->changed);
        while (!s->open)
                pthread_cond_wait(&s->changed, &s->lock);
        s->n_waiting--;
        error = s->error;
        pthread_mutex_unlock(&s->lock);
        return error;
}

static void gate_open(struct scene *s, int error)
{
        pthread_mutex_lock(&s->lock);
        s->open = true;
        s->error = error;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
}

static void gate_await(struct scene *s)
{
        pthread_mutex_lock(&s->lock);
        WAIT_SIGNAL(&s->changed, &s->lock, s->n_waiting);
        pthread_mutex_unlock(&s->lock);
}

static int setup(void **state)
{
        struct scene *s = calloc(1, sizeof(*s));
        void *h;

        if (!s || http_setup(&h))
                return -1;
        s->h = h;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        const struct region_config config = {
                .memory_limit = LIMIT, .max_regions = 8, .fill = gate_pass, .fill_context = s
        };
        assert_int_equal(region_table_new(&config, &s->regions), 0);
        http_stop(s->h);
        s->h->config.regions = s->regions;
        http_start(s->h);
        *state = s;
        return 0;
}

static int teardown(void **state)
{
        struct scene *s = *state;
        void *h = s->h;
        int r;

        gate_open(s, 0);
        r = http_teardown(&h);
        s->regions = region_table_free(s->regions);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return r;
}

static size_t n_regions(struct scene *s)
{
        uint64_t bytes;
        size_t n;

        region_totals(s->regions, &n, &bytes);
        return n;
}

static int post(struct scene *s, const char *headers)
{
        return http_begin(s->h, "POST", "/v1/regions", headers, body);
}

/* The path of the only region, as its maker got it. */
static void post_async(struct scene *s, const char *headers, char path[64])
{
        struct raw_answer reply = expect_status(raw_receive_last(post(s, headers)), 201);

        assert_string_equal(reply_field(&reply, "state"), "preparing");
        assert_string_equal(reply_field(&reply, "bytes_prepared"), "0");
        assert_null(reply_field(&reply, "path"));
        snprintf(path, 64, "%s", raw_header(&reply, "Location"));
}

#define WITH_SCENE(name) TEST_OF(struct scene *s, name, setup, teardown)

WITH_SCENE(a_failure_is_the_answer_and_leaves_nothing)
{
        int fd = post(s, "Idempotency-Key: k\r\n");

        await_parked(s->h, 1);
        gate_open(s, -ENOMEM);
        struct raw_answer reply = raw_receive_last(fd);
        assert_string_equal(reply_field(&reply, "detail"), "The machine's memory is used up");
        expect_problem(reply, 507, "limit-reached");
        assert_int_equal(n_regions(s), 0);
        gate_open(s, 0);
        expect_status(raw_receive_last(post(s, "Idempotency-Key: k\r\n")), 201);
}

WITH_SCENE(a_client_that_leaves_leaves_no_region)
{
        for (int abrupt = 0; abrupt < 2; abrupt++) {
                int fd = post(s, "Idempotency-Key: k\r\n");

                await_parked(s->h, 1);
                assert_int_equal(n_regions(s), 1);
                if (abrupt) {
                        const struct linger now = { .l_onoff = 1 };
                        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
                }
                close(fd);
                await_parked(s->h, 0);
                await_idle(s->h);
                assert_int_equal(n_regions(s), 0);
        }
        gate_open(s, 0);
        expect_status(raw_receive_last(post(s, "Idempotency-Key: k\r\n")), 201);
        assert_int_equal(n_regions(s), 1);
}

WITH_SCENE(the_end_of_the_server_leaves_no_region)
{
        int fd = post(s, "");

        await_parked(s->h, 1);
        http_stop(s->h);
        expect_problem(raw_receive_last(fd), 503, "draining");
        assert_int_equal(n_regions(s), 0);
        http_start(s->h);
}

WITH_SCENE(another_may_delete_it_meanwhile)
{
        int fd = post(s, "");
        char *id;

        await_parked(s->h, 1);
        struct raw_answer reply = expect_status(http_call(s->h, "GET", "/v1/regions", "", NULL), 200);
        id = strstr(reply.body, "rgn_");
        const char *path = text_format("/v1/regions/%.20s", id);
        expect_status(http_call(s->h, "DELETE", path, "", NULL), 204);
        expect_problem(raw_receive_last(fd), 410, "gone");
        expect_problem(http_call(s->h, "GET", path, "", NULL), 404, "not-found");
        gate_open(s, 0);
        expect_status(raw_receive_last(post(s, "")), 201);
}

WITH_SCENE(respond_async_may_wait_a_while)
{
        int fd = post(s, "Prefer: respond-async, wait=50\r\n");

        await_parked(s->h, 1);
        gate_open(s, 0);
        struct raw_answer reply = expect_status(raw_receive_last(fd), 201);
        assert_string_equal(reply_field(&reply, "state"), "ready");
}

WITH_SCENE(a_region_that_failed_later_says_why_until_it_is_deleted)
{
        char path[64], waiting[80];

        post_async(s, "Prefer: respond-async\r\n", path);
        gate_open(s, -ENOMEM);
        snprintf(waiting, sizeof(waiting), "%s?wait_ms=60000", path);
        struct raw_answer reply = expect_status(http_call(s->h, "GET", waiting, "", NULL), 200);
        assert_string_equal(reply_field(&reply, "state"), "failed");
        assert_non_null(strstr(reply.body, "\"error\":{\"code\":\"limit-reached\",\"detail\":\"The machine's memory"));
        snprintf(waiting, sizeof(waiting), "%s/content", path);
        expect_problem(http_call(s->h, "GET", waiting, "", NULL), 409, "region-not-ready");
        expect_status(http_call(s->h, "DELETE", path, "", NULL), 204);
        expect_problem(http_call(s->h, "GET", path, "", NULL), 404, "not-found");
}

WITH_SCENE(a_region_that_is_prepared_cannot_be_used)
{
        char path[64], content[80], text[160];

        post_async(s, "Prefer: respond-async\r\n", path);
        gate_await(s);
        snprintf(content, sizeof(content), "%s/content", path);
        expect_problem(http_call(s->h, "GET", content, "", NULL), 409, "region-not-ready");
        expect_problem(http_call(s->h, "PUT", content, "Content-Length: 0\r\n", NULL), 409, "region-not-ready");
        snprintf(text, sizeof(text), "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}",
                 path + strlen("/v1/regions/"));
        expect_problem(http_call(s->h, "POST", "/v1/operations", "", text), 409, "region-not-ready");
}

WITH_SCENE(a_repeated_key_waits_for_the_region_of_the_first)
{
        char path[64], id[64];

        post_async(s, "Prefer: respond-async\r\nIdempotency-Key: k\r\n", path);
        struct raw_answer reply =
                expect_status(raw_receive_last(post(s, "Prefer: respond-async\r\nIdempotency-Key: k\r\n")), 201);
        assert_string_equal(raw_header(&reply, "Location"), path);
        assert_string_equal(reply_field(&reply, "state"), "preparing");

        /* One that leaves takes nothing with it; it is not its region. */
        int fd = post(s, "Idempotency-Key: k\r\n");
        await_parked(s->h, 1);
        close(fd);
        await_parked(s->h, 0);
        assert_int_equal(n_regions(s), 1);

        fd = post(s, "Idempotency-Key: k\r\n");
        await_parked(s->h, 1);
        gate_open(s, 0);
        reply = expect_status(raw_receive_last(fd), 201);
        snprintf(id, sizeof(id), "%s", reply_field(&reply, "id"));
        assert_string_equal(id, path + strlen("/v1/regions/"));
        assert_string_equal(reply_field(&reply, "state"), "ready");
        assert_string_equal(raw_header(&reply, "Idempotency-Replayed"), "true");
        assert_int_equal(n_regions(s), 1);
}

WITH_SCENE(too_many_that_wait_are_refused_and_leave_no_region)
{
        int fd;

        http_stop(s->h);
        s->h->config.limits.waiters_max = 1;
        http_start(s->h);
        fd = post(s, "");
        await_parked(s->h, 1);
        expect_problem(raw_receive_last(post(s, "")), 429, "limit-reached");
        assert_int_equal(n_regions(s), 1);
        gate_open(s, 0);
        expect_status(raw_receive_last(fd), 201);
}
