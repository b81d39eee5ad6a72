/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "worker_fixture.h"

/* What a program has its worker say to another one, and the events of a worker. Two workers in one process. */

enum { SIZE = 4096, ROUNDS = 100 };

static char directory[] = "/tmp/ferry-worker-XXXXXX";

struct side {
        struct ferry_worker *worker;
        char region[FERRY_WORKER_ID_SIZE];
        void *memory;
};

static struct side a, b;

static void side_start(struct side *side, struct ferry_worker *worker)
{
        side->worker = worker;
        assert_int_equal(ferry_worker_region_alloc(side->worker, SIZE, NULL, NULL, &side->memory, side->region), 0);
}

static int setup(void **state)
{
        assert_non_null(mkdtemp(directory));
        side_start(&a, WORKER("local", directory, "name", "a", "listen", "127.0.0.1:0"));
        side_start(&b, WORKER("local", directory, "name", "b"));
        return 0;
}

static int teardown(void **state)
{
        a.worker = ferry_worker_free(a.worker);
        b.worker = ferry_worker_free(b.worker);
        assert_int_equal(rmdir(directory), 0);
        memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
        return 0;
}

TEST_KEEPS(request, struct ferry_worker_request, ferry_worker_request_free)
TEST_KEEPS(operation, struct ferry_worker_operation, ferry_worker_operation_free)
TEST_KEEPS(events, struct ferry_worker_events, ferry_worker_events_free)

static struct ferry_worker_operation *make(const struct side *side, enum ferry_kind kind, const char *renew_max_ms,
                                           const char *remote)
{
        struct ferry_worker_request *request = keep_request(ferry_worker_request_new(kind));
        struct ferry_worker_operation *operation = NULL;

        assert_int_equal(ferry_worker_request_add(request, side->region, 0, 0), 0);
        if (renew_max_ms)
                assert_int_equal(ferry_worker_request_set(request, "renew_max_ms", renew_max_ms), 0);
        if (ferry_worker_operation_create(side->worker, request, remote, &operation) != 0)
                fail_msg("%s", ferry_worker_error());
        return keep_operation(operation);
}

TEST_WITH(a_peer_is_connected_to_by_metadata_or_url, setup, teardown)
{
        struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL), *read;

        assert_int_equal(ferry_worker_connect(b.worker, metadata_of(offer), WAIT_MS), 0);
        assert_int_equal(ferry_worker_connect(b.worker, ferry_worker_url(a.worker, 0), WAIT_MS), 0);
        read = make(&b, FERRY_READ, NULL, metadata_of(offer));
        assert_int_equal(ferry_worker_operation_wait(read, -1), 0);
        assert_string_equal(ferry_worker_operation_transport(read), "shm");
        assert_int_equal(ferry_worker_connect(a.worker, metadata_of(make(&a, FERRY_READABLE, NULL, NULL)), WAIT_MS),
                         FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_connect(a.worker, ferry_worker_url(a.worker, 0), WAIT_MS),
                         FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_connect(b.worker, "http://192.0.2.1", WAIT_MS), FERRY_E_FORBIDDEN);
        assert_int_equal(ferry_worker_connect(b.worker, "http://127.0.0.1:1", WAIT_MS), FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(ferry_worker_connect(b.worker, "{}", WAIT_MS), FERRY_E_INVALID_METADATA);
        assert_int_equal(ferry_worker_connect(b.worker, NULL, WAIT_MS), FERRY_E_INVALID_PARAMETER);
}

