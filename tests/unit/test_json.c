/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <malloc.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "unit.h"
#include "unit_json.h"

/* From a block without a byte to spare, so that a sanitizer sees each read beyond it. */
static int parse_n(const char *text, size_t n, struct json_object **ret_object, struct ferry_json_errors *errors)
{
        char *exact = unit_alloc(n);
        int r;

        memcpy(exact, text, n);
        r = ferry_json_parse(exact, n, ret_object, errors);
        free(exact);
        return r;
}

/* Expects one complaint that ends with detail. */
static void refuse_n(const char *text, size_t n, const char *detail)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *object = (struct json_object *)&errors;

        if (parse_n(text, n, &object, &errors) != FERRY_E_INVALID_JSON)
                fail_msg("accepted: %s", text);
        assert_ptr_equal(object, &errors);
        assert_int_equal(errors.error, FERRY_E_INVALID_JSON);
        assert_int_equal(errors.n, 1);
        assert_string_equal(errors.items[0].pointer, "");
        if (detail && !strstr(errors.items[0].detail, detail))
                fail_msg("%s: \"%s\" does not say \"%s\"", text, errors.items[0].detail, detail);
}

static void refuse(const char *text, const char *detail)
{
        refuse_n(text, strlen(text), detail);
}

/* Each of the texts, for that reason. */
#define REFUSE(detail, ...)                                                                                            \
        FOR_EACH_TEXT (text, __VA_ARGS__)                                                                              \
        refuse(text, detail)

/* ---- parsing ---- */

