/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"
#include "worker_fixture.h"

/* Transfers between two workers of one process, without HTTP. */

enum { SIZE = 3 << 20, MANY = 300 };

static char directory[] = "/tmp/ferry-worker-XXXXXX";

/* A worker with one region. */
struct side {
        struct ferry_worker *worker;
        char region[FERRY_WORKER_ID_SIZE];
        char *memory;
};

static struct side a, b;

static void side_new(struct side *side, struct ferry_worker *worker, bool own_memory)
{
        side->worker = worker;
        if (own_memory) {
                side->memory = calloc(1, SIZE);
                assert_non_null(side->memory);
                assert_int_equal(ferry_worker_region_add(side->worker, side->memory, SIZE, NULL, "own", side->region),
                                 0);
        } else {
                void *address;

                assert_int_equal(ferry_worker_region_alloc(side->worker, SIZE, NULL, NULL, &address, side->region), 0);
                side->memory = address;
        }
}

/* listener: an option that peers reach it by, instead of the directory; NULL = none. */
static void side_start(struct side *side, bool own_memory, const char *listener)
{
        side_new(side, listener ? WORKER(listener, "127.0.0.1:0") : WORKER("local", directory), own_memory);
}

static int setup_with(const char *listener)
{
        assert_non_null(mkdtemp(directory));
        side_start(&a, false, listener);
        side_start(&b, true, listener);
        return 0;
}

static int setup(void **state)
{
        return setup_with(NULL);
}

static int setup_http(void **state)
{
        return setup_with("listen");
}

static int setup_network(void **state)
{
        return setup_with("data-listen");
}

static int teardown(void **state)
{
        a.worker = ferry_worker_free(a.worker);
        b.worker = ferry_worker_free(b.worker);
        free(b.memory);
        assert_int_equal(rmdir(directory), 0);
        memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
        return 0;
}

TEST_KEEPS(request, struct ferry_worker_request, ferry_worker_request_free)
TEST_KEEPS(operation, struct ferry_worker_operation, ferry_worker_operation_free)

/* Requests and handles are until the end of the test. */
static struct ferry_worker_request *request_of(const struct side *side, enum ferry_kind kind, uint64_t size)
{
        struct ferry_worker_request *request = keep_request(ferry_worker_request_new(kind));

        assert_int_equal(ferry_worker_request_add(request, side->region, 0, size), 0);
        return request;
}

static struct ferry_worker_operation *start(const struct side *side, const struct ferry_worker_request *request,
                                            const char *remote)
{
        struct ferry_worker_operation *operation = NULL;

        if (ferry_worker_operation_create(side->worker, request, remote, &operation) != 0)
                fail_msg("%s", ferry_worker_error());
        return keep_operation(operation);
}

static struct ferry_worker_operation *create(const struct side *side, enum ferry_kind kind, uint64_t size,
                                             const char *remote)
{
        return start(side, request_of(side, kind, size), remote);
}

static void transfer_and_wait(const struct side *from, const struct side *to, enum ferry_kind active, uint64_t size)
{
        bool reads = active == FERRY_READ;
        struct ferry_worker_operation *offer =
                create(reads ? from : to, reads ? FERRY_READABLE : FERRY_WRITABLE, size, NULL);
        struct ferry_worker_operation *active_operation;

        memset(from->memory, 'x', size);
        memset(to->memory, 0, size);
        active_operation = create(reads ? to : from, active, size, metadata_of(offer));
        test_release(active_operation); /* it goes on */
        assert_int_equal(ferry_worker_operation_wait(offer, -1), 0);
}

TEST_WITH(all_four_kinds_move_bytes, setup, teardown)
{
        static const enum ferry_kind kinds[] = { FERRY_READ, FERRY_WRITE };
        static const uint64_t sizes[] = { 1, 4096, SIZE };

        for (size_t i = 0; i < 2; i++)
                for (size_t j = 0; j < 3; j++)
                        for (int k = 0; k < 2; k++) {
                                const struct side *from = k ? &a : &b, *to = k ? &b : &a;
                                bool reads = kinds[i] == FERRY_READ;
                                struct ferry_worker_operation *offer, *active_operation;

                                memset(from->memory, (int)(1 + i + j), sizes[j]);
                                memset(to->memory, 0, sizes[j]);
                                offer = create(reads ? from : to, reads ? FERRY_READABLE : FERRY_WRITABLE, sizes[j],
                                               NULL);
                                active_operation = create(reads ? to : from, kinds[i], sizes[j], metadata_of(offer));
                                assert_int_equal(ferry_worker_operation_wait(active_operation, -1), 0);
                                assert_int_equal(ferry_worker_operation_wait(offer, -1), 0);
                                assert_memory_equal(to->memory, from->memory, sizes[j]);
                                assert_int_equal(ferry_worker_operation_bytes_done(active_operation), sizes[j]);
                                assert_int_equal(ferry_worker_operation_bytes_total(offer), sizes[j]);
                                assert_string_equal(ferry_worker_operation_transport(active_operation), "shm");
                                test_release(active_operation);
                                test_release(offer);
                        }
}

