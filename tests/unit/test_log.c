/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <json.h>

#include <ferry/json.h>

#include "base/log.h"
#include "base/util.h"

#include "unit.h"

enum { CAPTURE_SIZE = 1 << 20, LINE_LIMIT = 4096 };

static size_t part_max; /* what pwritev2 takes without waiting, and only once in a line; 0 = all */

/* In place of the C library's: as a file whose next page is not at hand. */
ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t offset, int flags)
{
        struct iovec part = *parts;
        bool cut = part_max && flags & RWF_NOWAIT && part.iov_len > part_max;

        assert_int_equal(n, 1);
        if (cut)
                part.iov_len = part_max;
        return syscall(SYS_pwritev2, fd, &part, 1, (long)offset, (long)(offset >> 63), cut ? 0 : flags);
}

/* Standard error goes into a memory file between begin and end; end returns what came. */
static int capture_fd = -1, saved_stderr = -1;
static char captured[CAPTURE_SIZE];

static void capture_begin(void)
{
        saved_stderr = dup(STDERR_FILENO);
        capture_fd = memfd_create("log", MFD_CLOEXEC);
        /* As a log file should be: a memfd's position is not shared safely between threads. */
        assert_int_equal(fcntl(capture_fd, F_SETFL, O_APPEND), 0);
        assert_true(capture_fd >= 0 && dup2(capture_fd, STDERR_FILENO) == STDERR_FILENO);
}

static const char *capture_end(void)
{
        dup2(saved_stderr, STDERR_FILENO);
        close(saved_stderr);
        ssize_t n = pread(capture_fd, captured, sizeof(captured) - 1, 0);
        close(capture_fd);
        assert_true(n >= 0);
        captured[n] = '\0';
        return captured;
}

static const char *logfmt_of(const char *message, struct log_field field)
{
        log_setup(LOG_DEBUG, LOG_LOGFMT);
        capture_begin();
        log_event(LOG_INFO, message, field);
        return capture_end();
}

/* The text after the time stamp, which is 24 characters after "ts=". */
static const char *after_time(const char *line)
{
        assert_memory_equal(line, "ts=20", 5);
        assert_int_equal(line[26], 'Z');
        return line + 28;
}

/* A JSON line, which must be one object. */
static struct json_object *json_of(const char *line)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *object = NULL;
        size_t length = strlen(line);
        assert_true(length > 0 && line[length - 1] == '\n');
        assert_int_equal(ferry_json_parse(line, length - 1, &object, &errors), 0);
        assert_true(json_object_is_type(object, json_type_object));
        return object;
}

static struct json_object *json_line_of(const char *message, struct log_field field)
{
        log_setup(LOG_DEBUG, LOG_JSON);
        capture_begin();
        log_event(LOG_WARN, message, field);
        return json_of(capture_end());
}

static const char *member(struct json_object *object, const char *key)
{
        return json_object_get_string(json_object_object_get(object, key));
}

TEST(logfmt_line_has_time_level_message_and_fields)
{
        log_setup(LOG_INFO, LOG_LOGFMT);
        capture_begin();
        log_event(LOG_INFO, "region created", LOG_S("region", "rgn_1"), LOG_U("size", UINT64_MAX));
        assert_string_equal(after_time(capture_end()),
                            "level=info msg=\"region created\" region=rgn_1 size=18446744073709551615\n");
}

TEST(logfmt_quotes_only_what_needs_it)
{
        static const char *const cases[][2] = {
                { "plain-1.2/3:4", "plain-1.2/3:4" },
                { "", "\"\"" },
                { "a b", "\"a b\"" },
                { "a=b", "\"a=b\"" },
                { "a\"b", "\"a\\\"b\"" },
                { "a\\b", "\"a\\\\b\"" },
                { "\xc3\xa4", "\"\xc3\xa4\"" },
        };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                assert_string_equal(after_time(logfmt_of("m", LOG_S("v", cases[i][0]))),
                                    text_format("level=info msg=m v=%s\n", cases[i][1]));
        }
}

TEST(control_characters_never_reach_the_terminal)
{
        assert_string_equal(after_time(logfmt_of("m", LOG_S("v", "a\nb\tc\x1b[31m\x7f\xc2\x9b\xe2\x80\xae"))),
                            "level=info msg=m v=\"a\\nb\\tc\\u001b[31m\\u007f\\u009b\\u202e\"\n");
}

TEST(invalid_utf8_becomes_the_replacement_character)
{
        FOR_EACH_TEXT (item, "\xff", "\x80", "\xc3", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                       "\xf8\x88\x80\x80\x80") {
                struct json_object *object = json_line_of("m", LOG_S("v", text_format("<%s>", item)));
                char expected[32] = "<";
                for (size_t k = 0; k < strlen(item); k++)
                        strcat(expected, "\xef\xbf\xbd");
                strcat(expected, ">");
                assert_string_equal(member(object, "v"), expected);
                json_object_put(object);
        }
}

