/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <unistd.h>

#include "raw.h"
#include "worker_fixture.h"

/*
 * Memory of the program that a transfer cannot touch: a mapped file that was truncated, a mapping that is read-only or
 * gone. Two workers of one process; where one of them touched such memory itself, the process would end.
 */

enum { LONG = 3 << 20, SHORT = 1000 };

/* How two workers reach each other: an option with which they listen, NULL = local. */
static const struct road {
        const char *name, *listener, *transport;
} roads[] = { { "local", NULL, "shm" }, { "network", "data-listen", "tcp" }, { "http", "listen", "http" } };

struct sides {
        const struct road *road;
        char directory[sizeof("/tmp/ferry-memory-XXXXXX")];
        struct ferry_worker *a, *b; /* a offers, b reads and writes */
};

static struct ferry_worker *worker_new(const struct sides *s)
{
        return s->road->listener ? WORKER(s->road->listener, "127.0.0.1:0") : WORKER("local", s->directory);
}

static void sides_start(struct sides *s, const struct road *road)
{
        *s = (struct sides){ .road = road, .directory = "/tmp/ferry-memory-XXXXXX" };
        assert_non_null(mkdtemp(s->directory));
        s->a = worker_new(s);
        s->b = worker_new(s);
}

static void sides_stop(struct sides *s)
{
        (void)ferry_worker_free(s->b);
        (void)ferry_worker_free(s->a);
        assert_int_equal(rmdir(s->directory), 0);
}

/* ---- memory ---- */

struct memory {
        char *address;
        size_t size;
        int file; /* -1 = none */
};

static struct memory memory_ordinary(size_t size)
{
        struct memory m = { .size = size, .file = -1 };

        m.address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(m.address, MAP_FAILED);
        return m;
}

static struct memory memory_of_file(size_t size, int sharing)
{
        struct memory m = { .size = size, .file = memfd_create("program", MFD_CLOEXEC) };

        assert_int_equal(ftruncate(m.file, (off_t)size), 0);
        m.address = mmap(NULL, size, PROT_READ | PROT_WRITE, sharing, m.file, 0);
        assert_ptr_not_equal(m.address, MAP_FAILED);
        return m;
}

static void memory_free(struct memory *m)
{
        (void)munmap(m->address, m->size);
        if (m->file >= 0)
                (void)close(m->file);
}

/* ---- transfers ---- */

/* One end of a transfer. */
struct end {
        struct ferry_worker *worker;
        char region[FERRY_WORKER_ID_SIZE];
        struct ferry_worker_operation *operation;
};

static int end_start(struct end *end, struct ferry_worker *worker, enum ferry_kind kind, const struct memory *memory,
                     const char *remote, bool verify)
{
        struct ferry_worker_request *request = ferry_worker_request_new(kind);
        int r;

        end->worker = worker;
        if (ferry_worker_region_add(worker, memory->address, memory->size, NULL, NULL, end->region) != 0)
                fail_msg("%s", ferry_worker_error());
        assert_int_equal(ferry_worker_request_add(request, end->region, 0, 0), 0);
        if (verify)
                assert_int_equal(ferry_worker_request_set(request, "verify", "true"), 0);
        r = ferry_worker_operation_create(worker, request, remote, &end->operation);
        (void)ferry_worker_request_free(request);
        return r;
}

static void end_free(struct end *end)
{
        end->operation = ferry_worker_operation_free(end->operation);
        assert_int_equal(ferry_worker_region_remove(end->worker, end->region), 0);
}

/* Waits for the end of an operation, and for a sentence where it has failed. */
static int end_wait(struct end *end)
{
        int error = ferry_worker_operation_wait(end->operation, -1);

        if (error)
                assert_string_not_equal(ferry_worker_error(), "");
        return error;
}

struct course {
        enum ferry_kind offer;
        bool verify;
        const struct memory *offered, *local;
};

static void course_begin(const struct sides *s, const struct course *c, struct end *passive, struct end *active)
{
        enum ferry_kind kind = c->offer == FERRY_READABLE ? FERRY_READ : FERRY_WRITE;
        const char *metadata;

        assert_int_equal(end_start(passive, s->a, c->offer, c->offered, NULL, false), 0);
        assert_int_equal(ferry_worker_operation_metadata(passive->operation, &metadata), 0);
        if (end_start(active, s->b, kind, c->local, metadata, c->verify) != 0)
                fail_msg("%s", ferry_worker_error());
}