TEST_WITH(a_handle_tells_what_was_asked_for_and_who_came, setup, teardown)
{
        struct ferry_worker_request *request = request_of(&a, FERRY_READABLE, 64);
        struct ferry_worker_operation *offer, *active_operation;

        assert_int_equal(ferry_worker_request_set(request, "label", "layer 7"), 0);
        assert_int_equal(ferry_worker_request_set(request, "layout", "stream"), 0);
        offer = start(&a, request, NULL);
        assert_string_equal(ferry_worker_operation_label(offer), "layer 7");
        assert_int_equal(ferry_worker_operation_layout(offer), FERRY_LAYOUT_STREAM);
        assert_string_equal(ferry_worker_operation_peer(offer), "");
        assert_string_equal(ferry_worker_operation_peer_epoch(offer), "");
        assert_memory_equal(ferry_worker_operation_id(offer), "op_", 3);
        assert_int_equal(ferry_worker_operation_duration_us(offer), 0);

        active_operation = create(&b, FERRY_READ, 64, metadata_of(offer));
        assert_int_equal(ferry_worker_operation_wait(active_operation, -1), 0);
        assert_int_equal(ferry_worker_operation_wait(offer, -1), 0);
        assert_string_equal(ferry_worker_operation_label(active_operation), "");
        assert_int_not_equal(ferry_worker_operation_layout(active_operation), FERRY_LAYOUT_STREAM);
        assert_string_equal(ferry_worker_operation_peer(active_operation), ferry_worker_name(a.worker));
        assert_int_equal(strlen(ferry_worker_operation_peer_epoch(active_operation)), 16);
        assert_int_equal(strlen(ferry_worker_operation_peer_epoch(offer)), 16);
        assert_string_equal(ferry_worker_operation_peer(offer), ferry_worker_name(b.worker));
        assert_string_not_equal(ferry_worker_operation_peer_epoch(active_operation),
                                ferry_worker_operation_peer_epoch(offer));
        assert_string_not_equal(ferry_worker_operation_id(active_operation), ferry_worker_operation_id(offer));
        assert_in_range(ferry_worker_operation_duration_us(active_operation), 1, WAIT_MS * 1000);
}

TEST_WITH(an_operation_goes_on_without_its_handle, setup, teardown)
{
        transfer_and_wait(&a, &b, FERRY_READ, SIZE);
        transfer_and_wait(&b, &a, FERRY_WRITE, SIZE);
}

TEST_WITH(waiting_has_a_limit, setup, teardown)
{
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);

        assert_int_equal(ferry_worker_operation_wait(offer, 0), -ETIMEDOUT);
        assert_int_equal(ferry_worker_operation_wait(offer, 10), -ETIMEDOUT);
        assert_int_equal(ferry_worker_operation_result(offer), -EAGAIN);
        assert_int_equal(ferry_worker_operation_status(offer), FERRY_INITIALIZED);
        ferry_worker_operation_cancel(offer);
        assert_int_equal(ferry_worker_operation_wait(offer, -1), FERRY_E_CANCELLED);
        assert_int_equal(ferry_worker_operation_status(offer), FERRY_CANCELLED);
        assert_true(*ferry_worker_error());
}

TEST_WITH(metadata_end_with_the_operation, setup, teardown)
{
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL), *active_operation;
        const char *text = NULL;
        const char *kept = text_keep(strdup(metadata_of(offer)));

        ferry_worker_operation_cancel(offer);
        active_operation = create(&b, FERRY_READ, 64, kept);
        assert_int_equal(ferry_worker_operation_metadata(active_operation, &text), FERRY_E_NOT_PASSIVE);
        assert_int_equal(ferry_worker_operation_wait(active_operation, -1), FERRY_E_CANCELLED_BY_PEER);
        test_release(offer);
        offer = create(&a, FERRY_WRITABLE, 64, NULL);
        ferry_worker_operation_cancel(offer);
        assert_int_equal(ferry_worker_operation_metadata(offer, &text), FERRY_E_GONE);
        assert_null(text);
}

/* ---- what is refused ---- */

static int error_of(const struct ferry_worker_request *request, const char *remote)
{
        struct ferry_worker_operation *operation = NULL;
        int r = ferry_worker_operation_create(b.worker, request, remote, &operation);

        assert_null(operation);
        assert_true(*ferry_worker_error());
        return r;
}

/* By what the metadata say of where a listens. */
static void read_beyond_the_directory(void)
{
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);

        assert_int_equal(ferry_worker_operation_wait(create(&b, FERRY_READ, 64, metadata_of(offer)), -1), 0);
}