TEST(json_line_is_one_object_that_gives_values_back)
{
        const char *hard = "q\" b\\ n\n t\t e\x1b \xc3\xa4 \xf0\x9f\x9a\x80";
        struct json_object *object = json_line_of("a \"message\"", LOG_S("v", hard));
        assert_string_equal(member(object, "level"), "warn");
        assert_string_equal(member(object, "msg"), "a \"message\"");
        assert_string_equal(member(object, "v"), hard);
        assert_int_equal(strlen(member(object, "ts")), 24);
        json_object_put(object);
        object = json_line_of("m", LOG_U("n", 5));
        assert_int_equal(json_object_get_int64(json_object_object_get(object, "n")), 5);
        json_object_put(object);
}

TEST(null_string_is_left_out)
{
        assert_string_equal(after_time(logfmt_of("m", LOG_S("v", NULL))), "level=info msg=m\n");
}

TEST(line_without_fields_is_whole)
{
        log_setup(LOG_INFO, LOG_JSON);
        capture_begin();
        log_event(LOG_ERROR, "alone");
        struct json_object *object = json_of(capture_end());
        assert_int_equal(json_object_object_length(object), 3);
        json_object_put(object);
}

TEST(levels_above_the_set_one_are_silent)
{
        log_setup(LOG_WARN, LOG_LOGFMT);
        assert_true(log_enabled(LOG_ERROR) && log_enabled(LOG_WARN));
        assert_false(log_enabled(LOG_INFO) || log_enabled(LOG_DEBUG));
        capture_begin();
        log_event(LOG_INFO, "no");
        log_event(LOG_WARN, "yes");
        assert_string_equal(after_time(capture_end()), "level=warn msg=yes\n");
}

/* Every length around the limit, in both formats: the line stays whole and says that it was cut. */
TEST(long_lines_are_cut_visibly_and_stay_well_formed)
{
        static char value[2 * LINE_LIMIT];
        for (size_t length = LINE_LIMIT - 200; length < LINE_LIMIT + 20; length++) {
                memset(value, length % 2 ? 'x' : '\n', length);
                value[length] = '\0';
                for (int format = LOG_LOGFMT; format <= LOG_JSON; format++) {
                        log_setup(LOG_INFO, (enum log_format)format);
                        capture_begin();
                        log_event(LOG_INFO, "m", LOG_S("v", value), LOG_U("after", 12345678), LOG_S("last", "z"));
                        const char *line = capture_end();
                        assert_true(strlen(line) <= LINE_LIMIT);
                        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
                        bool cut = strstr(line, "last") == NULL;
                        assert_int_equal(cut, strstr(line, "truncated") != NULL);
                        if (format == LOG_JSON)
                                json_object_put(json_of(line));
                        else if (cut)
                                assert_non_null(strstr(line, " truncated=true\n"));
                }
        }
}

TEST(cut_never_splits_a_character)
{
        static char value[3 * LINE_LIMIT];
        for (size_t shift = 0; shift < 4; shift++) {
                memset(value, 'x', shift);
                value[shift] = '\0';
                for (size_t used = shift; used < 2 * LINE_LIMIT; used += 4)
                        memcpy(value + used, "\xf0\x9f\x9a\x80", 5);
                struct json_object *object = json_line_of("m", LOG_S("v", value));
                const char *got = member(object, "v");
                size_t kept = strlen(got) - 3;
                assert_string_equal(got + kept, "...");
                assert_int_equal((kept - shift) % 4, 0);
                assert_memory_equal(got, value, kept);
                json_object_put(object);
        }
}

TEST(errno_is_kept)
{
        log_setup(LOG_INFO, LOG_LOGFMT);
        capture_begin();
        close(STDERR_FILENO);
        errno = EXDEV;
        log_event(LOG_ERROR, "nowhere to go");
        int after = errno;
        assert_true(dup2(capture_fd, STDERR_FILENO) >= 0);
        log_event(LOG_INFO, "somewhere again");
        assert_non_null(strstr(capture_end(), "msg=\"log lines lost\" lines=1\n"));
        assert_int_equal(after, EXDEV);
}

static void *write_lines(void *argument)
{
        for (int i = 0; i < 500; i++)
                log_event(LOG_INFO, "from a thread", LOG_U("thread", (uintptr_t)argument), LOG_U("line", i));
        return NULL;
}

