/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

/* Regions, operations and their bytes: harness.h over libferry. */

static void assert_call(struct worker *w, int result, const char *what)
{
        if (result != 0)
                print_error("worker %s: %s: %d %s\n", w->name, what, result, ferry_last_message(w->client));
        assert_int_equal(result, 0);
}

/* splitmix64, so that any slice of the pattern can be made alone. */
static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
        uint64_t z = seed * UINT64_C(0x9e3779b97f4a7c15) + (index + 1) * UINT64_C(0xbf58476d1ce4e5b9);

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

void pattern_fill(uint64_t seed, uint64_t offset, void *buffer, size_t size)
{
        uint8_t *to = buffer;

        if (seed == 0) {
                memset(buffer, 0, size);
                return;
        }
        while (size > 0) {
                uint64_t word = pattern_word(seed, offset / 8);
                size_t skip = offset % 8, n = 8 - skip < size ? 8 - skip : size;

                memcpy(to, (const uint8_t *)&word + skip, n);
                to += n;
                offset += n;
                size -= n;
        }
}

struct pattern_source {
        uint64_t seed, offset, left;
};

static ssize_t pattern_read(void *context, void *buffer, size_t size)
{
        struct pattern_source *s = context;
        size_t n = size < s->left ? size : (size_t)s->left;

        pattern_fill(s->seed, s->offset, buffer, n);
        s->offset += n;
        s->left -= n;
        return (ssize_t)n;
}

const char *region_make(struct worker *w, uint64_t size, uint64_t seed)
{
        struct ferry_region_spec spec = { .size = size };
        struct pattern_source source = { .seed = seed, .left = size };
        struct ferry_region region;

        assert_call(w, ferry_create_region(w->client, &spec, &region), "create region");
        if (seed != 0)
                assert_call(w, ferry_put_region_content_from(w->client, region.id, 0, pattern_read, &source, size),
                            "fill region");
        return text_format("%s", region.id);
}