TEST_WITH(an_offer_is_declined, setup, teardown)
{
        struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL), *other;
        const char *metadata = metadata_of(offer);
        int r;

        assert_int_equal(ferry_worker_decline(b.worker, metadata, WAIT_MS), 0);
        assert_int_equal(ferry_worker_operation_wait(offer, 0), FERRY_E_DECLINED);
        assert_int_equal(ferry_worker_operation_status(offer), FERRY_CANCELLED);
        assert_int_equal(ferry_worker_region_remove(a.worker, a.region), 0);
        assert_int_equal(ferry_worker_decline(b.worker, metadata, WAIT_MS), 0);
        assert_int_equal(ferry_worker_region_alloc(a.worker, SIZE, NULL, NULL, &a.memory, a.region), 0);
        /* Without waiting for the answer. */
        other = make(&a, FERRY_WRITABLE, NULL, NULL);
        r = ferry_worker_decline(b.worker, metadata_of(other), 0);
        assert_true(r == 0 || r == -ETIMEDOUT);
        assert_int_equal(ferry_worker_operation_wait(other, WAIT_MS), FERRY_E_DECLINED);
        assert_int_equal(ferry_worker_decline(b.worker, "x", WAIT_MS), FERRY_E_INVALID_METADATA);
        assert_int_equal(ferry_worker_decline(b.worker, NULL, WAIT_MS), FERRY_E_INVALID_PARAMETER);
}

TEST_WITH(an_offer_is_kept, setup, teardown)
{
        struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, "3600000", NULL);
        struct ferry_worker_operation *other = make(&a, FERRY_READABLE, NULL, NULL);
        uint64_t left_ms = 0;

        assert_int_equal(ferry_worker_renew(b.worker, metadata_of(offer), 1800000, WAIT_MS, &left_ms), 0);
        assert_in_range(left_ms, 1790000, 1800000);
        assert_int_equal(ferry_worker_renew(b.worker, metadata_of(offer), 7200000, WAIT_MS, &left_ms), 0);
        assert_in_range(left_ms, 3590000, 3600000);
        assert_int_equal(ferry_worker_renew(b.worker, metadata_of(other), 0, WAIT_MS, NULL), FERRY_E_FORBIDDEN);
        assert_int_equal(
                ferry_worker_request_set(keep_request(ferry_worker_request_new(FERRY_READ)), "renew_max_ms", "5"),
                FERRY_E_INVALID_PARAMETER);
}

TEST_WITH(its_owner_renews_it, setup, teardown)
{
        struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL), *read;
        const char *before = metadata_of(offer), *after;

        assert_ptr_equal(metadata_of(offer), before);
        assert_int_equal(ferry_worker_operation_renew(offer, 3600000), 0);
        after = metadata_of(offer);
        assert_string_not_equal(after, before); /* which can still be read */
        read = make(&b, FERRY_READ, NULL, after);
        assert_int_equal(ferry_worker_operation_wait(read, -1), 0);
        assert_int_equal(ferry_worker_operation_wait(offer, -1), 0);
        assert_int_equal(ferry_worker_operation_renew(offer, 0), FERRY_E_GONE);
        assert_int_equal(ferry_worker_operation_renew(read, 0), FERRY_E_NOT_PASSIVE);
        assert_int_equal(ferry_worker_operation_renew(make(&a, FERRY_READABLE, NULL, NULL), UINT64_MAX),
                         FERRY_E_INVALID_PARAMETER);
}

/* ---- races ---- */

struct decliner {
        const char *metadata;
        pthread_barrier_t barrier;
        int result;
};

static void *run_decliner(void *argument)
{
        struct decliner *decliner = argument;

        pthread_barrier_wait(&decliner->barrier);
        decliner->result = ferry_worker_decline(b.worker, decliner->metadata, WAIT_MS);
        return NULL;
}

TEST_WITH(a_decline_and_a_read_agree, setup, teardown)
{
        for (int i = 0; i < ROUNDS; i++) {
                struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL), *read;
                struct decliner decliner = { .metadata = metadata_of(offer) };
                pthread_t thread;
                int end;

                pthread_barrier_init(&decliner.barrier, NULL, 2);
                assert_int_equal(pthread_create(&thread, NULL, run_decliner, &decliner), 0);
                pthread_barrier_wait(&decliner.barrier);
                read = make(&b, FERRY_READ, NULL, decliner.metadata);
                end = ferry_worker_operation_wait(read, -1);
                assert_int_equal(ferry_worker_operation_wait(offer, WAIT_MS), end);
                (void)pthread_join(thread, NULL);
                pthread_barrier_destroy(&decliner.barrier);
                if (end == 0)
                        assert_true(decliner.result == 0 || decliner.result == FERRY_E_ALREADY_CLAIMED);
                else
                        assert_true(end == FERRY_E_DECLINED && decliner.result == 0);
        }
}

