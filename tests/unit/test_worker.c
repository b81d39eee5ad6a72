/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"
#include "worker_fixture.h"

/* libferry-worker as an embedding program uses it. */

enum { MIB = 1 << 20, SIZE = 3 * MIB };

static struct ferry_worker *worker;

static int setup(void **state)
{
        return WORKER_NEW(&worker, "memory-limit", "4M");
}

static int teardown(void **state)
{
        worker = ferry_worker_free(worker);
        return 0;
}

/* The seals of the only memory of a region that this process has. */
static int seals(void)
{
        DIR *directory = opendir("/proc/self/fd");
        char target[64];
        int found = -1;

        assert_non_null(directory);
        for (struct dirent *entry; (entry = readdir(directory));) {
                ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

                if (n <= 0)
                        continue;
                target[n] = '\0';
                if (!strstr(target, "memfd:ferry-region"))
                        continue;
                assert_int_equal(found, -1);
                found = fcntl(atoi(entry->d_name), F_GET_SEALS);
        }
        closedir(directory);
        return found;
}

TEST_WITH(allocated_memory_is_zeros_that_this_process_alone_writes, setup, teardown)
{
        char id[FERRY_WORKER_ID_SIZE];
        void *address = NULL;

        assert_int_equal(ferry_worker_region_alloc(worker, SIZE, NULL, "kv", &address, id), 0);
        assert_memory_equal(id, "rgn_", 4);
        for (size_t i = 0; i < SIZE; i++)
                assert_int_equal(((char *)address)[i], 0);
        memset(address, 'x', SIZE);
        assert_int_equal(seals() & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
        assert_int_equal(ferry_worker_region_remove(worker, id), 0);
        assert_int_equal(ferry_worker_region_remove(worker, id), FERRY_E_NOT_FOUND);
}

TEST_WITH(removed_memory_makes_room_at_once, setup, teardown)
{
        char id[FERRY_WORKER_ID_SIZE];
        void *address;

        for (int i = 0; i < 10; i++) {
                assert_int_equal(ferry_worker_region_alloc(worker, SIZE, "cpu", NULL, &address, id), 0);
                assert_int_equal(ferry_worker_region_remove(worker, id), 0);
        }
        assert_int_equal(ferry_worker_region_alloc(worker, 1, "cpu", NULL, &address, id), 0);
}

TEST_WITH(what_cannot_be_allocated_leaves_nothing, setup, teardown)
{
        char id[FERRY_WORKER_ID_SIZE] = "untouched";
        void *address = &address;

        assert_int_equal(ferry_worker_region_alloc(worker, 0, "cpu", NULL, &address, id), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_region_alloc(worker, 1, "cuda:9", NULL, &address, id), FERRY_E_UNKNOWN_DEVICE);
        assert_int_equal(ferry_worker_region_alloc(worker, 5 * MIB, "cpu", NULL, &address, id), FERRY_E_NO_SPACE);
        assert_ptr_equal(address, &address);
        assert_string_equal(id, "untouched");
        assert_int_equal(ferry_worker_region_alloc(worker, 4 * MIB, "cpu", NULL, &address, id), 0);
}

TEST_WITH(memory_of_the_program_is_offered_and_taken_back, setup, teardown)
{
        static char memory[SIZE];
        char id[FERRY_WORKER_ID_SIZE];

        assert_int_equal(ferry_worker_region_add(worker, memory, SIZE, NULL, NULL, id), 0);
        assert_int_equal(seals(), -1);
        assert_int_equal(ferry_worker_region_remove(worker, id), 0);
        assert_int_equal(ferry_worker_region_remove(worker, "rgn_x"), FERRY_E_NOT_FOUND);
}

/* The status of a client's write of one byte into the region. */
static int write_from_outside(const struct ferry_worker *w, const char *region)
{
        char request[256];
        int fd = raw_dial((uint16_t)atoi(strrchr(ferry_worker_url(w, 0), ':') + 1));

        (void)snprintf(request, sizeof(request),
                       "PUT /v1/regions/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                       "Connection: close\r\n\r\nx",
                       region);
        raw_send(fd, request, strlen(request));
        return raw_receive_last(fd).status;
}

TEST_WITH(clients_write_memory_of_the_program_while_it_allows_them, setup, teardown)
{
        struct ferry_worker *open;
        char memory[] = "ab", id[FERRY_WORKER_ID_SIZE];

        open = WORKER("listen", "127.0.0.1:0");
        assert_int_equal(ferry_worker_region_add(open, memory, 2, NULL, NULL, id), 0);

        assert_int_equal(write_from_outside(open, id), 403);
        assert_string_equal(memory, "ab");
        assert_int_equal(ferry_worker_region_allow(open, id, 1), 0);
        assert_int_equal(write_from_outside(open, id), 204);
        assert_string_equal(memory, "xb");
        memory[0] = 'a';
        assert_int_equal(ferry_worker_region_allow(open, id, 0), 0);
        assert_int_equal(write_from_outside(open, id), 403);
        assert_string_equal(memory, "ab");
        assert_int_equal(ferry_worker_region_allow(worker, id, 1), FERRY_E_NOT_FOUND);
        (void)ferry_worker_free(open);
}

TEST_WITH(memory_that_cannot_be_added_is_refused_and_takes_no_place, setup, teardown)
{
        static char memory[SIZE];
        static const char long_name[] = "more than 64 bytes of a name, which is what a name may have at most";
        const struct {
                void *address;
                size_t size;
                const char *device, *name;
                int error;
                const char *detail;
        } rows[] = {
                { NULL, SIZE, NULL, NULL, FERRY_E_INVALID_PARAMETER, "address" },
                { (void *)UINTPTR_MAX, SIZE, NULL, NULL, FERRY_E_INVALID_PARAMETER, "address" },
                { memory, 0, NULL, NULL, FERRY_E_INVALID_PARAMETER, "one byte" },
                { memory, SIZE, NULL, long_name, FERRY_E_INVALID_PARAMETER, "64 bytes" },
                { memory, SIZE, NULL, "caf\xc3", FERRY_E_INVALID_PARAMETER, "UTF-8" },
                { memory, SIZE, "tape:0", NULL, FERRY_E_UNKNOWN_DEVICE, "device" },
        };
        char ids[2][FERRY_WORKER_ID_SIZE], id[FERRY_WORKER_ID_SIZE];

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                assert_int_equal(ferry_worker_region_add(worker, rows[i].address, rows[i].size, rows[i].device,
                                                         rows[i].name, id),
                                 rows[i].error);
                assert_non_null(strstr(ferry_worker_error(), rows[i].detail));
        }
        assert_int_equal(ferry_worker_region_add(worker, memory, SIZE, "cpu", "a", ids[0]), 0);
        assert_int_equal(ferry_worker_region_add(worker, memory, SIZE, "cpu", "b", ids[1]), 0); /* the same once more */
        assert_string_not_equal(ids[0], ids[1]);
        assert_int_equal(ferry_worker_region_remove(worker, ids[0]), 0);
        memset(memory, 7, SIZE); /* the program's, as before */
        assert_int_equal(ferry_worker_region_remove(worker, ids[0]), FERRY_E_NOT_FOUND);
        assert_int_equal(ferry_worker_region_remove(worker, ids[1]), 0);
        assert_int_equal(memory[SIZE - 1], 7);
}