TEST(lines_of_threads_do_not_mix)
{
        log_setup(LOG_INFO, LOG_JSON);
        capture_begin();
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, write_lines, (void *)i);
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        capture_end();
        size_t lines = 0;
        char *rest = captured;
        for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
                struct json_object *object = json_tokener_parse(line);
                assert_non_null(object);
                json_object_put(object);
        }
        assert_int_equal(lines, 2000);
}

/* ---- a reader that stands still ---- */

/* A standard error whose reader takes nothing by itself. Returns the reader's end. */
static int stalled_begin(bool stream)
{
        int ends[2];

        /* A pipe, as of a shell, and a socket, as of systemd's journal; both wait when they are full. */
        assert_int_equal(stream ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC), 0);
        saved_stderr = dup(STDERR_FILENO);
        assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
        (void)close(ends[1]);
        return ends[0];
}

/* What the reader finds; waits for nothing. */
static const char *take_all(int reader)
{
        size_t used = 0;
        ssize_t n;

        assert_int_equal(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
        while ((n = read(reader, captured + used, sizeof(captured) - 1 - used)) > 0)
                used += (size_t)n;
        captured[used] = '\0';
        return captured;
}

static unsigned long count_lines(const char *text, const char *what)
{
        unsigned long n = 0;

        for (; (text = strstr(text, what)); text++)
                n++;
        return n;
}

static unsigned long count_lost(const char *text)
{
        static const char report[] = "level=warn msg=\"log lines lost\" lines=";
        unsigned long n = 0;

        while ((text = strstr(text, report)))
                n += strtoul(text += strlen(report), NULL, 10);
        return n;
}

TEST(a_reader_that_stands_still_holds_nobody_up)
{
        enum { LINES = 5000 }; /* more than a pipe or a socket holds */

        log_setup(LOG_INFO, LOG_LOGFMT);
        for (int stream = 0; stream < 2; stream++) {
                int reader = stalled_begin(stream);
                unsigned long written, lost;

                (void)alarm(20); /* SIGALRM ends the test that waits */
                for (int i = 0; i < LINES; i++)
                        log_event(LOG_INFO, "something happened", LOG_S("text", "of which nobody reads anything yet"));
                (void)alarm(0);
                written = count_lines(take_all(reader), "msg=\"something happened\"");
                lost = count_lost(captured); /* a short report may find room where the line did not */
                log_event(LOG_INFO, "the reader goes on");
                log_event(LOG_INFO, "and is told once");
                (void)take_all(reader);
                assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
                (void)close(saved_stderr);
                (void)close(reader);

                assert_in_range(written, 1, LINES - 1);
                assert_int_equal(written + lost + count_lost(captured), LINES);
                assert_int_equal(count_lines(captured, "msg="), 3);
                assert_non_null(strstr(captured, "msg=\"the reader goes on\""));
        }
}

static void *read_in_small_parts(void *argument)
{
        const int reader = *(const int *)argument;
        size_t used = 0;
        ssize_t n;

        while (used < sizeof(captured) - 1 && (n = read(reader, captured + used, 50)) > 0)
                used += (size_t)n;
        captured[used] = '\0';
        return NULL;
}

TEST(a_reader_that_is_behind_gets_every_line)
{
        enum { LINES = 3000 };

        log_setup(LOG_INFO, LOG_LOGFMT);
        int reader = stalled_begin(false);
        pthread_t thread;

        assert_true(fcntl(STDERR_FILENO, F_SETPIPE_SZ, 4096) >= 0);
        assert_int_equal(pthread_create(&thread, NULL, read_in_small_parts, &reader), 0);
        for (int i = 0; i < LINES; i++)
                log_event(LOG_INFO, "something happened", LOG_U("number", i));
        assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0); /* the end of the pipe */
        (void)close(saved_stderr);
        (void)pthread_join(thread, NULL);
        (void)close(reader);
        assert_int_equal(count_lines(captured, "msg=\"something happened\""), LINES);
}

TEST(a_file_that_takes_a_line_in_parts_gets_it_whole)
{
        const char *text;

        log_setup(LOG_INFO, LOG_LOGFMT);
        capture_begin();
        part_max = 30;
        log_event(LOG_INFO, "something happened", LOG_S("text", "longer than a part"));
        log_event(LOG_INFO, "and went on");
        part_max = 0;
        text = capture_end();
        assert_non_null(strstr(text, " msg=\"something happened\" text=\"longer than a part\"\nts="));
        assert_null(strstr(text, "lost"));
}

TEST(levels_have_names)
{
        static const char *const names[] = { "error", "warn", "info", "debug" };
        for (int i = 0; i < LOG_LEVEL_COUNT; i++)
                assert_int_equal(log_level_from_name(names[i]), i);
        assert_int_equal(log_level_from_name("INFO"), -1);
        assert_int_equal(log_level_from_name(""), -1);
        assert_int_equal(log_level_from_name(NULL), -1);
}