/* The worker ends while a call of it is under way, whose answer nobody waits for. */
TEST_WITH(a_worker_may_end_before_the_answer_comes, setup, teardown)
{
        struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL);

        (void)ferry_worker_decline(b.worker, metadata_of(offer), 0);
        (void)ferry_worker_connect(b.worker, ferry_worker_url(a.worker, 0), 0);
        b.worker = ferry_worker_free(b.worker);
}

/* ---- events ---- */

static struct ferry_worker_events *watch(struct ferry_worker *worker, const char *after)
{
        struct ferry_worker_events *events = NULL;

        assert_int_equal(ferry_worker_events_new(worker, after, &events), 0);
        return keep_events(events);
}

/* Waits for an event of a type; what it says goes to text, which may be NULL. */
static void await_event(struct ferry_worker_events *events, const char *type, char *text, size_t size)
{
        struct pollfd poll_fd = { .fd = ferry_worker_events_fd(events), .events = POLLIN };
        const char *json;
        bool found = false;

        while (!found) {
                assert_int_equal(poll(&poll_fd, 1, WAIT_MS), 1);
                while (!found && ferry_worker_events_take(events, &json) == 1) {
                        struct json_object *event = json_tokener_parse(json);

                        assert_non_null(event);
                        found = strcmp(json_object_get_string(json_object_object_get(event, "type")), type) == 0;
                        if (found && text)
                                (void)snprintf(text, size, "%s",
                                               json_object_get_string(json_object_object_get(event, "id")));
                        json_object_put(event);
                }
        }
}

TEST_WITH(what_happens_is_told, setup, teardown)
{
        struct ferry_worker_events *events = watch(a.worker, NULL), *others = watch(b.worker, NULL);
        struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL);
        char id[64];
        const char *json;

        await_event(events, "operation.created", id, sizeof(id));
        assert_int_equal(ferry_worker_decline(b.worker, metadata_of(offer), WAIT_MS), 0);
        await_event(events, "operation.ended", NULL, 0);
        await_event(others, "peer.connected", NULL, 0);
        while (ferry_worker_events_take(events, &json) == 1)
                ;
        assert_int_equal(ferry_worker_events_take(events, &json), 0);
        /* From an event on, also for who comes later. */
        await_event(watch(a.worker, id), "operation.ended", NULL, 0);
        assert_int_equal(ferry_worker_events_new(a.worker, "x", &events), FERRY_E_INVALID_PARAMETER);
        events = watch(a.worker, "00000000000000aa-7"); /* of a worker that is no more */
        await_event(events, "restarted", NULL, 0);
        await_event(events, "operation.created", NULL, 0);
}

TEST_WITH(who_is_late_is_told_what_was_missed, setup, teardown)
{
        struct ferry_worker_events *events = watch(a.worker, NULL);
        const char *json;
        unsigned n = 0;

        for (int i = 0; i < 1100; i++) { /* two events each */
                struct ferry_worker_operation *offer = make(&a, FERRY_READABLE, NULL, NULL);

                ferry_worker_operation_cancel(offer);
                test_release(offer);
        }
        assert_int_equal(ferry_worker_events_take(events, &json), 1);
        assert_non_null(strstr(json, "{\"type\":\"missed\",\"missed\":"));
        while (ferry_worker_events_take(events, &json) == 1)
                n++;
        assert_int_equal(n, 2048);
}

static void *run_events(void *argument)
{
        struct ferry_worker_events *events = argument;

        await_event(events, "region.deleted", NULL, 0);
        return NULL;
}

TEST_WITH(events_outlive_the_worker, setup, teardown)
{
        struct ferry_worker_events *events = watch(b.worker, NULL);
        pthread_t thread;
        const char *json;

        assert_int_equal(pthread_create(&thread, NULL, run_events, watch(b.worker, NULL)), 0);
        assert_int_equal(ferry_worker_region_remove(b.worker, b.region), 0);
        (void)pthread_join(thread, NULL);
        b.worker = ferry_worker_free(b.worker);
        assert_int_equal(ferry_worker_events_take(events, &json), 1);
        while (ferry_worker_events_take(events, &json) == 1)
                ;
}