TEST_WITH(memory_of_the_program_does_not_count_as_regions_of_clients, setup, teardown)
{
        enum { MORE = 3 }; /* than max-regions */
        static char memory[64];
        struct ferry_worker *small;
        char ids[MORE + 1][FERRY_WORKER_ID_SIZE];
        void *address;

        small = WORKER("max-regions", "2");
        for (int i = 0; i < MORE; i++)
                assert_int_equal(ferry_worker_region_add(small, memory, sizeof(memory), NULL, NULL, ids[i]), 0);
        assert_int_equal(ferry_worker_region_alloc(small, sizeof(memory), NULL, NULL, &address, ids[MORE]), 0);
        assert_int_equal(ferry_worker_region_remove(small, ids[MORE]), 0);
        assert_int_equal(ferry_worker_region_remove(small, ids[0]), 0);
        /* What another worker has is not this one's to remove. */
        assert_int_equal(ferry_worker_region_remove(worker, ids[1]), FERRY_E_NOT_FOUND);
        (void)ferry_worker_free(small);
}

TEST_WITH(a_worker_listens_only_when_told_to, setup, teardown)
{
        assert_null(ferry_worker_url(worker, 0));
        assert_non_null(strstr(ferry_worker_ready_line(worker), "\"http\":[]"));
        assert_non_null(strstr(ferry_worker_ready_line(worker), ferry_worker_name(worker)));
}