TEST_WITH(a_peer_beyond_the_directory_comes_by_http, setup_http, teardown)
{
        read_beyond_the_directory();
}

TEST_WITH(a_peer_beyond_the_directory_comes_by_the_network, setup_network, teardown)
{
        read_beyond_the_directory();
}

TEST_WITH(what_does_not_fit_is_refused_before_anything_starts, setup, teardown)
{
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);
        struct ferry_worker_request *read = request_of(&b, FERRY_READ, 64), *larger = request_of(&b, FERRY_READ, 65),
                                    *write = request_of(&b, FERRY_WRITE, 64),
                                    *beyond = request_of(&b, FERRY_READ, SIZE + 1),
                                    *unknown = request_of(&a, FERRY_READABLE, 64),
                                    *empty = keep_request(ferry_worker_request_new(FERRY_READABLE));

        assert_int_equal(error_of(larger, metadata_of(offer)), FERRY_E_SIZE_MISMATCH);
        assert_int_equal(error_of(write, metadata_of(offer)), FERRY_E_KIND_MISMATCH);
        assert_int_equal(error_of(beyond, metadata_of(offer)), FERRY_E_OUT_OF_BOUNDS);
        assert_int_equal(error_of(read, NULL), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(error_of(read, "{}"), FERRY_E_INVALID_METADATA);
        assert_int_equal(error_of(read, "nonsense"), FERRY_E_INVALID_METADATA);
        assert_int_equal(error_of(read, "http://192.0.2.1/v1/operations/op_0123456789abcdef/metadata"),
                         FERRY_E_FORBIDDEN);
        assert_int_equal(error_of(unknown, NULL), FERRY_E_NOT_FOUND); /* of the other worker */
        assert_ptr_equal(metadata_of(offer), metadata_of(offer));
        assert_int_equal(ferry_worker_region_remove(b.worker, b.region), 0); /* nothing is left that uses it */
        assert_int_equal(error_of(empty, NULL), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_operation_status(offer), FERRY_INITIALIZED);
}

TEST_WITH(arguments_that_are_missing_are_told, setup, teardown)
{
        struct ferry_worker_options *options = ferry_worker_options_new();
        struct ferry_worker_request *read = request_of(&b, FERRY_READ, 64);
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);
        const int answers[] = { ferry_worker_options_set(options, NULL, "x"),
                                ferry_worker_options_set(options, "name", NULL),
                                ferry_worker_request_add(read, NULL, 0, 1),
                                ferry_worker_request_add_blocks(read, b.region, 0, 1, NULL, 2),
                                ferry_worker_request_add_remote(read, NULL, NULL, 1),
                                ferry_worker_request_set(read, NULL, "x"),
                                ferry_worker_request_set(read, "label", NULL),
                                ferry_worker_operation_notify(offer, NULL, NULL),
                                error_of(NULL, NULL) };

        for (size_t i = 0; i < UNIT_COUNT(answers); i++)
                assert_int_equal(answers[i], FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_region_remove(a.worker, NULL), FERRY_E_NOT_FOUND);
        (void)ferry_worker_options_free(options);
}

TEST_WITH(a_request_takes_the_fields_of_its_kind, setup, teardown)
{
        static const struct {
                enum ferry_kind kind;
                const char *name, *value;
                int error;
        } cases[] = {
                { FERRY_READABLE, "ttl_ms", "1000", 0 },
                { FERRY_READABLE, "readers", "2", 0 },
                { FERRY_READABLE, "uses", "unlimited", 0 },
                { FERRY_WRITABLE, "uses", "unlimited", 0 },
                { FERRY_READABLE, "uses", "4294967295", FERRY_E_INVALID_PARAMETER },
                { FERRY_READABLE, "uses", "endless", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "uses", "unlimited", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "timeout_ms", "1000", 0 },
                { FERRY_READ, "verify", "true", 0 },
                { FERRY_READ, "transports", "shm,tcp", 0 },
                { FERRY_READ, "layout", "stream", 0 },
                { FERRY_READ, "label", "kv", 0 },
                { FERRY_READ, "label", "", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "label", "caf\xc3", FERRY_E_INVALID_PARAMETER }, /* cut short; lists would not be JSON */
                { FERRY_READABLE, "follow", "op_0123456789abcdef", 0 },
                { FERRY_READABLE, "follow", "op_0", FERRY_E_INVALID_PARAMETER },
                { FERRY_WRITABLE, "follow", "op_0123456789abcdef", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "relay", "true", 0 },
                { FERRY_WRITE, "relay", "true", FERRY_E_INVALID_PARAMETER },
                { FERRY_READABLE, "uses", "2", 0 },
                { FERRY_WRITABLE, "uses", "2", 0 },
                { FERRY_WRITABLE, "uses", "0", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "uses", "2", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "ttl_ms", "1000", FERRY_E_INVALID_PARAMETER },
                { FERRY_WRITABLE, "readers", "2", FERRY_E_INVALID_PARAMETER },
                { FERRY_READABLE, "readers", "4294967295", FERRY_E_INVALID_PARAMETER }, /* "unlimited", inside */
                { FERRY_READABLE, "verify", "true", FERRY_E_INVALID_PARAMETER },
                { FERRY_READABLE, "ttl_ms", "-1", FERRY_E_INVALID_PARAMETER },
                { FERRY_READABLE, "ttl_ms", "1s", FERRY_E_INVALID_PARAMETER },
                { FERRY_READABLE, "ttl_ms", "99999999999999999999", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "verify", "yes", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "transports", "shm,", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "transports", "", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "layout", "loose", FERRY_E_INVALID_PARAMETER },
                { FERRY_READ, "colour", "red", FERRY_E_UNKNOWN_FIELD },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct ferry_worker_request *request = ferry_worker_request_new(cases[i].kind);

                assert_non_null(request);
                assert_int_equal(ferry_worker_request_set(request, cases[i].name, cases[i].value), cases[i].error);
                (void)ferry_worker_request_free(request);
        }
        assert_null(ferry_worker_request_new(FERRY_KIND_COUNT));
}

