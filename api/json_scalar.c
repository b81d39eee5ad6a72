/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <ferry/encoding.h>

#include "json_checker.h"

/* ---- strings ---- */

static bool check_utf8(struct json_checker *c)
{
        uint32_t character;
        size_t n = ferry_utf8_length((const char *)c->at, (size_t)(c->end - c->at), &character);

        if (!n)
                return json_fault_at(c, "the text is not UTF-8");
        c->at += n;
        return true;
}

/* Four hexadecimal digits, as in \uXXXX; -1 when they are not. */
static int hex4(const unsigned char *at, const unsigned char *end)
{
        int value = 0;

        if (end - at < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                int digit = ferry_hex_digit((char)at[i]);

                if (digit < 0)
                        return -1;
                value = value << 4 | digit;
        }
        return value;
}

static bool check_unicode_escape(struct json_checker *c)
{
        int value = hex4(c->at + 1, c->end), low;

        if (value < 0)
                return json_fault_at(c, "\\u needs four hexadecimal digits");
        if (value == 0)
                return json_fault_at(c, "\\u0000 is not accepted");
        c->at += 5;
        if (value < 0xd800 || value > 0xdfff)
                return true;
        low = value <= 0xdbff && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u' ? hex4(c->at + 2, c->end)
                                                                                            : -1;
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