TEST_WITH(options_are_set_by_the_names_of_the_daemon, setup, teardown)
{
        struct ferry_worker *other = NULL;

        other = WORKER("listen", "127.0.0.1:0", "listen", "[::1]:0", "name", "kv-0", "no-auth", "true");
        assert_string_equal(ferry_worker_name(other), "kv-0");
        assert_memory_equal(ferry_worker_url(other, 0), "http://127.0.0.1:", 17);
        assert_memory_equal(ferry_worker_url(other, 1), "http://[::1]:", 13);
        assert_null(ferry_worker_url(other, 2));
        (void)ferry_worker_free(other);
}

TEST_WITH(a_refused_option_says_why, setup, teardown)
{
        static const struct {
                const char *name, *value, *says;
        } cases[] = {
                { "listne", "127.0.0.1:0", "no option \"listne\"" },
                { "log-level", "debug", "no option" },
                { "listen", "127.0.0.1", "listen: \"127.0.0.1\"" },
                { "no-auth", "yes", "1, true, 0, false" },
                { "ttl", "soon", "not a time" },
        };
        struct ferry_worker_options *options = ferry_worker_options_new();

        assert_non_null(options);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(ferry_worker_options_set(options, cases[i].name, cases[i].value),
                                 FERRY_E_INVALID_PARAMETER);
                assert_non_null(strstr(ferry_worker_error(), cases[i].says));
        }
        (void)ferry_worker_options_free(options);
}

TEST_WITH(options_that_do_not_go_together_start_no_worker, setup, teardown)
{
        struct ferry_worker *other = NULL;

        assert_int_equal(WORKER_NEW(&other, "listen", "0.0.0.0:0"), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(ferry_worker_error(), "token"));
        assert_null(other);
}

/* Its clients may be others than this machine's users, to whom alone other servers on loopback may be open. */
TEST_WITH(a_worker_beyond_loopback_asks_nobody_by_default, setup, teardown)
{
        struct ferry_worker_request *request = ferry_worker_request_new(FERRY_READ);
        struct ferry_worker_operation *operation = NULL;
        struct ferry_worker *open = NULL;
        char memory[4], id[FERRY_WORKER_ID_SIZE];

        open = WORKER("listen", "0.0.0.0:0", "no-auth", "true");
        assert_int_equal(ferry_worker_region_add(open, memory, sizeof(memory), NULL, NULL, id), 0);
        assert_int_equal(ferry_worker_request_add(request, id, 0, 0), 0);
        assert_int_equal(ferry_worker_operation_create(open, request,
                                                       "http://127.0.0.1:1/v1/operations/op_0123456789abcdef/metadata",
                                                       &operation),
                         FERRY_E_FORBIDDEN);
        (void)ferry_worker_request_free(request);
        (void)ferry_worker_free(open);
}

