/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <ferry/aio.h>

#define START_OPTIONS .retries = -1
#include "client_fixture.h"

/* What the latest callback was told. */
struct seen {
        struct ferry_aio *aio;
        int calls, result, started;
        char message[128], code[64];
};

static void on_done(void *context, const struct ferry_aio_result *result)
{
        struct seen *seen = context;

        seen->calls++;
        seen->result = result->result;
        snprintf(seen->message, sizeof(seen->message), "%s", result->message);
        snprintf(seen->code, sizeof(seen->code), "%s", result->problem->code);
}

static void finish(struct seen *seen)
{
        int calls = seen->calls, r;

        while (ferry_aio_pending(seen->aio)) {
                r = ferry_aio_dispatch(seen->aio, -1);
                assert_true(r >= 0);
                calls += r;
        }
        assert_int_equal(seen->calls, calls);
}

static void seen_release(void *seen)
{
        ferry_aio_free(((struct seen *)seen)->aio);
        free(seen);
}

static struct seen *seen_new(struct fixture *x)
{
        struct seen *seen = calloc(1, sizeof(*seen));
        assert_int_equal(ferry_aio_new(x->ferry, &seen->aio), 0);
        return test_keep(seen, seen_release);
}

static int delete_operation(struct seen *seen)
{
        assert_int_equal(ferry_aio_delete_operation(seen->aio, "op_1", on_done, seen), 0);
        finish(seen);
        return seen->result;
}

static int wait_for(struct seen *seen, uint64_t timeout_ms)
{
        assert_int_equal(ferry_aio_wait_operation(seen->aio, "op_1", timeout_ms, on_done, seen), 0);
        finish(seen);
        return seen->result;
}

TEST(a_delete_whose_answer_was_lost_is_done)
{
        START_WITH(x, NULL, { NULL, SERVER_RESET }, { GONE }, { GONE });
        struct seen *seen = seen_new(x);
        assert_int_equal(delete_operation(seen), 0);
        assert_string_equal(seen->code, "");
        assert_int_equal(delete_operation(seen), FERRY_E_GONE);
}

TEST(an_answer_about_another_number_is_refused)
{
        START(x, { JSON("200", "{\"operations\":[" OPERATION("COMPLETE", "true", "") "]}") });
        const char *const ids[] = { "op_1", "op_2" };
        struct seen *seen = seen_new(x);
        assert_int_equal(ferry_aio_wait_operations(seen->aio, ids, 2, FERRY_WAIT_ALL, FERRY_FOREVER, on_done, seen), 0);
        finish(seen);
        assert_int_equal(seen->result, -EPROTO);
}

TEST(a_wait_that_outlives_refusals_ends_without_a_problem)
{
        START(x, { DRAINING }, { DRAINING }, { COMPLETE });
        struct seen *seen = seen_new(x);
        assert_int_equal(wait_for(seen, FERRY_FOREVER), 0);
        sent(x, 2, "GET /v1/operations/op_1?wait_ms=30000", "");
        assert_string_equal(seen->message, "");
        assert_string_equal(seen->code, "");
}

TEST(a_wait_that_ends_too_early_says_so)
{
        START(x, { RUNNING });
        struct seen *seen = seen_new(x);
        assert_int_equal(wait_for(seen, 0), -ETIMEDOUT);
        assert_string_equal(seen->message, "not done within the time limit");
}

TEST(a_wait_has_an_end)
{
        START_WITH(x, &(struct ferry_options){ .timeout_ms = 3600000 }, { RUNNING }, { NULL, SERVER_HANG });
        struct seen *seen = seen_new(x);
        assert_int_equal(wait_for(seen, 100), -ETIMEDOUT);
}

TEST(a_forked_child_leaves_the_calls_of_its_parent_alone)
{
        START(x, { RUNNING }, { COMPLETE });
        struct seen *seen = seen_new(x);
        int status;
        assert_int_equal(ferry_aio_wait_operation(seen->aio, "op_1", FERRY_FOREVER, on_done, seen), 0);
        while (x->server.served == 0)
                assert_int_equal(ferry_aio_dispatch(seen->aio, 100), 0);
        pid_t child = fork();
        if (child == 0) {
                bool refused = ferry_aio_dispatch(seen->aio, 0) == -ECHILD &&
                               ferry_aio_delete_operation(seen->aio, "op_1", on_done, seen) == -ECHILD;
                ferry_aio_free(seen->aio);
                _exit(!refused || seen->calls);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        finish(seen);
        assert_int_equal(seen->result, 0);
}

/* A child that keeps what it has inherited, but for the sockets of the server. */
static pid_t fork_child(const struct server *server)
{
        struct sockaddr_in own = { 0 }, other = { 0 };
        socklen_t size = sizeof(own);
        assert_int_equal(getsockname(server->listener, (struct sockaddr *)&own, &size), 0);
        pid_t child = fork();
        if (child != 0)
                return child;
        for (int fd = 3; fd < 1024; fd++) {
                size = sizeof(other);
                if (getsockname(fd, (struct sockaddr *)&other, &size) == 0 && other.sin_family == AF_INET &&
                    other.sin_port == own.sin_port)
                        close(fd);
        }
        for (;;)
                pause();
}

TEST(a_connection_that_a_child_has_as_well_is_forgotten_when_it_breaks)
{
        START(x, { NO_CONTENT, SERVER_KEEP }, { NULL, SERVER_CLOSE }, { NO_CONTENT, SERVER_KEEP });
        struct seen *seen = seen_new(x);
        assert_int_equal(delete_operation(seen), 0);
        pid_t child = fork_child(&x->server);
        assert_int_equal(delete_operation(seen), 0);
        struct pollfd set = { .fd = ferry_aio_fd(seen->aio), .events = POLLIN };
        int ready = poll(&set, 1, 0);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(ready, 0);
        assert_int_equal(served(x), 3);
}

/* Calls beyond the connections that are kept fail for lack of descriptors. */
TEST(a_connection_is_kept_after_many_calls_at_once)
{
        enum { CALLS = 300 };
        START(x, { NO_CONTENT, SERVER_KEEP }, { NO_CONTENT, SERVER_KEEP }, { NO_CONTENT, SERVER_KEEP });
        struct seen *seen = seen_new(x);
        struct rlimit before;
        for (int i = 0; i < CALLS; i++)
                assert_int_equal(ferry_aio_delete_operation(seen->aio, "op_1", on_done, seen), 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 3, before.rlim_max }), 0);
        finish(seen);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(seen->result, -EMFILE);
        for (int i = 0; i < 3; i++)
                assert_int_equal(delete_operation(seen), 0);
        server_stop(&x->server);
        assert_int_equal(x->server.connections, 1);
}

/* As programs do that ask again whatever came. */
static void start_again(void *context, const struct ferry_aio_result *result)
{
        struct seen *seen = context;

        on_done(seen, result);
        seen->started = ferry_aio_delete_operation(seen->aio, "op_1", start_again, seen);
}

TEST(the_end_of_a_set_is_the_end_of_calls_that_start_again)
{
        START(x, { RUNNING });
        struct seen *seen = seen_new(x);
        assert_int_equal(ferry_aio_delete_operation(seen->aio, "op_1", start_again, seen), 0);
        seen->aio = ferry_aio_free(seen->aio);
        assert_int_equal(seen->calls, 1);
        assert_int_equal(seen->result, -ECANCELED);
        assert_int_equal(seen->started, -ECANCELED);
}