static void assert_moves(const struct sides *s, const struct course *c)
{
        const bool read = c->offer == FERRY_READABLE;
        const struct memory *from = read ? c->offered : c->local, *to = read ? c->local : c->offered;
        struct end passive, active;

        memset(from->address, 'a', from->size);
        course_begin(s, c, &passive, &active);
        if (end_wait(&active) != 0)
                fail_msg("%s", ferry_worker_error());
        assert_int_equal(end_wait(&passive), 0);
        assert_memory_equal(to->address, from->address, from->size);
        assert_string_equal(ferry_worker_operation_transport(active.operation), s->road->transport);
        end_free(&active);
        end_free(&passive);
}

/* The two workers go on. */
static void assert_serving(const struct sides *s)
{
        struct memory from = memory_ordinary(SHORT), to = memory_ordinary(SHORT);

        assert_moves(s, &(struct course){ FERRY_READABLE, false, &from, &to });
        memory_free(&from);
        memory_free(&to);
}

/* ---- tests ---- */

/* A mapped file and ordinary memory, of which one is offered. */
struct row {
        enum ferry_kind offer;
        size_t size;
        bool verify, file_offered;
};

static void for_each_row(void (*run)(const struct sides *s, const struct row *row))
{
        for (size_t i = 0; i < UNIT_COUNT(roads); i++) {
                struct sides s;

                sides_start(&s, &roads[i]);
                for (unsigned bits = 0; bits < 16; bits++) {
                        (void)test_row(text_format("%s %u", roads[i].name, bits));
                        run(&s, &(struct row){ bits & 1 ? FERRY_READABLE : FERRY_WRITABLE, bits & 2 ? LONG : SHORT,
                                               bits & 4, bits & 8 });
                }
                sides_stop(&s);
        }
}

static void move_file(const struct sides *s, const struct row *row)
{
        struct memory file = memory_of_file(row->size, row->verify ? MAP_PRIVATE : MAP_SHARED);
        struct memory other = memory_ordinary(row->size);

        assert_moves(s, &(struct course){ row->offer, row->verify, row->file_offered ? &file : &other,
                                          row->file_offered ? &other : &file });
        memory_free(&file);
        memory_free(&other);
}

TEST(a_mapped_file_moves_as_other_memory_does)
{
        for_each_row(move_file);
}

static void fail_file(const struct sides *s, const struct row *row)
{
        struct memory file = memory_of_file(row->size, MAP_SHARED), other = memory_ordinary(row->size);
        const struct course c = { row->offer, row->verify, row->file_offered ? &file : &other,
                                  row->file_offered ? &other : &file };
        struct end passive, active;
        int error;

        assert_int_equal(ftruncate(file.file, 0), 0);
        course_begin(s, &c, &passive, &active);
        error = end_wait(row->file_offered ? &passive : &active);
        if (error != FERRY_E_TRANSFER_FAILED || !strstr(ferry_worker_error(), "the file behind the memory"))
                fail_msg("%d: %s", error, ferry_worker_error());
        if (!row->file_offered && row->offer == FERRY_WRITABLE)
                ferry_worker_operation_cancel(passive.operation); /* a write without a byte leaves the offer as it is */
        error = end_wait(row->file_offered ? &active : &passive);
        if (error != FERRY_E_TRANSFER_FAILED && error != FERRY_E_CANCELLED)
                fail_msg("%d: %s", error, ferry_worker_error());
        end_free(&active);
        end_free(&passive);
        memory_free(&file);
        memory_free(&other);
        assert_serving(s);
}

/* As source and as destination, on either side. */
TEST(a_file_that_was_truncated_ends_both_operations_and_nothing_else)
{
        for_each_row(fail_file);
}

/* Its registration does not know whether it will receive. */
TEST(memory_that_is_read_only_is_sent_and_does_not_receive)
{
        FOR_EACH (int, of_file, 0, 1) {
                struct memory m = of_file ? memory_of_file(LONG, MAP_SHARED) : memory_ordinary(LONG);
                struct memory to = memory_ordinary(LONG);
                struct end passive, active, refused;
                struct sides s;

                sides_start(&s, &roads[0]);
                memset(m.address, 'r', LONG);
                assert_int_equal(mprotect(m.address, LONG / 2, PROT_READ), 0);
                course_begin(&s, &(struct course){ FERRY_READABLE, true, &m, &to }, &passive, &active);
                assert_int_equal(end_wait(&active), 0);
                assert_int_equal(end_wait(&passive), 0);
                assert_memory_equal(to.address, m.address, LONG);

                assert_int_equal(end_start(&refused, s.a, FERRY_WRITABLE, &m, NULL, false), FERRY_E_FORBIDDEN);
                assert_non_null(
                        strstr(ferry_worker_error(), "Descriptor 0: the program has mapped the memory read-only"));
                refused.operation = NULL;
                end_free(&refused);
                /* The writable part can be the destination of a read. */
                const struct memory rest = { .address = m.address + LONG / 2, .size = LONG / 2 };
                assert_int_equal(end_start(&refused, s.a, FERRY_WRITABLE, &rest, NULL, false), 0);
                ferry_worker_operation_cancel(refused.operation);
                end_free(&refused);
                end_free(&active);
                end_free(&passive);
                memory_free(&m);
                memory_free(&to);
                sides_stop(&s);
        }
}