/* Of the metadata that the server at that port has. */
static const char *url_at(uint16_t port)
{
        return text_format("http://127.0.0.1:%u/v1/operations/op_0123456789abcdef/metadata", (unsigned)port);
}

static struct ferry_worker_request *follow_of(const struct side *side, struct ferry_worker_operation *read,
                                              uint64_t size)
{
        struct ferry_worker_request *request = request_of(side, FERRY_READABLE, size);

        assert_int_equal(ferry_worker_request_set(request, "follow", ferry_worker_operation_id(read)), 0);
        return request;
}

TEST_WITH(an_offer_follows_a_read_and_ends_with_it, setup, teardown)
{
        uint16_t port;
        int silent = raw_listen(&port); /* a worker that never answers */
        struct ferry_worker_operation *read = create(&b, FERRY_READ, 4096, url_at(port)), *held, *last;

        held = start(&b, follow_of(&b, read, 4096), NULL);
        last = create(&a, FERRY_READ, 4096, metadata_of(held));
        assert_int_equal(ferry_worker_operation_wait(last, 20), -ETIMEDOUT); /* nothing has arrived */
        ferry_worker_operation_cancel(read);
        assert_int_equal(ferry_worker_operation_wait(held, -1), FERRY_E_CANCELLED);
        assert_int_not_equal(ferry_worker_operation_wait(last, -1), 0);
        assert_int_equal(error_of(follow_of(&b, read, 4096), NULL), FERRY_E_GONE);
        assert_int_equal(error_of(follow_of(&b, held, 4096), NULL), FERRY_E_KIND_MISMATCH);
        assert_string_equal(ferry_worker_error(), "Only a read can be followed");
        assert_int_equal(error_of(follow_of(&b, last, 4096), NULL), FERRY_E_NOT_FOUND); /* of the other worker */
        (void)close(silent);
}

TEST_WITH(an_offer_that_follows_a_read_serves_what_it_brings, setup, teardown)
{
        struct ferry_worker_request *relay = request_of(&b, FERRY_READ, SIZE / 2);
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, SIZE / 2, NULL), *read, *followed, *last;
        struct ferry_worker_request *back = keep_request(ferry_worker_request_new(FERRY_READ));

        memset(a.memory, 'f', SIZE / 2);
        assert_int_equal(ferry_worker_request_set(relay, "relay", "true"), 0);
        assert_int_equal(ferry_worker_request_add(back, a.region, SIZE / 2, SIZE / 2), 0);
        read = start(&b, relay, metadata_of(offer));
        assert_int_equal(error_of(follow_of(&b, read, SIZE), NULL), FERRY_E_OUT_OF_BOUNDS);
        followed = start(&b, follow_of(&b, read, SIZE / 2), NULL);
        last = start(&a, back, metadata_of(followed));
        assert_int_equal(ferry_worker_operation_wait(last, -1), 0);
        assert_int_equal(ferry_worker_operation_wait(followed, -1), 0);
        assert_memory_equal(a.memory + SIZE / 2, a.memory, SIZE / 2);
}

