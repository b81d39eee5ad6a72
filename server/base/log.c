/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "base/clock.h"
#include "base/util.h"

/*
 * The log: one line an event. A line is put together on the stack and written at once; what does not fit is cut, and
 * the line says so. Values from clients and peers are escaped, so that none can forge a line or steer a terminal.
 *
 * Thread: any, also in a callback of another library. The level, the format and the sink are atomic. Lock: one, for
 * lines to standard error; under it a thread may wait for PATIENCE_MS, but for no other thread of the worker.
 */

enum {
        LINE_SIZE = 4096,
        LINE_RESERVE = 64, /* room for the end of a truncated line */
        KEY_SIZE = 64,
        PATIENCE_MS = 100, /* with a reader that is behind; once it has lost a line, it is not waited for */
};

/* A line being written. Once truncated, only line_force adds to it, in the reserve. */
struct line {
        enum log_format format;
        size_t used;
        bool truncated;
        char text[LINE_SIZE];
};

static const char *const level_names[] = {
        [LOG_ERROR] = "error",
        [LOG_WARN] = "warn",
        [LOG_INFO] = "info",
        [LOG_DEBUG] = "debug",
};
_Static_assert(FERRY_ARRAY_SIZE(level_names) == LOG_LEVEL_COUNT, "every level has a name");

static _Atomic int current_level = LOG_WARN;
static _Atomic int current_format = LOG_LOGFMT;

/* Never freed: another thread may still use a replaced one. */
struct sink {
        void (*put)(void *context, const char *level, const char *line); /* NULL = standard error */
        void *context;
        struct sink *previous;
};
static _Atomic(struct sink *) current_sink;

int log_level_from_name(const char *name)
{
        for (int i = 0; name && i < LOG_LEVEL_COUNT; i++)
                if (strcmp(name, level_names[i]) == 0)
                        return i;
        return -1;
}

void log_setup(enum log_level level, enum log_format format)
{
        atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
        atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
        atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

int log_set_sink(void (*put)(void *context, const char *level, const char *line), void *context)
{
        struct sink *sink = malloc(sizeof(*sink));

        if (!sink)
                return -ENOMEM;
        *sink = (struct sink){ put, context, atomic_load(&current_sink) };
        while (!atomic_compare_exchange_weak(&current_sink, &sink->previous, sink))
                ;
        return 0;
}

bool log_enabled(enum log_level level)
{
        return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

/* Adds bytes, in the reserve too: the caller knows that they fit. */
static void line_force(struct line *line, const char *text, size_t n)
{
        memcpy(line->text + line->used, text, n);
        line->used += n;
}

/* Adds all n bytes or, if the line is full, none. */
static bool line_put(struct line *line, const char *text, size_t n)
{
        if (line->truncated || line->used + n > (size_t)LINE_SIZE - LINE_RESERVE) {
                line->truncated = true;
                return false;
        }
        line_force(line, text, n);
        return true;
}

/*
 * Whether a character could steer the terminal or the line structure: C0, DEL, C1, and the line and direction marks
 * that make a text look like another one.
 */
static bool is_control(uint32_t code)
{
        return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
               (code >= 0x2066 && code <= 0x2069);
}

/* Puts the text in quotes, escaped as in JSON; a byte that is not UTF-8 becomes the replacement character. */
static void line_quote(struct line *line, const char *text)
{
        if (!line_put(line, "\"", 1))
                return;
        for (const unsigned char *p = (const unsigned char *)text; *p;) {
                char escape[8];
                uint32_t code = 0;
                size_t n = ferry_utf8_length((const char *)p, strnlen((const char *)p, 4), &code);
                bool fits;
                if (n == 0)
                        fits = line_put(line, "\\ufffd", 6);
                else if (code == '"' || code == '\\')
                        fits = line_put(line, (char[]){ '\\', (char)code }, 2);
                else if (code == '\n')
                        fits = line_put(line, "\\n", 2);
                else if (code == '\t')
                        fits = line_put(line, "\\t", 2);
                else if (is_control(code))
                        fits = line_put(line, escape,
                                        (size_t)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)(code & 0xffff)));
                else
                        fits = line_put(line, (const char *)p, n);
                if (!fits)
                        break;
                p += n ? n : 1;
        }
        if (line->truncated)
                line_force(line, "...", 3);
        line_force(line, "\"", 1);
}

/* Whether logfmt can show the value without quotes. */
static bool is_plain(const char *text)
{
        if (!*text)
                return false;
        for (const unsigned char *p = (const unsigned char *)text; *p; p++)
                if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '=' || *p == '\\')
                        return false;
        return true;
}

/* Adds the key of a field, or nothing if it does not fit. */
static bool line_key(struct line *line, const char *key)
{
        size_t before = line->used;
        bool fits = line->format == LOG_JSON
                            ? line_put(line, before ? ",\"" : "{\"", 2) &&
                                      line_put(line, key, strnlen(key, KEY_SIZE)) && line_put(line, "\":", 2)
                            : line_put(line, " ", before > 0) && line_put(line, key, strnlen(key, KEY_SIZE)) &&
                                      line_put(line, "=", 1);

        if (!fits)
                line->used = before;
        return fits;
}