TEST(a_mapping_of_a_file_that_is_gone_or_became_read_only_fails)
{
        static const struct {
                bool unmapped;
                enum ferry_kind offer;
                const char *why;
        } rows[] = { { true, FERRY_READABLE, "unmapped" },
                     { true, FERRY_WRITABLE, "unmapped" },
                     { false, FERRY_WRITABLE, "read-only" } };
        struct sides s;

        sides_start(&s, &roads[0]);
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct memory file = memory_of_file(LONG, MAP_SHARED), other = memory_ordinary(LONG);
                struct end passive, active;
                const char *metadata;

                (void)test_row(rows[i].why);
                assert_int_equal(end_start(&passive, s.a, rows[i].offer, &file, NULL, false), 0);
                if (rows[i].unmapped)
                        assert_ptr_not_equal(
                                mmap(file.address, LONG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                                MAP_FAILED);
                else
                        assert_int_equal(mprotect(file.address, LONG, PROT_READ), 0);
                assert_int_equal(ferry_worker_operation_metadata(passive.operation, &metadata), 0);
                assert_int_equal(end_start(&active, s.b, rows[i].offer == FERRY_READABLE ? FERRY_READ : FERRY_WRITE,
                                           &other, metadata, false),
                                 0);
                assert_int_equal(end_wait(&passive), FERRY_E_TRANSFER_FAILED);
                if (!strstr(ferry_worker_error(), rows[i].why))
                        fail_msg("%s", ferry_worker_error());
                assert_int_equal(end_wait(&active), FERRY_E_TRANSFER_FAILED);
                end_free(&active);
                end_free(&passive);
                memory_free(&file);
                memory_free(&other);
        }
        assert_serving(&s);
        sides_stop(&s);
}

/* Clients of the REST interface meet the same. */
TEST(content_of_a_region_whose_memory_is_gone_is_a_problem)
{
        struct memory file = memory_of_file(SHORT, MAP_SHARED), constant = memory_ordinary(SHORT);
        char id[FERRY_WORKER_ID_SIZE], constant_id[FERRY_WORKER_ID_SIZE];
        struct sides s;

        sides_start(&s, &roads[2]);
        assert_int_equal(mprotect(constant.address, SHORT, PROT_READ), 0);
        assert_int_equal(ferry_worker_region_add(s.a, file.address, SHORT, NULL, NULL, id), 0);
        assert_int_equal(ferry_worker_region_add(s.a, constant.address, SHORT, NULL, NULL, constant_id), 0);
        assert_int_equal(ferry_worker_region_allow(s.a, id, 1), 0);
        assert_int_equal(ferry_worker_region_allow(s.a, constant_id, 1), 0);
        assert_int_equal(ftruncate(file.file, 0), 0);
        const uint16_t port = (uint16_t)atoi(strrchr(ferry_worker_url(s.a, 0), ':') + 1);
        const struct {
                const char *method, *id;
                int status;
                const char *why;
        } rows[] = { { "GET", id, 410, "the file behind the memory" },
                     { "PUT", id, 410, "the file behind the memory" },
                     { "PUT", constant_id, 403, "read-only" },
                     { "GET", constant_id, 200, "" } };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                const bool put = *rows[i].method == 'P';
                const char *request =
                        text_format("%s /v1/regions/%s/content HTTP/1.1\r\nHost: localhost\r\n"
                                    "Connection: close\r\n%s\r\n%s",
                                    rows[i].method, rows[i].id, put ? "Content-Length: 4\r\n" : "", put ? "abcd" : "");
                int fd = raw_dial(port);

                raw_send(fd, request, strlen(request));
                struct raw_answer answer = raw_receive_last(fd);
                if (answer.status != rows[i].status || !strstr(answer.body, rows[i].why))
                        fail_msg("%d: %s", answer.status, answer.body);
        }
        sides_stop(&s);
        memory_free(&file);
        memory_free(&constant);
}