void *region_map(struct worker *w, const char *id)
{
        struct ferry_region region;
        void *memory;
        int fd;

        assert_int_equal(ferry_get_region(w->client, id, &region), 0);
        fd = open(region.path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        memory = mmap(NULL, region.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(memory != MAP_FAILED);
        (void)close(fd);
        return memory;
}

void region_drop(struct worker *w, const char *id)
{
        assert_call(w, ferry_delete_region(w->client, id), "delete region");
}

struct pattern_check {
        uint64_t seed, offset;
        bool good;
};

static int pattern_compare(void *context, const void *data, size_t size)
{
        struct pattern_check *c = context;
        uint8_t wanted[4096];

        for (size_t at = 0; at < size;) {
                size_t n = size - at < sizeof(wanted) ? size - at : sizeof(wanted);

                pattern_fill(c->seed, c->offset, wanted, n);
                if (memcmp((const uint8_t *)data + at, wanted, n) != 0)
                        c->good = false;
                c->offset += n;
                at += n;
        }
        return 0;
}

void region_assert_pattern(struct worker *w, const char *id, uint64_t seed, uint64_t offset, uint64_t size)
{
        struct pattern_check check = { .seed = seed, .offset = offset, .good = true };
        uint64_t n;

        assert_call(w, ferry_get_region_content_to(w->client, id, offset, size, pattern_compare, &check, &n),
                    "read region");
        assert_int_equal(n, size);
        assert_true(check.good);
}

void offer_with(struct worker *w, const char *region, struct ferry_operation_spec spec,
                struct ferry_operation *ret_operation)
{
        spec.descriptors = &(struct ferry_descriptor){ .region = region };
        spec.n_descriptors = 1;
        spec.include_metadata = true;
        assert_call(w, ferry_create_operation(w->client, &spec, ret_operation), "create passive operation");
        assert_non_null(ret_operation->metadata);
}

void offer_make(struct worker *w, enum ferry_kind kind, const char *region, struct ferry_operation *ret_operation)
{
        OFFER(w, region, ret_operation, .kind = kind);
}

static void begin(struct worker *w, enum ferry_kind kind, const char *region, const char *metadata, bool verify,
                  struct ferry_operation *ret_operation)
{
        struct ferry_descriptor descriptor = { .region = region };
        struct ferry_operation_spec spec = { .kind = kind,
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .remote_metadata = metadata,
                                             .verify = verify };

        assert_call(w, ferry_create_operation(w->client, &spec, ret_operation), "create active operation");
}

void begin_make(struct worker *w, enum ferry_kind kind, const char *region, const char *metadata,
                struct ferry_operation *ret_operation)
{
        begin(w, kind, region, metadata, false, ret_operation);
}

void begin_verified(struct worker *w, enum ferry_kind kind, const char *region, const char *metadata,
                    struct ferry_operation *ret_operation)
{
        begin(w, kind, region, metadata, true, ret_operation);
}

enum { ROWS = 512, ROW = 256 /* as many pieces as one message names */ };

uint64_t rows_begin(uint64_t size)
{
        return 2 * (size / ROWS);
}

/* Pieces that follow each other do not touch. metadata NULL = of a passive operation. */
static void create_in_rows(struct worker *w, enum ferry_kind kind, const char *region, uint64_t size,
                           const char *metadata, struct ferry_operation *ret_operation)
{
        struct ferry_descriptor rows[ROWS];
        struct ferry_operation_spec spec = { .kind = kind,
                                             .descriptors = rows,
                                             .n_descriptors = ROWS,
                                             .layout = FERRY_LAYOUT_STREAM,
                                             .include_metadata = !metadata,
                                             .remote_metadata = metadata,
                                             .verify = metadata != NULL }; /* takes longer */
        const uint64_t piece = size / (ROWS * ROW);

        assert_int_equal(size % (ROWS * ROW), 0);
        /* The even pieces of two rows, then the odd ones: a follower has the first bytes of the region early. */
        for (uint64_t i = 0; i < ROWS; i++)
                rows[i] = (struct ferry_descriptor){
                        .region = region,
                        .offset = i / 2 * 2 * ROW * piece + (i & 1 ? piece : 0),
                        .size = piece,
                        .count = ROW,
                        .stride = 2 * piece,
                };
        assert_call(w, ferry_create_operation(w->client, &spec, ret_operation), "create operation in rows");
}

void offer_in_rows(struct worker *w, enum ferry_kind kind, const char *region, uint64_t size,
                   struct ferry_operation *ret_operation)
{
        create_in_rows(w, kind, region, size, NULL, ret_operation);
}

void begin_in_rows(struct worker *w, enum ferry_kind kind, const char *region, uint64_t size, const char *metadata,
                   struct ferry_operation *ret_operation)
{
        create_in_rows(w, kind, region, size, metadata, ret_operation);
}

enum ferry_kind kind_of_peer(enum ferry_kind passive)
{
        assert_true(ferry_kind_is_passive((int)passive));
        return passive == FERRY_READABLE ? FERRY_READ : FERRY_WRITE;
}

void operation_assert_end(struct worker *w, const char *id, enum ferry_status status,
                          struct ferry_operation *ret_operation)
{
        struct ferry_operation operation = { 0 };

        assert_call(w, ferry_wait_operation(w->client, id, WAIT_MS, &operation), "wait for operation");
        assert_true(operation.done);
        if (operation.status != (int)status)
                print_error("worker %s: %s is %s: %s %s\n", w->name, id, ferry_status_name(operation.status),
                            operation.error_code, operation.error_detail);
        assert_int_equal(operation.status, status);
        if (status == FERRY_COMPLETE) {
                assert_int_equal(operation.error, 0);
                assert_int_equal(operation.bytes_done, operation.bytes_total);
        } else {
                assert_int_not_equal(operation.error, 0);
        }
        if (ret_operation)
                *ret_operation = operation;
        else
                ferry_operation_clear(&operation);
}

void operation_assert_error(struct worker *w, const char *id, enum ferry_status status, int error)
{
        OPERATION operation;

        operation_assert_end(w, id, status, &operation);
        if (operation.error != error)
                print_error("worker %s: %s ended with: %s\n", w->name, id, operation.error_detail);
        assert_string_equal(operation.error_code, ferry_error_code(error));
}

static void assert_moved(struct worker *w, const char *id, const char *region, uint64_t size, const char *transport)
{
        OPERATION end;

        operation_assert_end(w, id, FERRY_COMPLETE, &end);
        assert_int_equal(end.bytes_done, size);
        if (transport)
                assert_string_equal(end.transport, transport);
        region_assert_pattern(w, region, size, 0, size);
}

void bytes_move(struct worker *passive, struct worker *active, enum ferry_kind passive_kind, uint64_t size, bool verify,
                const char *transport)
{
        const bool readable = passive_kind == FERRY_READABLE;
        const char *offered = region_make(passive, size, readable ? size : 0);
        const char *local = region_make(active, size, readable ? 0 : size);
        OPERATION offer, move;

        offer_make(passive, passive_kind, offered, &offer);
        (verify ? begin_verified : begin_make)(active, kind_of_peer(passive_kind), local, offer.metadata, &move);
        assert_moved(active, move.id, local, size, transport);
        assert_moved(passive, offer.id, offered, size, transport);
        region_drop(passive, offered);
        region_drop(active, local);
}

void pair_assert_serving(struct pair *p)
{
        enum { SIZE = 100000 };
        OPERATION passive, active;
        const char *source = region_make(&p->a, SIZE, 77);
        const char *target = region_make(&p->b, SIZE, 0);

        offer_make(&p->a, FERRY_READABLE, source, &passive);
        begin_make(&p->b, FERRY_READ, target, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(&p->b, target, 77, 0, SIZE);
        assert_int_equal(ferry_delete_operation(p->a.client, passive.id), 0);
        assert_int_equal(ferry_delete_operation(p->b.client, active.id), 0);
        region_drop(&p->a, source);
        region_drop(&p->b, target);
}

void worker_connect(struct worker *w, const char *url, const struct ferry_options *options)
{
        struct ferry_worker_info info;

        w->client = ferry_free(w->client);
        assert_int_equal(ferry_new(url ? url : w->url, options, &w->client), 0);
        assert_call(w, ferry_get_worker(w->client, &info), "get worker");
        (void)snprintf(w->epoch, sizeof(w->epoch), "%.16s", info.epoch);
        ferry_worker_info_clear(&info);
}

bool operation_await_middle(struct worker *w, const char *id)
{
        OPERATION operation = { 0 };
        bool middle;

        /* Progress makes a new revision ten times a second; a transfer between workers of one host is faster. */
        do {
                ferry_operation_clear(&operation);
                assert_call(w, ferry_get_operation(w->client, id, 0, 0, &operation), "watch operation");
        } while (!operation.done && operation.bytes_done == 0);
        middle = !operation.done && operation.bytes_done < operation.bytes_total;
        return middle;
}
