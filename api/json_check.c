/* SPDX-License-Identifier: Apache-2.0 */
#include "json_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "json_checker.h"

static bool check_value(struct json_checker *c);

static bool add_list(struct json_outline *outline, const struct json_list *list)
{
        struct json_list *lists = ferry_reserve(outline->lists, &outline->room, outline->n_lists + 1, sizeof(*lists));

        if (!lists)
                return false;
        outline->lists = lists;
        lists[outline->n_lists++] = *list;
        return true;
}

/* The key runs from its opening quote up to where the checker is. One with escapes is not it. */
static bool is_kept(const struct json_checker *c, const unsigned char *key)
{
        const char *kept = c->outline->kept;
        size_t n = (size_t)(c->at - key) - 2;

        return kept && c->depth == 1 && n == strlen(kept) && memcmp(key + 1, kept, n) == 0;
}

/* Checks the value of the kept member. An object goes into the outline like a list; any other value does not. */
static bool check_kept(struct json_checker *c)
{
        struct json_outline *outline = c->outline;
        size_t n_lists = outline->n_lists, n_values = outline->n_values, values = c->values;
        struct json_list kept = { 0 };

        json_skip_space(c);
        kept.text = (const char *)c->at;
        if (!check_value(c))
                return false;
        if (*kept.text != '{')
                return true;
        kept.size = (size_t)((const char *)c->at - kept.text);
        outline->n_lists = n_lists;
        outline->n_values = n_values + 1;
        c->values = values + 1;
        return add_list(outline, &kept) || json_short_of_memory(c);
}

static bool check_member(struct json_checker *c)
{
        const unsigned char *key;
        bool kept;

        json_skip_space(c);
        if (!json_peek(c, '"'))
                return json_fault_at(c, "expected a key in double quotes");
        key = c->at;
        if (!json_check_string(c))
                return false;
        if (!json_keys_push(&c->outline->keys, key, c->at))
                return json_short_of_memory(c);
        kept = is_kept(c, key);
        json_skip_space(c);
        if (!json_peek(c, ':'))
                return json_fault_at(c, "expected ':' after a key");
        c->at++;
        return kept ? check_kept(c) : check_value(c);
}

/* Checks the elements or members up to the closing bracket, and that bracket. */
static bool check_elements(struct json_checker *c, unsigned char close, bool (*check)(struct json_checker *c),
                           size_t *ret_n)
{
        size_t n = 0;

        json_skip_space(c);
        if (!json_peek(c, close)) {
                for (;;) {
                        if (!check(c))
                                return false;
                        n++;
                        json_skip_space(c);
                        if (!json_peek(c, ','))
                                break;
                        c->at++;
                }
        }
        if (!json_peek(c, close))
                return json_fault_at(c, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        c->at++;
        *ret_n = n;
        return true;
}

static bool check_object(struct json_checker *c)
{
        struct json_keys *keys = &c->outline->keys;
        size_t mark = keys->n, n;
        const unsigned char *twice;

        if (!check_elements(c, '}', check_member, &n))
                return false;
        if (!json_keys_pop(keys, mark, &twice))
                return json_short_of_memory(c);
        if (!twice)
                return true;
        c->at = twice;
        return json_fault_at(c, "an object has this key twice");
}

static bool count_value(struct json_checker *c, size_t n)
{
        c->values += n;
        return c->values <= FERRY_JSON_VALUES || json_fault_at(c, "more values than any document has");
}

/* Passes by an integer as long lists have them. false: it is another value, for check_value. */
static bool pass_integer(struct json_checker *c)
{
        const unsigned char *at = c->at;

        if (at == c->end || *at < '1' || *at > '9')
                return false;
        while (at < c->end && *at >= '0' && *at <= '9')
                at++;
        if (at == c->end || (*at != ',' && *at != ']'))
                return false;
        c->at = at;
        return true;
}

/* Counts the values of each element anew: an element of a long list is read alone. */
static bool check_element(struct json_checker *c)
{
        if (pass_integer(c)) {
                c->elements++;
                c->outline->n_values++;
                return true;
        }
        c->values = 0;
        if (!check_value(c))
                return false;
        c->elements += c->values;
        return true;
}

static bool check_list(struct json_checker *c)
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
        return add_list(c->outline, &list) || json_short_of_memory(c);
}

/* From the opening bracket on; recursion is bounded by FERRY_JSON_DEPTH. */
static bool check_within(struct json_checker *c, bool (*check)(struct json_checker *c))
{
        if (c->depth == FERRY_JSON_DEPTH)
                return json_fault_at(c, "nested too deep");
        c->depth++;
        c->at++;
        if (!check(c))
                return false;
        c->depth--;
        return true;
}

static bool check_value(struct json_checker *c)
{
        json_skip_space(c);
        if (c->at == c->end)
                return json_fault_at(c, "the text ends where a value is expected");
        if (!count_value(c, 1))
                return false;
        c->outline->n_values += *c->at != 'n';
        switch (*c->at) {
        case '{':
                return check_within(c, check_object);
        case '[':
                return check_within(c, check_list);
        case '"':
                return json_check_string(c);
        case 't':
                return json_check_word(c, "true");
        case 'f':
                return json_check_word(c, "false");
        case 'n':
                return json_check_word(c, "null");
        default:
                if (*c->at == '-' || (*c->at >= '0' && *c->at <= '9'))
                        return json_check_number(c);
                return json_fault_at(c, "not a JSON value");
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

static struct json_checker begin(const char *text, size_t length, struct json_outline *outline)
{
        outline->n_lists = outline->n_values = outline->keys.n = 0;
        return (struct json_checker){ .at = (const unsigned char *)text,
                                      .end = (const unsigned char *)text + length,
                                      .outline = outline };
}

int json_check(const char *text, size_t length, struct json_outline *outline, struct json_fault *ret_fault)
{
        struct json_checker c = begin(text, length, outline);
        bool good = check_value(&c);

        outline->end = (const char *)c.at;
        if (good) {
                json_skip_space(&c);
                if (c.at < c.end)
                        good = json_fault_at(&c, "something follows the value");
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
        struct json_checker c = begin(text, length, outline);
        size_t n = 0;

        for (;;) {
                /* The text has passed json_check(): only memory can be short. */
                c.values = 0;
                if (!check_value(&c))
                        return -ENOMEM;
                n++;
                outline->end = (const char *)c.at;
                json_skip_space(&c);
                if (!json_peek(&c, ',') || outline->end - text >= JSON_BATCH)
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
