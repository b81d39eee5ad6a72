/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

static struct {
        struct http_waits *_Atomic waits; /* the next who resumes stays inside until these stop, and for a while */
        atomic_bool inside, stopped, stopped_meanwhile;
} resume;

void __real_MHD_resume_connection(struct MHD_Connection *connection);
void __wrap_MHD_resume_connection(struct MHD_Connection *connection);
void __real_MHD_stop_daemon(struct MHD_Daemon *daemon);
void __wrap_MHD_stop_daemon(struct MHD_Daemon *daemon);

void __wrap_MHD_resume_connection(struct MHD_Connection *connection)
{
        struct http_waits *waits = atomic_exchange(&resume.waits, NULL);

        if (waits)
                atomic_store(&resume.inside, true);
        __real_MHD_resume_connection(connection);
        if (!waits)
                return;
        while (!atomic_load(&waits->stopping))
                (void)sched_yield();
        for (uint64_t end = clock_now_us() + 50000; clock_now_us() < end && !atomic_load(&resume.stopped);)
                (void)sched_yield();
        atomic_store(&resume.inside, false);
}

void __wrap_MHD_stop_daemon(struct MHD_Daemon *daemon)
{
        atomic_store(&resume.stopped, true);
        if (atomic_load(&resume.inside))
                atomic_store(&resume.stopped_meanwhile, true);
        __real_MHD_stop_daemon(daemon);
}

/* A request that is parked. */
static int park(struct http_fixture *h, struct operation *operation, const char *query, size_t n_parked)
{
        int fd = http_begin(h, "GET", operation_path(operation, query), "", NULL);

        await_parked(h, n_parked);
        return fd;
}

static uint64_t cpu_us(clockid_t clock)
{
        struct timespec t;

        (void)clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Processor time of all threads but this one. */
static uint64_t others_cpu_us(void)
{
        uint64_t own = cpu_us(CLOCK_THREAD_CPUTIME_ID);

        return cpu_us(CLOCK_PROCESS_CPUTIME_ID) - own;
}

static void assert_somebody_looks(void)
{
        uint64_t from = others_cpu_us(), give_up = clock_now_us() + 60000000;

        while (others_cpu_us() < from + 20000)
                assert_true(clock_now_us() < give_up);
}

/* It looks for longer than the test may take: what comes is found while it looks, the end as well. */
WITH_HTTP(a_thread_that_looks_for_more_serves_wakes_and_stops)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        struct raw_answer reply;
        int fd;

        http_stop(h);
        h->config.spin_us = 3600u * 1000000u;
        http_start(h);
        expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
        assert_somebody_looks();
        fd = park(h, operation, "?wait_ms=60000", 1);
        expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
        operation_cancel(h->f->store, operation);
        reply = expect_status(raw_receive_last(fd), 200);
        assert_string_equal(reply_field(&reply, "status"), "CANCELLED");
        expect_status(http_call(h, "GET", operation_path(operation, "?wait_ms=20&revision=99"), "", NULL), 200);
}

WITH_HTTP(a_wait_beyond_the_cap_is_capped)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        struct raw_answer reply;

        http_stop(h);
        h->config.limits.wait_ms_max = 10;
        http_start(h);
        expect_status(http_call(h, "GET", operation_path(operation, "?wait_ms=9007199254740991"), "", NULL), 200);
        reply = expect_status(http_call(h, "GET", operation_path(operation, ""), "Prefer: wait=9999999999\r\n", NULL),
                              200);
        assert_string_equal(raw_header(&reply, "Preference-Applied"), "wait=0");
}

WITH_HTTP(a_post_waits_for_wait_ms_too)
{
        const char *body = text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}", h->region);
        int fd = http_begin(h, "POST", "/v1/operations?wait_ms=30000", "", body);
        struct operation *page[2];
        uint64_t cursor = 0;
        struct raw_answer reply;

        await_parked(h, 1);
        assert_int_equal(operation_page(h->f->store, NULL, &cursor, page, 2), 1);
        operation_cancel(h->f->store, page[0]);
        operation_unref(page[0]);
        reply = expect_status(raw_receive_last(fd), 201);
        assert_string_equal(reply_field(&reply, "status"), "CANCELLED");
        assert_null(raw_header(&reply, "Preference-Applied"));
}

/* It may touch the daemon until it has returned, although the connection runs again, or has even been closed. */
WITH_HTTP(the_end_of_the_server_waits_for_who_resumes)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        int fd;

        http_stop(h);
        h->config.threads = 1;
        http_start(h);
        fd = park(h, operation, "?wait_ms=60000", 1);
        atomic_store(&resume.waits, h->server->waits);
        atomic_store(&resume.stopped, false);
        close(fd); /* the loop's thread resumes */
        while (!atomic_load(&resume.inside))
                (void)sched_yield();
        expect_status(http_call(h, "GET", "/livez", "", NULL), 200); /* the connection's shard runs */
        await_idle(h);
        http_stop(h);
        assert_false(atomic_load(&resume.stopped_meanwhile));
}

WITH_HTTP(a_connection_serves_on_after_it_was_parked)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        struct raw_answer reply;

        reply = expect_status(
                http_raw(h, text_format("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                        "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                                        operation_path(operation, "?wait_ms=20"))),
                200);
        assert_non_null(strstr(reply.rest, "\"live\""));
}

enum { ROUNDS = 200 };

/* Every end of a wait comes at the same time: the operation, the deadline and the client's leaving. */
WITH_HTTP(each_parked_request_is_woken_once)
{
        for (unsigned i = 0; i < ROUNDS; i++) {
                struct operation *operation = make(h->f, FERRY_READABLE);
                int stays = http_begin(h, "GET", operation_path(operation, "?wait_ms=1"), "", NULL);
                int leaves = http_begin(h, "GET", operation_path(operation, "?wait_ms=1"), "", NULL);
                if (i & 1)
                        shutdown(leaves, SHUT_RDWR);
                if (i & 2)
                        operation_cancel(h->f->store, operation);
                close(leaves);
                expect_status(raw_receive_last(stays), 200);
                operation_delete(h->f->store, operation);
                test_release(operation);
        }
        await_parked(h, 0);
        await_idle(h);
}