TEST_WITH(the_environment_sets_options, setup, teardown)
{
        struct ferry_worker_options *options = ferry_worker_options_new();
        struct ferry_worker *other = NULL;

        assert_non_null(options);
        assert_int_equal(setenv("FERRY_NAME", "of-the-environment", 1), 0);
        assert_int_equal(setenv("FERRY_LOCAL", "off", 1), 0);
        assert_int_equal(setenv("FERRY_LOG_LEVEL", "nonsense", 1), 0); /* of the daemon */
        assert_int_equal(ferry_worker_options_environment(options), 0);
        assert_int_equal(unsetenv("FERRY_NAME") | unsetenv("FERRY_LOCAL") | unsetenv("FERRY_LOG_LEVEL"), 0);
        assert_int_equal(ferry_worker_new(options, &other), 0);
        assert_string_equal(ferry_worker_name(other), "of-the-environment");
        (void)ferry_worker_free(other);
        (void)ferry_worker_options_free(options);
}

TEST_WITH(abandoned_workers_leave_the_files_of_others, setup, teardown)
{
        char directory[] = "/tmp/ferry-worker-XXXXXX";
        struct ferry_worker *other = NULL;
        const char *path, *aside;

        assert_non_null(mkdtemp(directory));
        path = text_format("%s/worker.sock", directory);
        aside = text_format("%s/aside.sock", directory);
        other = WORKER("listen", text_format("unix:%s", path));
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(mkfifo(path, 0600), 0); /* as a newer worker's socket would be */
        ferry_worker_abandon();
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(aside, path), 0);
        ferry_worker_abandon();
        assert_int_equal(access(path, F_OK), -1);
        (void)ferry_worker_free(other);
        assert_int_equal(rmdir(directory), 0);
}

struct sink {
        int lines;
        char last[256];
};

static void take_line(void *context, const char *level, const char *line)
{
        struct sink *sink = context;

        assert_string_equal(level,
                            sink->lines == 0 ? "warn" : "info"); /* it has nothing that moves bytes, and says so */
        assert_null(strchr(line, '\n'));
        (void)snprintf(sink->last, sizeof(sink->last), "%s", line);
        sink->lines++;
}

TEST_WITH(log_lines_go_where_the_program_says, setup, teardown)
{
        struct ferry_worker *other;
        struct sink sink = { 0 };

        assert_int_equal(ferry_worker_log("loud", take_line, &sink), -EINVAL);
        assert_int_equal(ferry_worker_log("info", take_line, &sink), 0);
        other = WORKER(NULL);
        assert_int_equal(sink.lines, 2);
        assert_non_null(strstr(sink.last, "msg=\"worker ready\""));
        assert_int_equal(ferry_worker_log("warn", NULL, NULL), 0);
        (void)ferry_worker_free(other);
        assert_int_equal(sink.lines, 2);
}

TEST_WITH(a_forked_child_may_not_use_the_worker, setup, teardown)
{
        char id[FERRY_WORKER_ID_SIZE];
        int status;
        pid_t child = fork();

        if (child == 0) {
                int r = ferry_worker_region_alloc(worker, 1, NULL, NULL, (void *[]){ NULL }, id);
                bool told = strstr(ferry_worker_error(), "fork") != NULL;

                ferry_worker_abandon();
                _exit(r == -ECHILD && told && !ferry_worker_free(worker) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
}

TEST_WITH(a_forked_child_may_have_a_worker_of_its_own, setup, teardown)
{
#if defined(__SANITIZE_THREAD__) && __GNUC__ < 13
        skip(); /* "dup thread with used id": to this TSan, the parent's threads live on in the child */
#endif
        int status;
        pid_t child = fork();

        if (child == 0) {
                struct ferry_worker *other = NULL;
                int r = WORKER_NEW(&other, NULL);

                (void)ferry_worker_free(other);
                _exit(r ? 1 : 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
}