TEST_WITH(rows_of_a_region_move_as_one_stream, setup, teardown)
{
        struct ferry_worker_request *rows = keep_request(ferry_worker_request_new(FERRY_READABLE)),
                                    *whole = request_of(&b, FERRY_READ, 12);
        struct ferry_worker_operation *offer = NULL, *active_operation = NULL;

        for (int i = 0; i < 64; i++)
                a.memory[i] = (char)('A' + i);
        assert_int_equal(ferry_worker_request_add_row(rows, a.region, 2, 4, 0, 10), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_request_add_row(rows, a.region, 2, 0, 3, 10), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_request_add_row(rows, a.region, 2, 4, 3, 3), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_request_add_row(rows, a.region, 2, 4, 3, 10), 0);
        assert_int_equal(ferry_worker_request_add_row(rows, a.region, 32, 1, 1, 0), 0);
        assert_int_equal(ferry_worker_request_add_row(rows, a.region, 33, 2, 3, 2), 0);
        assert_int_equal(ferry_worker_request_add(whole, b.region, 12, 1), 0);
        assert_int_equal(ferry_worker_request_add(whole, b.region, 13, 6), 0);
        offer = start(&a, rows, NULL);
        active_operation = start(&b, whole, metadata_of(offer));
        assert_int_equal(ferry_worker_operation_wait(active_operation, -1), 0);
        assert_memory_equal(b.memory, "CDEFMNOPWXYZabcdefg", 19);
}

TEST_WITH(no_size_is_the_rest_of_the_region, setup, teardown)
{
        enum { LAST = 5 };
        struct ferry_worker_request *rest = keep_request(ferry_worker_request_new(FERRY_READABLE)),
                                    *none = keep_request(ferry_worker_request_new(FERRY_READABLE));
        struct ferry_worker_operation *offer, *active_operation;

        assert_int_equal(ferry_worker_request_add(rest, a.region, SIZE - LAST, 0), 0);
        memcpy(a.memory + SIZE - LAST, "FERRY", LAST);
        offer = start(&a, rest, NULL);
        assert_int_equal(ferry_worker_operation_bytes_total(offer), LAST);
        active_operation = create(&b, FERRY_READ, LAST, metadata_of(offer));
        assert_int_equal(ferry_worker_operation_wait(active_operation, -1), 0);
        assert_memory_equal(b.memory, "FERRY", LAST);

        assert_int_equal(ferry_worker_request_add(none, b.region, SIZE, 0), 0);
        assert_int_equal(error_of(none, NULL), FERRY_E_OUT_OF_BOUNDS);
}

TEST_WITH(blocks_move_in_the_order_in_which_they_are_named, setup, teardown)
{
        static const uint64_t named[] = { 7, 0, 3 };
        struct ferry_worker_request *blocks = keep_request(ferry_worker_request_new(FERRY_READABLE)),
                                    *whole = request_of(&b, FERRY_READ, 12);
        struct ferry_worker_operation *offer = NULL, *active_operation = NULL;

        for (int i = 0; i < 64; i++)
                a.memory[i] = (char)('A' + i);
        assert_int_equal(ferry_worker_request_add_blocks(blocks, a.region, 1, 4, named, 0), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_request_add_blocks(blocks, a.region, 1, 0, named, 3), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_request_add_blocks(blocks, a.region, 1, 4, named, 3), 0);
        offer = start(&a, blocks, NULL);
        active_operation = start(&b, whole, metadata_of(offer));
        assert_int_equal(ferry_worker_operation_wait(active_operation, -1), 0);
        assert_memory_equal(b.memory, "^_`aBCDENOPQ", 12);
}

/* ---- hearing of ends ---- */

static void ring(void *context)
{
        bell_ring(context);
}

TEST_WITH(parts_of_an_offer_move_in_their_order, setup, teardown)
{
        static const uint64_t offsets[] = { SIZE - 500000, 7, 1000 }, sizes[] = { 500000, 1, 70000 };
        const size_t total = 500000 + 1 + 70000;

        for (int reads = 0; reads < 2; reads++) {
                struct ferry_worker_request *offered = request_of(&a, reads ? FERRY_READABLE : FERRY_WRITABLE, SIZE);
                struct ferry_worker_request *parts = request_of(&b, reads ? FERRY_READ : FERRY_WRITE, total);
                struct ferry_worker_operation *offer, *active;

                assert_int_equal(ferry_worker_request_set(offered, "uses", "unlimited"), 0);
                assert_int_equal(ferry_worker_request_add_remote(parts, offsets, sizes, 2), 0);
                assert_int_equal(ferry_worker_request_add_remote(parts, offsets + 2, sizes + 2, 1), 0);
                for (size_t i = 0; i < SIZE; i++) {
                        a.memory[i] = reads ? (char)(i % 251) : 'a';
                        b.memory[i] = reads ? 'b' : (char)(i % 251);
                }
                offer = start(&a, offered, NULL);
                active = start(&b, parts, metadata_of(offer));
                assert_int_equal(ferry_worker_operation_wait(active, -1), 0);
                assert_int_equal(ferry_worker_operation_bytes_done(active), total);
                for (size_t i = 0, at = 0; i < UNIT_COUNT(offsets); at += sizes[i++])
                        assert_memory_equal(b.memory + at, a.memory + offsets[i], sizes[i]);
                assert_int_equal(reads ? b.memory[total] : a.memory[offsets[0] - 1], reads ? 'b' : 'a');
                assert_int_equal(ferry_worker_operation_status(offer), FERRY_IN_PROGRESS);
                ferry_worker_operation_cancel(offer);
                assert_int_equal(ferry_worker_operation_wait(offer, -1), FERRY_E_CANCELLED);
        }
}

