/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/worker.h>

#include "base/util.h"
#include "unit.h"
#include "worker_internal.h"

static char directory[] = "/tmp/ferry-settings-XXXXXX";
static char path[128];

static int make_directory(void **state)
{
        (void)state;
        if (!mkdtemp(directory))
                return -1;
        (void)snprintf(path, sizeof(path), "%s/file", directory);
        return 0;
}

static int remove_directory(void **state)
{
        (void)state;
        (void)unlink(path);
        return rmdir(directory);
}

static void write_file(const char *text, size_t size)
{
        FILE *file = fopen(path, "we");

        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, size, file), size);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, 0600), 0);
}

/* Options with some fields set. */
#define GIVEN(...) given((struct ferry_worker_options){ __VA_ARGS__ })
static struct ferry_worker_options given(struct ferry_worker_options options)
{
        worker_options_init(&options, false);
        return options;
}

/* The error of these options; its sentence must name what is wrong. */
static int error_of(const struct ferry_worker_options *options, const char *names)
{
        struct worker_settings *settings = NULL;
        int r = worker_settings_new(options, &settings);

        assert_int_equal(r < 0, settings == NULL);
        if (r < 0 && !strstr(ferry_worker_error(), names))
                fail_msg("\"%s\" does not name %s", ferry_worker_error(), names);
        worker_settings_free(settings);
        return r;
}

TEST(what_is_not_given_has_its_default)
{
        const struct ferry_worker_options options = GIVEN(0);
        struct worker_settings *settings = NULL;

        assert_int_equal(worker_settings_new(&options, &settings), 0);
        assert_int_equal(settings->options.listen.n, 0);
        assert_true(settings->options.memory_limit > 0);
        assert_int_equal(settings->options.ttl_ms, 600000);
        assert_int_equal(settings->options.stall_ms, 30000);
        assert_int_equal(settings->options.retention_ms, 600000);
        assert_false(settings->beyond_loopback);
        assert_non_null(strstr(settings->options.name, text_format("-%ld", (long)getpid())));
        worker_settings_free(settings);
}

TEST(strings_are_copied)
{
        char name[] = "first", local[] = "/a", listen[] = "127.0.0.1:1";
        char *list[] = { listen };
        const struct ferry_worker_options options = GIVEN(.name = name, .local = local, .listen = { list, 1 });
        struct worker_settings *settings = NULL;

        assert_int_equal(worker_settings_new(&options, &settings), 0);
        memset(name, 'x', sizeof(name) - 1);
        memset(local, 'x', sizeof(local) - 1);
        memset(listen, 'x', sizeof(listen) - 1);
        assert_string_equal(settings->options.name, "first");
        assert_string_equal(settings->options.local, "/a");
        assert_string_equal(settings->options.listen.items[0], "127.0.0.1:1");
        worker_settings_free(settings);
}

TEST(only_this_machines_addresses_are_loopback)
{
        static const struct {
                const char *address;
                bool loopback;
        } cases[] = {
                { "127.0.0.1:9300", true },  { "127.9.9.9:0", true },
                { "localhost:1", true },     { "LocalHost:1", true },
                { "[::1]:0", true },         { "unix:/run/ferry.sock", true },
                { "0.0.0.0:9300", false },   { "[::]:9300", false },
                { "10.0.0.1:1", false },     { "128.0.0.1:1", false },
                { "host.example:1", false }, { "localhost.example:1", false },
                { "[fe80::1]:1", false },    { "[::ffff:127.0.0.1]:1", false },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                print_message("%s\n", cases[i].address);
                assert_int_equal(worker_listen_is_loopback(cases[i].address), cases[i].loopback);
        }
}

#define SECRET "s3cret-of-16-chr"

TEST(a_peer_token_alone_does_not_guard_a_worker)
{
        char beyond[] = "0.0.0.0:0", *listen[] = { beyond };
        const struct ferry_worker_options options = GIVEN(.listen = { listen, 1 }, .peer_token_file = path);

        write_file(SECRET "\n", strlen(SECRET "\n"));
        assert_int_equal(error_of(&options, "--token-file"), -EINVAL);
}

