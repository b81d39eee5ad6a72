/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_OPTIONS_H
#define FERRY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * What Ferry's programs and an embedded worker can be told: by the command line, the environment, or one option at a
 * time. <ferry/option_table.h> has the options. A program makes of its rows
 *
 *   struct NAME { struct ferry_option_base base; the fields, by FERRY_VALUE_kind };
 *   static const struct ferry_option NAME_table[] = { the rows, by FERRY_OPTION_ROW };
 *
 * The base comes first: it stands for the whole struct here. One thread at a time.
 */

/* Texts, owned. Zero-initialise. */
struct ferry_strings {
        char **items;
        size_t n;
};

/* Kinds of values. Without fallback, values are 0. */
enum ferry_option_kind {
        FERRY_OPTION_FLAG,   /* no value; 1, true, 0 or false in the environment */
        FERRY_OPTION_QUERY,  /* a flag, such as --help, whose command line need not be right beyond it */
        FERRY_OPTION_TEXT,   /* not empty, unless accepts says otherwise */
        FERRY_OPTION_LIST,   /* texts; repeatable; between commas in the environment */
        FERRY_OPTION_CHOICE, /* one of the words in argument; the value is its position */
        FERRY_OPTION_NUMBER,
        FERRY_OPTION_SIZE, /* in bytes */
        FERRY_OPTION_TIME, /* in milliseconds */
};

#define FERRY_VALUE_FLAG bool
#define FERRY_VALUE_QUERY bool
#define FERRY_VALUE_TEXT const char *
#define FERRY_VALUE_LIST struct ferry_strings
#define FERRY_VALUE_CHOICE unsigned
#define FERRY_VALUE_NUMBER uint64_t
#define FERRY_VALUE_SIZE uint64_t
#define FERRY_VALUE_TIME uint64_t

/* A row of the table; see there. */
struct ferry_option {
        const char *name, *part, *variable, *argument, *fallback, *text;
        char letter;
        enum ferry_option_kind kind;
        size_t offset;                      /* of the field */
        uint64_t min, max;                  /* max 0 = no limit but that of the parser */
        bool (*accepts)(const char *value); /* NULL = every text that is not empty */
        const char *accepted;               /* what accepts takes, for the error */
};

#define FERRY_OPTION_ROW(values, part_, letter_, name_, variable_, kind_, field_, argument_, fallback_, text_, ...)    \
        { .name = (name_),                                                                                             \
          .part = (part_),                                                                                             \
          .variable = (variable_),                                                                                     \
          .argument = (argument_),                                                                                     \
          .fallback = (fallback_),                                                                                     \
          .text = (text_),                                                                                             \
          .letter = (letter_),                                                                                         \
          .kind = FERRY_OPTION_##kind_,                                                                                \
          .offset = offsetof(values, field_),                                                                          \
          ##__VA_ARGS__ },

enum { FERRY_OPTION_MESSAGE_SIZE = 320, FERRY_OPTIONS_MAX = 64 };

/* Set the first three, zero the rest, and call ferry_options_default. */
struct ferry_option_base {
        const char *program;              /* "ferryd", for the errors */
        const struct ferry_option *table; /* at most FERRY_OPTIONS_MAX rows */
        size_t n;
        struct ferry_strings texts; /* to which fields point */
        uint64_t given;             /* bit i: row i is on the command line */
        bool query;                 /* one of FERRY_OPTION_QUERY is */
        char message[FERRY_OPTION_MESSAGE_SIZE];
};

/* The functions below return 0, -ENOMEM, or -EINVAL with a sentence in message. */

/* Takes what is neither an option nor the value of one. literal: it stands behind "--". Sets message to refuse it. */
typedef int ferry_option_operand(struct ferry_option_base *base, char *text, bool literal);

/* Sets the fields, but for lists, to their fallbacks. */
void ferry_options_default(struct ferry_option_base *base);

/*
 * Reads argv, in which options and operands stand in any order, then the variables of the environment whose options it
 * lacks; lists without an element get their fallback. Ends at an error, which counts as none after a QUERY. operand
 * NULL = all operands are refused. Not while another thread calls getopt or changes the environment.
 */
int ferry_options_read(struct ferry_option_base *base, int argc, char *const *argv, ferry_option_operand *operand);

/* Reads the environment alone. Ignores empty variables, and those of no option, such as FERRY_PORT of Kubernetes. */
int ferry_options_environment(struct ferry_option_base *base);

/*
 * Sets one option from a text in the form of --NAME; of a flag 1, true, 0 or false. source names it in the error. Texts
 * are copied; elements of lists add up.
 */
int ferry_option_set(struct ferry_option_base *base, const struct ferry_option *option, const char *source,
                     const char *value);

/* Finds the option of that name; NULL = none. */
const struct ferry_option *ferry_option_find(const struct ferry_option_base *base, const char *name);

/* Whether the command line has the option of a field. */
bool ferry_option_given(const struct ferry_option_base *base, const void *field);

/* Sets the sentence, without control characters. Returns -EINVAL. */
int ferry_option_refuse(struct ferry_option_base *base, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies a struct of size bytes with its texts. Call ferry_options_clear on the copy in any case. */
int ferry_options_copy(struct ferry_option_base *ret_copy, const struct ferry_option_base *base, size_t size);

/* Frees the texts. */
void ferry_options_clear(struct ferry_option_base *base);

/* Adds a copy of the text, and returns it. NULL: memory is short. */
char *ferry_strings_add(struct ferry_strings *strings, const char *text);

/* Prints a paragraph in lines of at most 80 columns, each indented. */
void ferry_wrap(FILE *file, const char *text, int indent);

/* Prints the lines of --help about one option. */
void ferry_option_help(FILE *file, const struct ferry_option *option);

/*
 * "64", "4k", "1MiB", "1.5G", "2GB" in bytes. k/K, M, G, T with or without iB are powers of 1024; "kB", "MB", "GB",
 * "TB" are powers of 1000. false when the text is not a size or does not fit below 2^53.
 */
bool ferry_size_parse(const char *text, uint64_t *ret_size);

/* "500ms", "1.5s", "10m", "2h", or 0, in milliseconds. false: not a time, or not below 2^53. */
bool ferry_time_parse(const char *text, uint64_t *ret_ms);

/* ---- names ---- */

enum { FERRY_VARIABLE_SIZE = 48 };

/* The variables of the environment that Ferry's programs read, some of them more than once, and NULL between them. */
extern const char *const ferry_variables[];
extern const size_t ferry_variables_count;

/*
 * Calls complain for each variable of the environment that begins with FERRY_, is none of these and close to one, which
 * it may have meant. A variable close to none is somebody else's.
 */
void ferry_variables_check(void (*complain)(const char *wrong, const char *near));

/*
 * The closest of n names to a wrong one; the strings are stride bytes apart, some may be NULL. NULL = none is close.
 */
const char *ferry_suggest(const char *wrong, const char *const *names, size_t n, size_t stride);

#endif
