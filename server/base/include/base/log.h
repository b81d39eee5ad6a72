/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One line an event on standard error, logfmt or JSON. A pipe or a socket gets a line by one write(2), so that lines of
 * different threads do not mix. A line waits for its reader, but for 100 ms at most: then lines are lost until one is
 * taken again, and that one says how many were. A terminal that stands still may hold up those who write. Never put a
 * key, a token or an address of memory into a line.
 */

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };
enum log_format { LOG_LOGFMT, LOG_JSON };

/* "error", "warn", "info", "debug"; -1 when not known. */
int log_level_from_name(const char *name);

/* Defaults: LOG_WARN, as befits a library; LOG_LOGFMT. Any thread. */
void log_setup(enum log_level level, enum log_format format);
void log_set_level(enum log_level level);

/*
 * Where lines go, each without its newline, with the name of its level; sink NULL = standard error. 0 or -ENOMEM. Any
 * thread.
 */
int log_set_sink(void (*sink)(void *context, const char *level, const char *line), void *context);

/* Whether a line of that level would be written; for work that only logging needs. Any thread. */
bool log_enabled(enum log_level level);

/* A field of a line. */
struct log_field {
        const char *key;
        bool is_number;
        union {
                const char *string;
                uint64_t number;
        };
};
#define LOG_S(k, v) ((struct log_field){ .key = (k), .string = (v) })
#define LOG_U(k, v) ((struct log_field){ .key = (k), .is_number = true, .number = (uint64_t)(v) })

/*
 * log_event(LOG_INFO, "region created", LOG_S("region", id), LOG_U("size", size));
 * Values are quoted and escaped as the format needs; a NULL string is left out. Any thread. errno is kept.
 */
#define log_event(level, message, ...)                                                                                 \
        log_write((level), (message), (const struct log_field[]){ { 0 }, ##__VA_ARGS__ } + 1,                          \
                  sizeof((const struct log_field[]){ { 0 }, ##__VA_ARGS__ }) / sizeof(struct log_field) - 1)

void log_write(enum log_level level, const char *message, const struct log_field *fields, unsigned n);

#endif