TEST(a_token_is_one_line_without_its_end)
{
        const struct ferry_worker_options options = GIVEN(.token_file = path);

        FOR_EACH_TEXT (text, SECRET, SECRET "\n", SECRET "\r\n", SECRET "\n\n") {
                struct worker_settings *settings = NULL;

                write_file(text, strlen(text));
                assert_int_equal(worker_settings_new(&options, &settings), 0);
                assert_string_equal(settings->secrets.token, SECRET);
                assert_null(settings->secrets.peer_token);
                worker_settings_free(settings);
        }
}

TEST(token_files_that_hold_no_token_are_refused)
{
        static const struct {
                const char *text;
                size_t size;
        } bad[] = { { "", 0 },
                    { "\n", 1 },
                    { "a\nb\n", 4 },
                    { "a b\n", 4 },
                    { "a\0b", 3 },
                    { "\xc3\xa4\n", 3 },
                    { "s3cret-of-15-ch\n", 16 } };
        static char large[5000];
        struct ferry_worker_options options = GIVEN(.token_file = path);

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                write_file(bad[i].text, bad[i].size);
                assert_int_equal(error_of(&options, "--token-file"), -EINVAL);
        }
        memset(large, 'x', sizeof(large));
        write_file(large, sizeof(large));
        assert_int_equal(error_of(&options, "--token-file"), -EFBIG);
        options.token_file = "/nonexistent/token";
        assert_int_equal(error_of(&options, "/nonexistent/token"), -ENOENT);
        options.token_file = directory;
        assert_int_equal(error_of(&options, "--token-file"), -EISDIR);
}

static void count_line(void *context, const char *level, const char *line)
{
        (void)level;
        (void)line;
        (*(int *)context)++;
}

/* Etcd's password is its own, and may be short. */
TEST(a_registry_user_is_a_name_and_any_password)
{
        const struct ferry_worker_options options = GIVEN(.registry = "etcd://h:1", .registry_user_file = path);
        struct worker_settings *settings = NULL;
        int warnings = 0;

        write_file("root:two words\n", 15);
        assert_int_equal(ferry_worker_log("warn", count_line, &warnings), 0);
        assert_int_equal(worker_settings_new(&options, &settings), 0);
        assert_int_equal(ferry_worker_log("warn", NULL, NULL), 0);
        assert_int_equal(warnings, 0);
        assert_string_equal(settings->secrets.registry_user, "root:two words");
        worker_settings_free(settings);
        write_file("root\n", 5);
        assert_int_equal(error_of(&options, "NAME:PASSWORD"), -EINVAL);
}

TEST(a_name_that_metadata_cannot_carry_is_refused)
{
        struct worker_settings *settings;

        FOR_EACH_TEXT (text, "two words", "a\"b", "", "n\xc3\xa9",
                       "0123456789012345678901234567890123456789012345678901234567890123") {
                struct ferry_worker_options options = GIVEN(.name = text);

                assert_int_equal(worker_settings_new(&options, &settings), -EINVAL);
                assert_non_null(strstr(ferry_worker_error(), "name"));
        }
}

TEST(certificates_come_with_keys_and_are_pem)
{
        struct ferry_worker_options options = GIVEN(.tls_cert = path);

        write_file(SECRET "\n", strlen(SECRET "\n"));
        assert_int_equal(error_of(&options, "--tls-key"), -EINVAL);
        options.tls_key = path;
        assert_int_equal(error_of(&options, "not a PEM file"), -EINVAL);
        options = GIVEN(.peer_key = path);
        assert_int_equal(error_of(&options, "--peer-cert"), -EINVAL);
        options = GIVEN(.transports = "tcp");
        assert_int_equal(error_of(&options, "--data-listen"), -EINVAL);
        options = GIVEN(.peer_ca = "/nonexistent/ca");
        assert_int_equal(error_of(&options, "--peer-ca"), -ENOENT);
}

TEST_GROUP(make_directory, remove_directory)