TEST_AGAIN(parts_of_an_offer_move_in_their_order, over_http, setup_http, teardown)
TEST_AGAIN(parts_of_an_offer_move_in_their_order, over_the_network, setup_network, teardown)

TEST_WITH(parts_that_do_not_fit_the_offer_are_refused, setup, teardown)
{
        static const struct {
                uint64_t offset, size;
                int error;
        } rows[] = {
                { SIZE - 63, 64, FERRY_E_OUT_OF_BOUNDS },
                { UINT64_MAX, 64, FERRY_E_OUT_OF_BOUNDS },
                { UINT64_C(1) << 63, 64, FERRY_E_OUT_OF_BOUNDS },
                { 0, 63, FERRY_E_SIZE_MISMATCH },
                { 0, 0, FERRY_E_INVALID_PARAMETER },
        };
        struct ferry_worker_request *passive = request_of(&a, FERRY_READABLE, SIZE);

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct ferry_worker_request *read = request_of(&b, FERRY_READ, 64);
                struct ferry_worker_operation *offer = start(&a, passive, NULL);

                assert_int_equal(ferry_worker_request_add_remote(read, &rows[i].offset, &rows[i].size, 1), 0);
                assert_int_equal(error_of(read, metadata_of(offer)), rows[i].error);
                assert_int_equal(ferry_worker_operation_status(offer), FERRY_INITIALIZED);
                ferry_worker_operation_cancel(offer);
                (void)ferry_worker_operation_wait(offer, -1);
        }
        assert_int_equal(ferry_worker_request_add_remote(passive, &rows[0].offset, &rows[0].size, 1),
                         FERRY_E_INVALID_PARAMETER);
}

TEST_WITH(a_callback_tells_of_the_end_once, setup, teardown)
{
        struct bell bell = BELL;
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, SIZE, NULL), *active_operation;

        assert_int_equal(ferry_worker_operation_notify(offer, ring, &bell), 0);
        assert_int_equal(bell.times, 0);
        active_operation = create(&b, FERRY_READ, SIZE, metadata_of(offer));
        bell_await(&bell, 1);
        assert_int_equal(ferry_worker_operation_result(offer), 0);
        assert_int_equal(ferry_worker_operation_notify(offer, ring, &bell), 0); /* at once */
        assert_int_equal(bell.times, 2);
        assert_int_equal(ferry_worker_operation_wait(active_operation, -1), 0);
}

/* Which transports allows none of what the metadata of a have. */
static void read_by_nothing(const char *transports)
{
        struct bell bell = BELL;
        const char *metadata = metadata_of(create(&a, FERRY_READABLE, 64, NULL));
        struct ferry_worker_request *request = request_of(&b, FERRY_READ, 64);
        struct ferry_worker_operation *read;
        uint16_t port;
        int server = raw_listen(&port), fd;

        assert_int_equal(ferry_worker_request_set(request, "transports", transports), 0);
        read = start(&b, request, url_at(port));
        assert_int_equal(ferry_worker_operation_notify(read, ring, &bell), 0);
        fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        (void)raw_read_head(fd);
        const char *answer =
                text_format("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(metadata), metadata);
        raw_send(fd, answer, strlen(answer));
        bell_await(&bell, 1);
        assert_int_equal(ferry_worker_operation_result(read), FERRY_E_PEER_UNREACHABLE);
        assert_non_null(strstr(ferry_worker_error(), "no URL"));
        (void)close(fd);
        (void)close(server);
}

TEST_WITH(an_end_without_a_url_is_told, setup, teardown)
{
        read_by_nothing("http");
}

TEST_WITH(an_end_without_a_url_that_is_allowed_is_told, setup_http, teardown)
{
        read_by_nothing("https");
}

TEST_WITH(a_cancel_waits_for_no_answer_over_http, setup, teardown)
{
        struct side far = { 0 };
        struct ferry_worker_operation *read;
        uint16_t port;
        int silent = raw_listen(&port), fd;
        const char *url = text_format("http://127.0.0.1:%u", (unsigned)port);

        side_new(&far, WORKER("advertise", url), true);
        read = create(&b, FERRY_READ, 64, metadata_of(create(&far, FERRY_READABLE, 64, NULL)));
        fd = accept4(silent, NULL, NULL, SOCK_CLOEXEC);
        (void)raw_read_head(fd);
        ferry_worker_operation_cancel(read);
        assert_int_equal(ferry_worker_operation_wait(read, WAIT_MS), FERRY_E_CANCELLED);
        (void)close(fd);
        (void)close(silent);
        (void)ferry_worker_free(far.worker);
        free(far.memory);
}

static bool readable(int fd, int timeout_ms)
{
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

        return poll(&poll_fd, 1, timeout_ms) == 1;
}

TEST_WITH(a_queue_tells_of_hundreds_through_one_descriptor, setup, teardown)
{
        struct ferry_worker_queue *queue = NULL;
        bool seen[MANY] = { false };
        void *context = NULL;
        int n = 0;

        assert_int_equal(ferry_worker_queue_new(&queue), 0);
        assert_false(readable(ferry_worker_queue_fd(queue), 0));
        assert_int_equal(ferry_worker_queue_take(queue, &context), 0);
        for (size_t i = 0; i < MANY; i++) {
                struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 4096, NULL);
                struct ferry_worker_operation *active_operation = create(&b, FERRY_READ, 4096, metadata_of(offer));

                assert_int_equal(ferry_worker_queue_add(queue, offer, (void *)i), 0);
                test_release(offer);
                test_release(active_operation);
        }
        while (n < MANY) {
                assert_true(readable(ferry_worker_queue_fd(queue), 10000));
                for (; ferry_worker_queue_take(queue, &context); n++) {
                        assert_false(seen[(size_t)context]);
                        seen[(size_t)context] = true;
                }
        }
        /* A signal may come when its operation was taken already; it must not stay. */
        while (readable(ferry_worker_queue_fd(queue), 0))
                assert_int_equal(ferry_worker_queue_take(queue, &context), 0);
        (void)ferry_worker_queue_free(queue);
}

