/* SPDX-License-Identifier: Apache-2.0 */
#include "json_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "json_keys.h"

struct checker {
        const unsigned char *at, *end;
        const char *what; /* NULL = no fault yet; then at is where it is */
        bool no_memory;
        unsigned depth;
        struct json_values values;
        struct json_keys keys; /* of the object that ends, when it is not a simple one */
};

static bool fault(struct checker *c, const char *what)
{
        if (!c->what)
                c->what = what;
        return false;
}

static bool short_of_memory(struct checker *c)
{
        c->no_memory = true;
        return false;
}

static bool add(struct checker *c, enum ferry_json_kind kind, const unsigned char *text, size_t size)
{
        return json_values_add(&c->values, kind, text, size) != SIZE_MAX || short_of_memory(c);
}

static void skip_space(struct checker *c)
{
        while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
                c->at++;
}

static bool peek(const struct checker *c, unsigned char wanted)
{
        return c->at < c->end && *c->at == wanted;
}

/* ---- strings ---- */

/* The bytes that follow a lead byte in well-formed UTF-8 (Unicode 15, table 3-7). */
static bool check_utf8(struct checker *c)
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
                                return fault(c, "the text is not UTF-8");
                c->at += rows[i].more + 1;
                return true;
        }
        return fault(c, "the text is not UTF-8");
}

/* Four hexadecimal digits; -1 when they are not. */
static int hex4(const struct checker *c, const unsigned char *at)
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

static bool check_unicode_escape(struct checker *c)
{
        int value = hex4(c, c->at + 1), low;

        if (value < 0)
                return fault(c, "\\u needs four hexadecimal digits");
        if (value == 0)
                return fault(c, "\\u0000 is not accepted");
        c->at += 5;
        if (value < 0xd800 || value > 0xdfff)
                return true;
        low = value <= 0xdbff && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u' ? hex4(c, c->at + 2) : -1;
        if (low < 0xdc00 || low > 0xdfff)
                return fault(c, "a surrogate escape stands alone");
        c->at += 6;
        return true;
}

static bool check_escape(struct checker *c)
{
        c->at++;
        if (c->at == c->end)
                return fault(c, "a string does not end");
        if (*c->at == 'u')
                return check_unicode_escape(c);
        if (!memchr("\"\\/bfnrt", *c->at, 8))
                return fault(c, "unknown escape in a string");
        c->at++;
        return true;
}

static bool check_string(struct checker *c)
{
        const unsigned char *start = ++c->at;

        while (c->at < c->end) {
                if (*c->at == '"') {
                        c->at++;
                        return add(c, FERRY_JSON_TEXT, start, (size_t)(c->at - 1 - start));
                }
                if (*c->at < 0x20)
                        return fault(c, "a control character must be escaped in a string");
                if (*c->at == '\\') {
                        if (!check_escape(c))
                                return false;
                } else if (*c->at < 0x80) {
                        c->at++;
                } else if (!check_utf8(c)) {
                        return false;
                }
        }
        return fault(c, "a string does not end");
}

/* ---- numbers and words ---- */

static bool check_digits(struct checker *c)
{
        const unsigned char *start = c->at;

        while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
                c->at++;
        return c->at > start || fault(c, "a number lacks a digit");
}

static bool check_number(struct checker *c)
{
        const unsigned char *start = c->at, *first;
        bool integer = true;

        if (peek(c, '-'))
                c->at++;
        first = c->at;
        if (!check_digits(c))
                return false;
        if (*first == '0' && c->at - first > 1)
                return fault(c, "a number begins with 0");
        if (peek(c, '.')) {
                integer = false;
                c->at++;
                if (!check_digits(c))
                        return false;
        }
        if (peek(c, 'e') || peek(c, 'E')) {
                integer = false;
                c->at++;
                if (peek(c, '+') || peek(c, '-'))
                        c->at++;
                if (!check_digits(c))
                        return false;
        }
        return add(c, integer ? FERRY_JSON_INTEGER : FERRY_JSON_NUMBER, start, (size_t)(c->at - start));
}

static bool check_word(struct checker *c, const char *word, enum ferry_json_kind kind)
{
        size_t n = strlen(word);

        if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
                return fault(c, "not a JSON value");
        c->at += n;
        return add(c, kind, NULL, 0);
}

/* ---- values ---- */

static bool check_value(struct checker *c);

static bool check_member(struct checker *c)
{
        skip_space(c);
        if (!peek(c, '"'))
                return fault(c, "expected a key in double quotes");
        if (!check_string(c))
                return false;
        skip_space(c);
        if (!peek(c, ':'))
                return fault(c, "expected ':' after a key");
        c->at++;
        return check_value(c);
}

