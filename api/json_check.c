/* SPDX-License-Identifier: Apache-2.0 */
#include "json_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

struct checker {
        const unsigned char *at, *end;
        const char *what; /* NULL = no fault yet; then at is where it is */
        bool no_memory;
        unsigned depth, lists; /* what it is inside of: in all, and lists alone */
        size_t values;   /* so far that json-c has at once: of the text, or of the element of the innermost list */
        size_t elements; /* values of that list's elements together */
        struct json_outline *outline;
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

static void skip_space(struct checker *c)
{
        const unsigned char *at = c->at;

        while (at < c->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
                at++;
        c->at = at;
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
                        return fault(c, "a control character must be escaped in a string");
                if (*c->at == '\\' ? !check_escape(c) : !check_utf8(c))
                        return false;
        }
        return fault(c, "a string does not end");
}

/* ---- numbers and words ---- */

static bool check_digits(struct checker *c)
{
        const unsigned char *start = c->at, *at = start;

        while (at < c->end && *at >= '0' && *at <= '9')
                at++;
        c->at = at;
        return at > start || fault(c, "a number lacks a digit");
}

static bool check_number(struct checker *c)
{
        const unsigned char *first;

        if (peek(c, '-'))
                c->at++;
        first = c->at;
        if (!check_digits(c))
                return false;
        if (*first == '0' && c->at - first > 1)
                return fault(c, "a number begins with 0");
        if (peek(c, '.')) {
                c->at++;
                if (!check_digits(c))
                        return false;
        }
        if (peek(c, 'e') || peek(c, 'E')) {
                c->at++;
                if (peek(c, '+') || peek(c, '-'))
                        c->at++;
                if (!check_digits(c))
                        return false;
        }
        return true;
}

static bool check_word(struct checker *c, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
                return fault(c, "not a JSON value");
        c->at += n;
        return true;
}

/* ---- values ---- */

static bool check_value(struct checker *c);

static bool add_list(struct json_outline *outline, const struct json_list *list)
{
        struct json_list *lists = json_reserve(outline->lists, &outline->room, outline->n_lists + 1, sizeof(*lists));

        if (!lists)
                return false;
        outline->lists = lists;
        lists[outline->n_lists++] = *list;
        return true;
}

/* The key runs from its opening quote up to where the checker is. One with escapes is not it. */
static bool is_kept(const struct checker *c, const unsigned char *key)
{
        const char *kept = c->outline->kept;
        size_t n = (size_t)(c->at - key) - 2;

        return kept && c->depth == 1 && n == strlen(kept) && memcmp(key + 1, kept, n) == 0;
}

/* An object stands in the outline like a list; any other value is nothing special. */
static bool check_kept(struct checker *c)
{
        struct json_outline *outline = c->outline;
        size_t n_lists = outline->n_lists, n_values = outline->n_values, values = c->values;
        struct json_list kept = { 0 };

        skip_space(c);
        kept.text = (const char *)c->at;
        if (!check_value(c))
                return false;
        if (*kept.text != '{')
                return true;
        kept.size = (size_t)((const char *)c->at - kept.text);
        outline->n_lists = n_lists;
        outline->n_values = n_values + 1;
        c->values = values + 1;
        return add_list(outline, &kept) || short_of_memory(c);
}

static bool check_member(struct checker *c)
{
        const unsigned char *key;
        bool kept;

        skip_space(c);
        if (!peek(c, '"'))
                return fault(c, "expected a key in double quotes");
        key = c->at;
        if (!check_string(c))
                return false;
        if (!json_keys_push(&c->outline->keys, key, c->at))
                return short_of_memory(c);
        kept = is_kept(c, key);
        skip_space(c);
        if (!peek(c, ':'))
                return fault(c, "expected ':' after a key");
        c->at++;
        return kept ? check_kept(c) : check_value(c);
}

/* What stands between two brackets, and the closing one. */
static bool check_elements(struct checker *c, unsigned char close, bool (*check)(struct checker *c), size_t *ret_n)
{
        size_t n = 0;

        skip_space(c);
        if (!peek(c, close)) {
                for (;;) {
                        if (!check(c))
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

static bool check_object(struct checker *c)
{
        struct json_keys *keys = &c->outline->keys;
        size_t mark = keys->n, n;
        const unsigned char *twice;

        if (!check_elements(c, '}', check_member, &n))
                return false;
        if (!json_keys_pop(keys, mark, &twice))
                return short_of_memory(c);
        if (!twice)
                return true;
        c->at = twice;
        return fault(c, "an object has this key twice");
}

static bool count_value(struct checker *c, size_t n)
{
        c->values += n;
        return c->values <= FERRY_JSON_VALUES || fault(c, "more values than any document has");
}

/* Of a long list an element is read alone: its values are there only while it is looked at. */
static bool check_element(struct checker *c)
{
        c->values = 0;
        if (!check_value(c))
                return false;
        c->elements += c->values;
        return true;
}

static bool check_list(struct checker *c)
{
        struct json_list list = { .text = (const char *)c->at - 1 };
        size_t n_values = c->outline->n_values, values = c->values, elements = c->elements, inside;

        c->lists++;
        c->elements = 0;
        if (!check_elements(c, ']', check_element, &list.n))
                return false;
        c->lists--;
        inside = c->elements;
        c->values = values;
        c->elements = elements;
        list.size = (size_t)((const char *)c->at - list.text);
        if (list.size <= JSON_LIST_SHORT && !count_value(c, inside))
                return false;
        if (c->lists || (list.n && list.size <= JSON_LIST_SHORT))
                return true;
        c->outline->n_values = n_values;
        return add_list(c->outline, &list) || short_of_memory(c);
}

/* From the opening bracket on; recursion is bounded by FERRY_JSON_DEPTH. */
static bool check_within(struct checker *c, bool (*check)(struct checker *c))
{
        if (c->depth == FERRY_JSON_DEPTH)
                return fault(c, "nested too deep");
        c->depth++;
        c->at++;
        if (!check(c))
                return false;
        c->depth--;
        return true;
}

static bool check_value(struct checker *c)
{
        skip_space(c);
        if (c->at == c->end)
                return fault(c, "the text ends where a value is expected");
        if (!count_value(c, 1))
                return false;
        c->outline->n_values += *c->at != 'n';
        switch (*c->at) {
        case '{':
                return check_within(c, check_object);
        case '[':
                return check_within(c, check_list);
        case '"':
                return check_string(c);
        case 't':
                return check_word(c, "true");
        case 'f':
                return check_word(c, "false");
        case 'n':
                return check_word(c, "null");
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

static struct checker begin(const char *text, size_t length, struct json_outline *outline)
{
        outline->n_lists = outline->n_values = outline->keys.n = 0;
        return (struct checker){ .at = (const unsigned char *)text,
                                 .end = (const unsigned char *)text + length,
                                 .outline = outline };
}

int json_check(const char *text, size_t length, struct json_outline *outline, struct json_fault *ret_fault)
{
        struct checker c = begin(text, length, outline);
        bool good = check_value(&c);

        outline->end = (const char *)c.at;
        if (good) {
                skip_space(&c);
                if (c.at < c.end)
                        good = fault(&c, "something follows the value");
        }
        if (good)
                return 0;
        if (c.no_memory)
                return -ENOMEM;
        ret_fault->what = c.what;
        locate(text, c.at, ret_fault);
        return FERRY_E_INVALID_JSON;
}

int json_check_elements(const char *text, size_t length, struct json_outline *outline, size_t *ret_n)
{
        struct checker c = begin(text, length, outline);
        size_t n = 0;

        for (;;) {
                /* All of it has been checked before: only memory can be short. */
                c.values = 0;
                if (!check_value(&c))
                        return -ENOMEM;
                n++;
                outline->end = (const char *)c.at;
                skip_space(&c);
                if (!peek(&c, ',') || outline->end - text >= JSON_BATCH)
                        break;
                c.at++;
        }
        *ret_n = n;
        return 0;
}

void json_outline_clear(struct json_outline *outline)
{
        free(outline->lists);
        json_keys_clear(&outline->keys);
        *outline = (struct json_outline){ 0 };
}