static const char *text_of(struct json_object *value)
{
        return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

TEST(valid_texts_are_read_as_they_are)
{
        static const struct {
                const char *text, *plain;
        } good[] = {
                { "{}", "{}" },
                { "[]", "[]" },
                { " \t\r\n[ \t\r\n] \t\r\n", "[]" },
                { "null", "null" },
                { " null ", "null" },
                { "true", "true" },
                { "\tfalse\n", "false" },
                { "0", "0" },
                { " 17 ", "17" },
                { "-1", "-1" },
                { "\"\"", "\"\"" },
                { " \"a\" ", "\"a\"" },
                { "[0,-0.5,1.25e+2,2E-3,1e0,123e65]", "[0,-0.5,1.25e+2,2E-3,1e0,123e65]" },
                { "[9007199254740991,-9007199254740991]", "[9007199254740991,-9007199254740991]" },
                { "[9223372036854775808,18446744073709551615]", "[9223372036854775808,18446744073709551615]" },
                { "{\"a\":{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}},\"b\":null}",
                  "{\"a\":{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}},\"b\":null}" },
                { "[[1,[2,[3]]],[],[[[]],4]]", "[[1,[2,[3]]],[],[[[]],4]]" },
                { "[\"]\",\"[\",\"\\\"]\",\",\",\"\\\\\",\"}\",{\"]\":\"[\",\",\":[\"]\"]}]",
                  "[\"]\",\"[\",\"\\\"]\",\",\",\"\\\\\",\"}\",{\"]\":\"[\",\",\":[\"]\"]}]" },
                { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"" },
                { "\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
                { "\"\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
                { "\"\\u0001\\uFFFF\"", "\"\\u0001\xef\xbf\xbf\"" },
                { "\"\\\\u0000\"", "\"\\\\u0000\"" },
                { "{\"\":1}", "{\"\":1}" },
                { "{\"a\":1,\"A\":2,\"a \":3,\"\\u0061\\u0061\":4}", "{\"a\":1,\"A\":2,\"a \":3,\"aa\":4}" },
        };

        for (size_t i = 0; i < UNIT_COUNT(good); i++) {
                struct json_object *object = unit_json_parse(good[i].text);

                assert_string_equal(text_of(object), good[i].plain);
        }
}

TEST(what_is_not_json_is_refused)
{
        REFUSE("byte 1: the text ends", "");
        REFUSE("byte 5: the text ends", "  \n ");
        REFUSE("the text ends", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "[", "[1", "[1,", "[{}", "nul", "\"",
               "\"a", "\"\\", "\"\\\"", "\"\\u", "\"\\u12", "\"\\ud83d\\", "{}/*x", "{}//x");
        REFUSE(NULL, "{,}", "{a:1}", "{1:1}", "{null:1}", "{:1}", "{]", "{\"a\":}", "{\"a\" 1}", "{\"a\":1 \"b\":2}",
               "{\"a\":1]", "{\"a\"::1}", "{\"a\":1;\"b\":2}", "{\"a\":1,,}");
        REFUSE(NULL, "}", "]", "[,1]", "[1,,2]", "[1 2]", "[1}", "[truex]", "[\"\": 1]", "[3[4]]", "[\"a']");
        REFUSE(NULL, "[tru]", "[nulll]", "undefined", "[Inf]", "[+1]", "[--1]", "[.5]", "[1eE2]", "[0x42]", "[1 000.0]",
               "[-foo]", "[1.2.3]", "[1a]", "[-]", "a=1&b=2", "<!doctype html>", "#x\n[1]", "\xef\xbb\xbf[1]",
               "[\xc2\xa0]");
        REFUSE("something follows", "[1]]", "{}{}", "{} x", "1 2", "null,", "\"\"x", "[1][2]", "{\"a\":1}}");
        REFUSE(NULL, "\"\\x41\"", "\"\\a\"", "\"\\'\"", "\"\\0\"", "\"\\U0041\"", "\"\\\n\"", "\"\\u\"", "\"\\u12g4\"",
               "\"\\u 123\"", "\"\\u+123\"", "\"\\u{41}\"");
        REFUSE("byte 8: ", "{\"a\":1 x}");
        REFUSE("byte 5: something follows", "{}  x");
}

/* Harmless: each value is still checked by the field that gets it. */
TEST(what_json_c_takes_beyond_the_rfc_is_read)
{
        static const struct {
                const char *text, *plain;
        } more[] = {
                { "{'a':'b\"'}", "{\"a\":\"b\\\"\"}" },
                { "[NaN,Infinity,-Infinity]", "[NaN,Infinity,-Infinity]" },
                { "[True,FALSE,Null]", "[true,false,null]" },
                { "{\"a\":[1,],}", "{\"a\":[1]}" },
                { "/*x*/[1//x\n]", "[1]" },
                { "[012]", "[12]" },
                { "{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}" },
                { "{\"a\":1,\"\\u0061\":{}}", "{\"a\":{}}" },
                { "\"\\ud800\\u0041\"", "\"\xef\xbf\xbd\x41\"" },
                { "\"\\udc00\"", "\"\xef\xbf\xbd\"" },
        };

        for (size_t i = 0; i < UNIT_COUNT(more); i++)
                assert_string_equal(text_of(unit_json_parse(more[i].text)), more[i].plain);
}

TEST(nul_and_control_characters_are_refused_everywhere)
{
        refuse_n("\0", 1, "control character");
        refuse_n("[1]\0", 4, "byte 4: a control character");
        refuse_n("[1\0]", 4, "control character");
        refuse_n("\"a\0b\"", 5, "control character");
        refuse_n("{\"a\0\":1}", 8, "control character");
        refuse_n("1\0", 2, "control character");
        REFUSE("control character", "\"\x1f\"", "\"\x1b[2J\"", "[1]\v", "[\f1]", "{\"a\x01\":1}", "\"\\\x1b\"");
        REFUSE("\\u0000", "\"\\u0000\"", "{\"a\\u0000b\":1}", "\"\\\\\\u0000\"");
}

/* All pairs of bytes in a string, against the definition. */
TEST(two_bytes_beyond_ascii_are_accepted_only_as_utf_8)
{
        for (unsigned a = 0x80; a < 0x100; a++)
                for (unsigned b = 0x20; b < 0x100; b++) {
                        const char text[] = { '"', (char)a, (char)b, '"' };
                        struct ferry_json_errors errors = { 0 };
                        struct json_object *object;
                        bool good = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
                        int r = ferry_json_parse(text, sizeof(text), &object, &errors);

                        assert_int_equal(r, good ? 0 : FERRY_E_INVALID_JSON);
                        if (good)
                                json_object_put(object);
                }
}

TEST(long_and_surrogate_forms_are_not_utf_8)
{
        FOR_EACH_TEXT (bytes, "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                       "\xf4\x8f\xbf\xbf") {
                (void)unit_json_parse(text_format("\"%s\"", bytes));
                refuse(text_format("\"%s", bytes), NULL); /* the text may also end within a character */
        }
        FOR_EACH_TEXT (bytes, "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
                       "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82",
                       "\xf0\x9f\x98", "\xe2\x82\xff", "\xf0\x9f\x98\x41", "\xe2\x28\xa1", "\x80", "\xfe", "\xff") {
                refuse(text_format("\"%s\"", bytes), "byte 2: not UTF-8");
                refuse(text_format("\"%s", bytes), "not UTF-8");
        }
}

TEST(every_cut_of_a_document_is_refused)
{
        static const char text[] = "{\"a\":[1,-2.5e+3,true,false,null,\"x\\u00e9\\ud83d\\ude00\xe2\x82\xac\"],"
                                   "\"b\":{\"c\":{},\"d\":[]}}";

        for (size_t n = 0; n < sizeof(text) - 1; n++)
                refuse_n(text, n, NULL);
        (void)unit_json_parse(text);
}

TEST(nesting_is_accepted_to_the_limit_and_no_further)
{
        (void)unit_json_parse("[[[[[[[[1]]]]]]]]");
        (void)unit_json_parse("[[[[[[[{\"a\":\"b\"}]]]]]]]");
        (void)unit_json_parse("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":null}}}}}}}}");
        (void)unit_json_parse("[[],[[]],[[[]]],{\"a\":[]}]");
        (void)unit_json_parse("[[[[[[[[[]]]]]]]]]"); /* empty */
        refuse("[[[[[[[[[1]]]]]]]]]", "byte 10: ");
        refuse("[[[[[[[[[{}]]]]]]]]]", NULL);
        refuse("{\"a\":[[[[[[[[1]]]]]]]]}", NULL);
}