/* What stands between two brackets, and the closing one. */
static bool check_elements(struct checker *c, unsigned char close, bool (*check_element)(struct checker *c),
                           uint32_t *ret_n)
{
        uint32_t n = 0;

        skip_space(c);
        if (!peek(c, close)) {
                for (;;) {
                        if (!check_element(c))
                                return false;
                        n++;
                        skip_space(c);
                        if (!peek(c, ','))
                                break;
                        c->at++;
                }
        }
        if (!peek(c, close))
                return fault(c, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        c->at++;
        *ret_n = n;
        return true;
}

static bool same_key(const struct ferry_json *a, const struct ferry_json *b)
{
        return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* Few keys without escapes: each with each. Sets *ret_twice to the first that comes again; false: not such an object.
 */
static bool compare_simple_keys(const struct ferry_json *object, const unsigned char **ret_twice)
{
        enum { FEW = 12 };
        const struct ferry_json *keys[FEW], *at = object + 1;

        if (object->size > FEW)
                return false;
        for (uint32_t i = 0; i < object->size; i++, at += 1 + at[1].span) {
                if (memchr(at->text, '\\', at->size))
                        return false;
                keys[i] = at;
                for (uint32_t j = 0; j < i && !*ret_twice; j++)
                        if (same_key(keys[j], at))
                                *ret_twice = (const unsigned char *)at->text - 1;
        }
        return true;
}

/* A key that the object has had before is a fault. */
static bool check_keys(struct checker *c, const struct ferry_json *object)
{
        const struct ferry_json *at = object + 1;
        const unsigned char *twice = NULL;

        if (!compare_simple_keys(object, &twice)) {
                for (uint32_t i = 0; i < object->size; i++, at += 1 + at[1].span) {
                        const unsigned char *text = (const unsigned char *)at->text;

                        if (!json_keys_push(&c->keys, text - 1, text + at->size + 1))
                                return short_of_memory(c);
                }
                twice = json_keys_pop(&c->keys, 0);
        }
        if (!twice)
                return true;
        c->at = twice;
        return fault(c, "an object has this key twice");
}

/* An object or an array, from its opening bracket on; recursion is bounded by FERRY_JSON_DEPTH. */
static bool check_list(struct checker *c, enum ferry_json_kind kind)
{
        bool object = kind == FERRY_JSON_MEMBERS;
        size_t start = c->values.n;
        struct ferry_json *value;
        uint32_t n;

        if (c->depth == FERRY_JSON_DEPTH)
                return fault(c, "nested too deep");
        if (!add(c, kind, NULL, 0))
                return false;
        c->depth++;
        c->at++;
        if (!check_elements(c, object ? '}' : ']', object ? check_member : check_value, &n))
                return false;
        c->depth--;
        value = json_values_at(&c->values, start);
        value->size = n;
        value->span = (uint32_t)(c->values.n - start);
        return !object || check_keys(c, value);
}

static bool check_value(struct checker *c)
{
        skip_space(c);
        if (c->at == c->end)
                return fault(c, "the text ends where a value is expected");
        switch (*c->at) {
        case '{':
                return check_list(c, FERRY_JSON_MEMBERS);
        case '[':
                return check_list(c, FERRY_JSON_LIST);
        case '"':
                return check_string(c);
        case 't':
                return check_word(c, "true", FERRY_JSON_TRUE);
        case 'f':
                return check_word(c, "false", FERRY_JSON_FALSE);
        case 'n':
                return check_word(c, "null", FERRY_JSON_NULL);
        default:
                if (*c->at == '-' || (*c->at >= '0' && *c->at <= '9'))
                        return check_number(c);
                return fault(c, "not a JSON value");
        }
}

static void locate(const char *text, const unsigned char *at, struct json_fault *ret_fault)
{
        ret_fault->line = ret_fault->column = 1;
        for (const unsigned char *p = (const unsigned char *)text; p < at; p++) {
                if (*p == '\n') {
                        ret_fault->line++;
                        ret_fault->column = 1;
                } else if ((*p & 0xc0) != 0x80) {
                        ret_fault->column++;
                }
        }
}

int json_check(const char *text, size_t length, struct json_values *ret_values, struct json_fault *ret_fault)
{
        struct checker c = { .at = (const unsigned char *)text, .end = (const unsigned char *)text + length };
        bool good = check_value(&c);

        if (good) {
                skip_space(&c);
                if (c.at < c.end)
                        good = fault(&c, "something follows the value");
        }
        json_keys_clear(&c.keys);
        if (good) {
                *ret_values = c.values;
                return 0;
        }
        json_values_clear(&c.values);
        if (c.no_memory)
                return -ENOMEM;
        ret_fault->what = c.what;
        locate(text, c.at, ret_fault);
        return FERRY_E_INVALID_JSON;
}
