/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_SCAN_H
#define FERRY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Reads JSON whose form is known: keys in their order, no escapes. What is written otherwise is false, with the scan
 * anywhere. Inline, because long lists are read by it.
 */

struct scan {
        const char *at, *end;
};

static inline void scan_space(struct scan *s)
{
        while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
                s->at++;
}

/* One of the characters that JSON has between values, and the white space before it. */
static inline bool scan_character(struct scan *s, char wanted)
{
        scan_space(s);
        if (s->at == s->end || *s->at != wanted)
                return false;
        s->at++;
        return true;
}

/* A key, what stands before it, and the colon. */
static inline bool scan_key(struct scan *s, char before, const char *key, size_t n)
{
        if (!scan_character(s, before) || !scan_character(s, '"') || (size_t)(s->end - s->at) <= n ||
            memcmp(s->at, key, n) != 0 || s->at[n] != '"')
                return false;
        s->at += n + 1;
        return scan_character(s, ':');
}

#define SCAN_KEY(scan, before, key) scan_key(scan, before, key, sizeof(key) - 1)

/* What stands next without a space. */
static inline bool scan_word(struct scan *s, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
                return false;
        s->at += n;
        return true;
}

/* Up to 19 digits, which fit; what follows them is for the next one to find wrong. */
static inline bool scan_number(struct scan *s, uint64_t *ret_number)
{
        const char *start;
        uint64_t number = 0;

        scan_space(s);
        start = s->at;
        while (s->at < s->end && s->at - start < 19 && *s->at >= '0' && *s->at <= '9')
                number = number * 10 + (uint64_t)(*s->at++ - '0');
        if (s->at == start || (*start == '0' && s->at - start > 1))
                return false;
        *ret_number = number;
        return true;
}

/* A string in which nothing needs an escape or has one, of fewer than size bytes. */
static inline bool scan_string(struct scan *s, const char **ret_text, size_t *ret_size, size_t size)
{
        const char *start, *quote;
        unsigned char plain = 1; /* of the type of the characters, and looked at once: compilers take many at a time */

        if (!scan_character(s, '"'))
                return false;
        start = s->at;
        quote = memchr(start, '"', (size_t)(s->end - start) < size ? (size_t)(s->end - start) : size);
        if (!quote)
                return false;
        for (const char *at = start; at < quote; at++)
                plain &= (*at > ' ') & (*at <= '~') & (*at != '\\');
        if (!plain)
                return false;
        s->at = quote + 1;
        *ret_text = start;
        *ret_size = (size_t)(quote - start);
        return true;
}

/* The same into a buffer of size bytes, with a NUL. */
static inline bool scan_text(struct scan *s, char *ret_text, size_t size)
{
        const char *text;
        size_t n;

        if (!scan_string(s, &text, &n, size))
                return false;
        memcpy(ret_text, text, n);
        ret_text[n] = '\0';
        return true;
}

#endif