/* Adds a field of text. One that is cut ends in "..." inside its quotes. */
static void line_string(struct line *line, const char *key, const char *value)
{
        size_t before = line->used;
        if (!line_key(line, key))
                return;
        if (line->format == LOG_LOGFMT && is_plain(value) && line_put(line, value, strlen(value)))
                return;
        /* Retries a plain value that did not fit with quotes, inside which it is truncated visibly. */
        line->truncated = false;
        line_quote(line, value);
        if (line->truncated && line->text[line->used - 1] != '"')
                line->used = before;
}

static void line_field(struct line *line, const struct log_field *field)
{
        size_t before = line->used;
        char digits[24];

        if (!field->is_number) {
                if (field->string)
                        line_string(line, field->key, field->string);
                return;
        }
        (void)snprintf(digits, sizeof(digits), "%" PRIu64, field->number);
        if (line_key(line, field->key) && !line_put(line, digits, strlen(digits)))
                line->used = before;
}

/* The mark that the line was cut fits into the reserve. */
static void line_end(struct line *line)
{
        static const char *const marks[][2] = {
                [LOG_LOGFMT] = { "\n", " truncated=true\n" },
                [LOG_JSON] = { "}\n", ",\"truncated\":true}\n" },
        };
        const char *mark = marks[line->format][line->truncated];
        line_force(line, mark, strlen(mark));
}

static void line_begin(struct line *line, enum log_level level, const char *message)
{
        char now[CLOCK_TEXT_SIZE];

        clock_format(clock_unix_ms(), now);
        line->format = (enum log_format)atomic_load_explicit(&current_format, memory_order_relaxed);
        line->used = 0;
        line->truncated = false;
        line_string(line, "ts", now);
        line_string(line, "level", level_names[level]);
        line_string(line, "msg", message);
}

/* Whether standard error takes bytes, waiting for wait_ms at most. */
static bool is_writable(int wait_ms)
{
        struct pollfd output = { .fd = STDERR_FILENO, .events = POLLOUT };

        return poll(&output, 1, wait_ms) == 1 && output.revents & POLLOUT;
}

/*
 * Waits for a reader for wait_ms at most: one that stands still must not stop transfers. poll() serves where the kernel
 * or the file knows no RWF_NOWAIT (pipes before Linux 6.4, terminals); another process that shares a pipe may fill it
 * between poll() and the write, and a terminal may have room for a part of the line. A file may take a part of the line
 * without waiting, and takes the rest at once. The line is not longer than PIPE_BUF: a pipe takes it whole or not at
 * all.
 */
static bool line_put_out(const struct line *line, int wait_ms)
{
        struct iovec rest = { .iov_base = (void *)line->text, .iov_len = line->used };
        int flags = RWF_NOWAIT;

        while (rest.iov_len > 0 && (flags || is_writable(wait_ms))) {
                /* By its number: musl has pwritev2() only from 1.2.5 on. Offset -1, in two halves: the file's own. */
                ssize_t n = syscall(SYS_pwritev2, STDERR_FILENO, &rest, 1L, -1L, -1L, flags);

                if (n > 0) {
                        rest.iov_base = (char *)rest.iov_base + n;
                        rest.iov_len -= (size_t)n;
                } else if (n == 0 || errno != EINTR) {
                        if (!flags)
                                break;
                        flags = 0;
                }
        }
        return rest.iov_len == 0;
}
_Static_assert(LINE_SIZE <= PIPE_BUF, "a pipe takes a line whole");

/* Counts the lines that could not be written, and says how many they were before the next one that can. */
static void line_write(struct line *line)
{
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static unsigned long lost;
        int wait_ms = PATIENCE_MS;
        struct line report;

        (void)pthread_mutex_lock(&lock); /* of several threads that wait, the second would find no room again */
        if (lost > 0) {
                wait_ms = 0;
                line_begin(&report, LOG_WARN, "log lines lost");
                line_field(&report, &LOG_U("lines", lost));
                line_end(&report);
                if (line_put_out(&report, wait_ms))
                        lost = 0;
        }
        if (lost > 0 || !line_put_out(line, wait_ms))
                lost++;
        (void)pthread_mutex_unlock(&lock);
}

void log_write(enum log_level level, const char *message, const struct log_field *fields, unsigned n)
{
        if (!log_enabled(level))
                return;
        int saved_errno = errno;
        const struct sink *sink = atomic_load(&current_sink);
        struct line line;

        line_begin(&line, level, message);
        for (unsigned i = 0; i < n && !line.truncated; i++)
                line_field(&line, &fields[i]);
        line_end(&line);
        if (sink && sink->put) {
                line.text[line.used - 1] = '\0';
                sink->put(sink->context, level_names[level], line.text);
        } else {
                line_write(&line);
        }
        errno = saved_errno;
}
