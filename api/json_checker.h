/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JSON_CHECKER_H
#define JSON_CHECKER_H

#include <stdbool.h>
#include <stddef.h>

struct json_outline;

/* A check under way, for json_check.c and what it is made of. A function that returns false has said why. */
struct json_checker {
        const unsigned char *at, *end;
        const char *what; /* NULL = no fault yet; then at is where it is */
        bool no_memory;
        unsigned depth, lists; /* what it is inside of: in all, and lists alone */
        size_t values;   /* so far that json-c has at once: of the text, or of the element of the innermost list */
        size_t elements; /* values of that list's elements together */
        struct json_outline *outline;
};

/* The text is wrong where the check is. The first word counts. */
static inline bool json_fault_at(struct json_checker *c, const char *what)
{
        if (!c->what)
                c->what = what;
        return false;
}

static inline bool json_short_of_memory(struct json_checker *c)
{
        c->no_memory = true;
        return false;
}

static inline void json_skip_space(struct json_checker *c)
{
        const unsigned char *at = c->at;

        while (at < c->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
                at++;
        c->at = at;
}

/* Whether that comes next. */
static inline bool json_peek(const struct json_checker *c, unsigned char wanted)
{
        return c->at < c->end && *c->at == wanted;
}

/* ---- json_scalar.c: each takes what begins at at, and moves behind it ---- */

/* From the quote on. */
bool json_check_string(struct json_checker *c);
bool json_check_number(struct json_checker *c);
/* true, false, null. */
bool json_check_word(struct json_checker *c, const char *word);

#endif