TEST_WITH(a_queue_is_readable_until_the_last_is_taken, setup, teardown)
{
        struct ferry_worker_queue *queue = NULL;
        void *context = NULL;

        assert_int_equal(ferry_worker_queue_new(&queue), 0);
        for (int i = 0; i < 2; i++) {
                struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);

                ferry_worker_operation_cancel(offer);
                assert_int_equal(ferry_worker_queue_add(queue, offer, NULL), 0);
        }
        for (int left = 2; left > 0; left--) {
                assert_true(readable(ferry_worker_queue_fd(queue), 0));
                assert_int_equal(ferry_worker_queue_take(queue, &context), 1);
        }
        assert_false(readable(ferry_worker_queue_fd(queue), 0));
        (void)ferry_worker_queue_free(queue);
}

TEST_WITH(a_queue_gives_the_ends_in_their_order, setup, teardown)
{
        static const size_t order[] = { 2, 0, 1 };
        struct ferry_worker_operation *offers[UNIT_COUNT(order)];
        struct ferry_worker_queue *queue = NULL;
        void *context = NULL;

        assert_int_equal(ferry_worker_queue_new(&queue), 0);
        for (size_t i = 0; i < UNIT_COUNT(order); i++) {
                offers[i] = create(&a, FERRY_READABLE, 64, NULL);
                assert_int_equal(ferry_worker_queue_add(queue, offers[i], offers[i]), 0);
        }
        for (size_t i = 0; i < UNIT_COUNT(order); i++)
                ferry_worker_operation_cancel(offers[order[i]]);
        for (size_t i = 0; i < UNIT_COUNT(order); i++) {
                assert_int_equal(ferry_worker_queue_take(queue, &context), 1);
                assert_ptr_equal(context, offers[order[i]]);
        }
        (void)ferry_worker_queue_free(queue);
}

TEST_WITH(a_forked_child_leaves_the_queue_to_its_parent, setup, teardown)
{
        struct ferry_worker_queue *queue = NULL;
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);
        void *context = NULL;
        int status;
        pid_t child;

        ferry_worker_operation_cancel(offer);
        assert_int_equal(ferry_worker_queue_new(&queue), 0);
        assert_int_equal(ferry_worker_queue_add(queue, offer, offer), 0);
        child = fork();
        if (child == 0) {
                bool added = ferry_worker_queue_add(queue, offer, offer) != -ECHILD;
                bool taken = ferry_worker_queue_take(queue, &context) != 0;

                (void)ferry_worker_queue_free(queue);
                _exit(added || taken || fcntl(ferry_worker_queue_fd(queue), F_GETFD) < 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(readable(ferry_worker_queue_fd(queue), 0));
        assert_int_equal(ferry_worker_queue_take(queue, &context), 1);
        (void)ferry_worker_queue_free(queue);
}

TEST_WITH(a_queue_may_be_freed_before_the_operations_end, setup, teardown)
{
        struct ferry_worker_queue *queue = NULL;
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);

        assert_int_equal(ferry_worker_queue_new(&queue), 0);
        assert_int_equal(ferry_worker_queue_add(queue, offer, NULL), 0);
        (void)ferry_worker_queue_free(queue);
        ferry_worker_operation_cancel(offer);
        assert_int_equal(ferry_worker_operation_wait(offer, -1), FERRY_E_CANCELLED);
}

