/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "json_checker.h"

/* ---- strings ---- */

/* The bytes that follow a lead byte in well-formed UTF-8 (Unicode 15, table 3-7). */
static bool check_utf8(struct json_checker *c)
{
        static const struct {
                unsigned char first, last, low, high, more;
        } rows[] = {
                { 0xc2, 0xdf, 0x80, 0xbf, 1 }, { 0xe0, 0xe0, 0xa0, 0xbf, 2 }, { 0xe1, 0xec, 0x80, 0xbf, 2 },
                { 0xed, 0xed, 0x80, 0x9f, 2 }, { 0xee, 0xef, 0x80, 0xbf, 2 }, { 0xf0, 0xf0, 0x90, 0xbf, 3 },
                { 0xf1, 0xf3, 0x80, 0xbf, 3 }, { 0xf4, 0xf4, 0x80, 0x8f, 3 },
        };
        unsigned char lead = *c->at;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (lead < rows[i].first || lead > rows[i].last)
                        continue;
                if (c->end - c->at <= rows[i].more || c->at[1] < rows[i].low || c->at[1] > rows[i].high)
                        break;
                for (unsigned j = 2; j <= rows[i].more; j++)
                        if ((c->at[j] & 0xc0) != 0x80)
                                return json_fault_at(c, "the text is not UTF-8");
                c->at += rows[i].more + 1;
                return true;
        }
        return json_fault_at(c, "the text is not UTF-8");
}

/* Four hexadecimal digits; -1 when they are not. */
static int hex4(const struct json_checker *c, const unsigned char *at)
{
        int value = 0;

        if (c->end - at < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                unsigned char d = at[i];

                if (d >= '0' && d <= '9')
                        value = value << 4 | (d - '0');
                else if ((d | 32) >= 'a' && (d | 32) <= 'f')
                        value = value << 4 | ((d | 32) - 'a' + 10);
                else
                        return -1;
        }
        return value;
}

static bool check_unicode_escape(struct json_checker *c)
{
        int value = hex4(c, c->at + 1), low;

        if (value < 0)
                return json_fault_at(c, "\\u needs four hexadecimal digits");
        if (value == 0)
                return json_fault_at(c, "\\u0000 is not accepted");
        c->at += 5;
        if (value < 0xd800 || value > 0xdfff)
                return true;
        low = value <= 0xdbff && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u' ? hex4(c, c->at + 2) : -1;
        if (low < 0xdc00 || low > 0xdfff)
                return json_fault_at(c, "a surrogate escape stands alone");
        c->at += 6;
        return true;
}

static bool check_escape(struct json_checker *c)
{
        c->at++;
        if (c->at == c->end)
                return json_fault_at(c, "a string does not end");
        if (*c->at == 'u')
                return check_unicode_escape(c);
        if (!memchr("\"\\/bfnrt", *c->at, 8))
                return json_fault_at(c, "unknown escape in a string");
        c->at++;
        return true;
}

bool json_check_string(struct json_checker *c)
{
        /* ASCII but controls, the quote and the backslash: what most of any text is. */
        static const bool plain[256] = { [0x20 ... 0x21] = true, [0x23 ... 0x5b] = true, [0x5d ... 0x7f] = true };

        c->at++;
        while (c->at < c->end) {
                /* A local pointer: as far as the compiler knows, the text may overlap with *c. */
                const unsigned char *at = c->at;

                while (at < c->end && plain[*at])
                        at++;
                c->at = at;
                if (at == c->end)
                        break;
                if (*c->at == '"') {
                        c->at++;
                        return true;
                }
                if (*c->at < 0x20)
                        return json_fault_at(c, "a control character must be escaped in a string");
                if (*c->at == '\\' ? !check_escape(c) : !check_utf8(c))
                        return false;
        }
        return json_fault_at(c, "a string does not end");
}

/* ---- numbers and words ---- */

static bool check_digits(struct json_checker *c)
{
        const unsigned char *start = c->at, *at = start;

        while (at < c->end && *at >= '0' && *at <= '9')
                at++;
        c->at = at;
        return at > start || json_fault_at(c, "a number lacks a digit");
}

bool json_check_number(struct json_checker *c)
{
        const unsigned char *first;

        if (json_peek(c, '-'))
                c->at++;
        first = c->at;
        if (!check_digits(c))
                return false;
        if (*first == '0' && c->at - first > 1)
                return json_fault_at(c, "a number begins with 0");
        if (json_peek(c, '.')) {
                c->at++;
                if (!check_digits(c))
                        return false;
        }
        if (json_peek(c, 'e') || json_peek(c, 'E')) {
                c->at++;
                if (json_peek(c, '+') || json_peek(c, '-'))
                        c->at++;
                if (!check_digits(c))
                        return false;
        }
        return true;
}

bool json_check_word(struct json_checker *c, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
                return json_fault_at(c, "not a JSON value");
        c->at += n;
        return true;
}