TEST(a_million_brackets_do_no_harm)
{
        size_t n = 1000000;
        char *text = unit_alloc(n);

        memset(text, '[', n);
        refuse_n(text, n, "byte 10: ");
        free(text);
}

TEST(texts_longer_than_2_gib_are_refused)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *object;

        assert_int_equal(ferry_json_parse("[]", (size_t)INT32_MAX + 1, &object, &errors), FERRY_E_INVALID_JSON);
        assert_non_null(strstr(errors.items[0].detail, "the text is too long"));
}

TEST(a_text_may_be_nothing_at_all)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *object;

        assert_int_equal(ferry_json_parse(NULL, 0, &object, &errors), FERRY_E_INVALID_JSON);
        assert_int_equal(errors.n, 1);
}

/* ---- what a tree takes ---- */

/* Bytes of memory in use. */
static size_t memory_used(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* Before it is parsed: 2 MB of this would take 500. */
TEST(a_text_that_would_take_too_much_memory_is_refused)
{
        enum { OBJECTS = 700000 };
        size_t size = 3 * OBJECTS + 1;
        char *text = unit_alloc(size);
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL;

        for (size_t i = 0; i < OBJECTS; i++)
                memcpy(text + 3 * i, i ? ",{}" : "[{}", 3);
        text[size - 1] = ']';
        assert_int_equal(ferry_json_parse(text, size, &json, &errors), FERRY_E_INVALID_JSON);
        assert_string_equal(errors.items[0].detail, FERRY_JSON_TOO_MANY);
        assert_null(json);
        free(text);
}

/* The densest forms: an element of such a list has so few bytes of text for what json-c makes of it. */
TEST(no_text_takes_more_room_than_is_told)
{
        enum { SIZE = 200000 };

        if (SANITIZED)
                skip();
        FOR_EACH_TEXT (unit, "1,", "1e1,", "-Infinity,", "\"\",", "true,", "{},", "[],", "{\"\":1},", "{\"a\":\"\"},",
                       "[[[[[[{}]]]]]],", "[1],", "[1,1,1,1,1,1],", "{\"\":{\"\":{\"\":{\"\":{\"\":{}}}}}},",
                       "{\"0\":1,\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"a\":1},",
                       "{\"region\":\"rgn_0123456789abcdef\",\"offset\":0,\"size\":1},",
                       "\"a string with some text in it\",", "{\"a key as long as few keys are\":1},") {
                size_t n = strlen(unit), size = 1, before, used;
                char *text = unit_alloc(SIZE);
                struct json_object *json;
                struct ferry_json_errors errors = { 0 };

                text[0] = '[';
                for (; size + n + 2 < SIZE; size += n)
                        memcpy(text + size, unit, n);
                text[size - 1] = ']';
                before = memory_used();
                assert_int_equal(ferry_json_parse(text, size, &json, &errors), 0);
                used = memory_used() - before;
                if (used > ferry_json_room(text, size))
                        fail_msg("%s: %zu bytes", unit, used);
                assert_true(ferry_json_room(text, size) <= 450 * size);
                json_object_put(json);
                free(text);
        }
}