/* ---- the end ---- */

TEST_WITH(memory_is_quiet_after_the_worker_is_freed, setup, teardown)
{
        struct bell bell = BELL;
        struct ferry_worker_operation *offers[8], *reads[8];
        struct ferry_worker_queue *queue = NULL;
        void *context = NULL;
        char *before = malloc(SIZE);

        assert_non_null(before);
        assert_int_equal(ferry_worker_queue_new(&queue), 0);
        for (int i = 0; i < 8; i++) {
                offers[i] = create(&a, FERRY_READABLE, SIZE, NULL);
                reads[i] = create(&b, FERRY_READ, SIZE, metadata_of(offers[i]));
                assert_int_equal(ferry_worker_operation_notify(reads[i], ring, &bell), 0);
                assert_int_equal(ferry_worker_queue_add(queue, reads[i], reads[i]), 0);
        }
        b.worker = ferry_worker_free(b.worker);
        assert_int_equal(bell.times, 8);
        memcpy(before, b.memory, SIZE);
        memset(a.memory, 'y', SIZE);
        for (int i = 0; i < 8; i++) {
                int result = ferry_worker_operation_wait(reads[i], -1);

                assert_true(result == 0 || result == FERRY_E_CANCELLED);
                assert_int_equal(ferry_worker_queue_take(queue, &context), 1);
                ferry_worker_operation_cancel(offers[i]); /* of which the read may not have told */
                (void)ferry_worker_operation_wait(offers[i], -1);
                test_release(offers[i]);
                test_release(reads[i]);
        }
        assert_int_equal(ferry_worker_queue_take(queue, &context), 0);
        assert_memory_equal(b.memory, before, SIZE);
        (void)ferry_worker_queue_free(queue);
        free(before);
}

TEST_WITH(a_draining_worker_takes_nothing_more, setup, teardown)
{
        struct ferry_worker_request *request = request_of(&b, FERRY_READABLE, 64);
        struct ferry_worker_operation *waiting = create(&b, FERRY_READABLE, 64, NULL);

        assert_int_equal(ferry_worker_drain(b.worker, 1000), 0);
        assert_int_equal(ferry_worker_operation_result(waiting), FERRY_E_CANCELLED);
        assert_int_equal(error_of(request, NULL), FERRY_E_DRAINING);
}

TEST_WITH(memory_in_use_cannot_be_removed, setup, teardown)
{
        struct ferry_worker_operation *offer = create(&a, FERRY_READABLE, 64, NULL);

        assert_int_equal(ferry_worker_region_remove(a.worker, a.region), FERRY_E_REGION_IN_USE);
        ferry_worker_operation_cancel(offer);
        assert_int_equal(ferry_worker_operation_wait(offer, -1), FERRY_E_CANCELLED);
        assert_int_equal(ferry_worker_region_remove(a.worker, a.region), 0);
}

/* The reader may have the only message of a short transfer, and be COMPLETE, before the owner knows that it was sent.
 */
TEST_WITH(memory_can_be_removed_as_soon_as_one_side_is_complete, setup, teardown)
{
        enum { ROUNDS = 100 };
        static const enum ferry_kind passive[] = { FERRY_READABLE, FERRY_WRITABLE };
        void *address;

        for (int i = 0; i < ROUNDS * 4; i++) {
                enum ferry_kind kind = passive[i % 2];
                struct ferry_worker_operation *offer = create(&a, kind, 64, NULL);
                struct ferry_worker_operation *move =
                        create(&b, kind == FERRY_READABLE ? FERRY_READ : FERRY_WRITE, 64, metadata_of(offer));
                bool owner_first = i / 2 % 2;
                struct side *removed = owner_first ? &a : &b;

                assert_int_equal(ferry_worker_operation_wait(owner_first ? move : offer, -1), 0);
                assert_int_equal(ferry_worker_region_remove(removed->worker, removed->region), 0);
                if (owner_first)
                        assert_int_equal(ferry_worker_region_alloc(a.worker, SIZE, NULL, NULL, &address, a.region), 0);
                else
                        assert_int_equal(ferry_worker_region_add(b.worker, b.memory, SIZE, NULL, "own", b.region), 0);
                assert_int_equal(ferry_worker_operation_wait(owner_first ? offer : move, -1), 0);
                test_release(move);
                test_release(offer);
        }
        a.memory = address;
}
TEST_AGAIN(memory_can_be_removed_as_soon_as_one_side_is_complete, over_http, setup_http, teardown)
TEST_AGAIN(memory_can_be_removed_as_soon_as_one_side_is_complete, over_the_network, setup_network, teardown)
