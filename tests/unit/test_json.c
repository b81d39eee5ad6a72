/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "failing_memory.h"
#include "json_whole.h"
#include "unit.h"
#include "unit_json.h"

/* From a block without a byte to spare, so that a sanitizer sees each read beyond it. */
static int parse_n(const char *text, size_t n, struct ferry_json **ret_object, struct ferry_json_errors *errors)
{
        char *exact = unit_alloc(n);
        int r;

        memcpy(exact, text, n);
        r = ferry_json_parse(exact, n, NULL, ret_object, errors);
        free(exact);
        return r;
}

static struct ferry_json *parse(const char *text)
{
        return unit_json_parse_keeping(text, "object");
}

/* Expects one complaint that ends with detail. */
static void refuse_n(const char *text, size_t n, const char *detail)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object = (struct ferry_json *)&errors;

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
                { "[0,-0.5,1.25e+2,2E-3,1e0]", "[0,-0.5,1.25e+2,2E-3,1e0]" },
                { "[9007199254740991,-9007199254740991]", "[9007199254740991,-9007199254740991]" },
                { "{\"a\":{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}},\"b\":null}",
                  "{\"a\":{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}},\"b\":null}" },
                { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"" },
                { "\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
                { "\"\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
                { "\"\\u0001\\uFFFF\"", "\"\\u0001\xef\xbf\xbf\"" },
                { "{\"\":1}", "{\"\":1}" },
                { "{\"a\":1,\"A\":2,\"a \":3,\"\\u0061\\u0061\":4}", "{\"a\":1,\"A\":2,\"a \":3,\"aa\":4}" },
        };

        for (size_t i = 0; i < UNIT_COUNT(good); i++) {
                struct ferry_json *object = parse(good[i].text);
                struct json_object *whole = json_whole(ferry_json_root(object));

                assert_string_equal(text_of(whole), good[i].plain);
                json_object_put(whole);
        }
}

TEST(what_is_not_json_is_refused)
{
        REFUSE("line 1, column 1: the text ends", "");
        REFUSE("line 2, column 2: the text ends", "  \n ");
        REFUSE("expected a key", "{", "{\"a\":1,", "{,}", "{a:1}", "{'a':1}", "{1:1}", "{null:1}");
        REFUSE("not a JSON value", "}", "]", "['a']", "[1,]", "[,1]", "[1,,2]", "NaN", "[nan]", "[Infinity]", "[True]",
               "[tru]", "nul", "undefined", "/*x*/[1]", "#x\n[1]", "\xef\xbb\xbf[1]", "[\f1]", "[\xc2\xa0]");
        REFUSE("the text ends", "[", "{\"a\":");
        REFUSE("expected ':'", "{\"a\"", "{\"a\" 1}");
        REFUSE("expected ',' or '}'", "{\"a\":1", "{\"a\":1 \"b\":2}", "{\"a\":1]");
        REFUSE("line 1, column 8: expected a key", "{\"a\":1,}");
        REFUSE("expected ',' or ']'", "[1 2]", "[1}", "[truex]", "[1/*x*/]");
        REFUSE("something follows", "[1]]", "{}{}", "{} x", "1 2", "null,", "[1]//x", "[1]\v");
        REFUSE("line 1, column 2: not a JSON value", "[NaN]");
        REFUSE("a number lacks a digit", "[-Infinity]");
}

TEST(strings_that_the_rfc_does_not_have_are_refused)
{
        REFUSE("a string does not end", "\"", "\"a", "\"\\", "\"\\\"");
        REFUSE("control character", "\"\t\"", "\"\x1f\"");
        REFUSE("line 1, column 2: a control character", "\"\n\"");
        REFUSE("unknown escape", "\"\\x41\"", "\"\\a\"", "\"\\'\"", "\"\\0\"", "\"\\U0041\"", "\"\\\n\"");
        REFUSE("four hexadecimal digits", "\"\\u\"", "\"\\u12\"", "\"\\u123", "\"\\u12g4\"", "\"\\u 123\"",
               "\"\\u+123\"", "\"\\u{41}\"", "\"\\u@041\"");
        REFUSE("\\u0000", "\"\\u0000\"", "{\"a\\u0000b\":1}");
        REFUSE("surrogate", "\"\\ud800\"", "\"\\ud800x\"", "\"\\udc00\"", "\"\\ud800\\ud800\"", "\"\\udc00\\ud800\"",
               "\"\\udc00\\udc00\"", "\"\\ud800\\u0041\"", "\"\\ud800\\ue000\"", "{\"\\uDBFF\":1}", "\"\\ud83d\\n\"",
               "\"\\ud83d\\ude0\"", "\"\\ud83d\\");
}

TEST(nul_bytes_are_refused_everywhere)
{
        refuse_n("\0", 1, NULL);
        refuse_n("[1]\0", 4, "something follows");
        refuse_n("[1\0]", 4, NULL);
        refuse_n("\"a\0b\"", 5, "control character");
        refuse_n("{\"a\0\":1}", 8, "control character");
        refuse_n("1\0", 2, "something follows");
}

/* All pairs of bytes in a string, against the definition. */
TEST(two_bytes_beyond_ascii_are_accepted_only_as_utf_8)
{
        for (unsigned a = 0x80; a < 0x100; a++)
                for (unsigned b = 0x20; b < 0x100; b++) {
                        const char text[] = { '"', (char)a, (char)b, '"' };
                        struct ferry_json_errors errors = { 0 };
                        struct ferry_json *object;
                        bool good = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
                        int r = ferry_json_parse(text, sizeof(text), NULL, &object, &errors);

                        assert_int_equal(r, good ? 0 : FERRY_E_INVALID_JSON);
                        if (good)
                                (void)ferry_json_free(object);
                }
}

TEST(long_and_surrogate_forms_are_not_utf_8)
{
        FOR_EACH_TEXT (bytes, "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                       "\xf4\x8f\xbf\xbf") {
                (void)parse(text_format("\"%s\"", bytes));
                refuse(text_format("\"%s", bytes), NULL); /* the text may also end within a character */
        }
        FOR_EACH_TEXT (bytes, "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
                       "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82",
                       "\xf0\x9f\x98", "\xe2\x82\xff", "\xf0\x9f\x98\x41", "\xe2\x28\xa1", "\x80", "\xfe", "\xff") {
                refuse(text_format("\"%s\"", bytes), "not UTF-8");
                refuse(text_format("\"%s", bytes), NULL);
        }
}

TEST(every_cut_of_a_document_is_refused)
{
        static const char text[] = "{\"a\":[1,-2.5e+3,true,false,null,\"x\\u00e9\\ud83d\\ude00\xe2\x82\xac\"],"
                                   "\"b\":{\"c\":{},\"d\":[]}}";

        for (size_t n = 0; n < sizeof(text) - 1; n++)
                refuse_n(text, n, NULL);
        (void)parse(text);
}

TEST(a_complaint_gives_line_and_column_in_characters)
{
        refuse("{\n  \"a\": 1,\n  \"b\": x\n}", "line 3, column 8: not a JSON value");
        refuse("[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\", x]", "line 1, column 9: not a JSON value");
        refuse("[1]\n\n\nx", "line 4, column 1: something follows");
}

TEST(nesting_is_accepted_to_the_limit_and_no_further)
{
        (void)parse("[[[[[[[[1]]]]]]]]");
        (void)parse("[[[[[[[[]]]]]]]]");
        (void)parse("[[[[[[[{\"a\":\"b\"}]]]]]]]");
        (void)parse("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":null}}}}}}}}");
        (void)parse("[[],[[]],[[[]]],{\"a\":[]}]");
        refuse("[[[[[[[[[]]]]]]]]]", "line 1, column 9: nested too deep");
        refuse("[[[[[[[[{}]]]]]]]]", "nested too deep");
        refuse("{\"a\":[[[[[[[[1]]]]]]]]}", "nested too deep");
}

TEST(a_million_brackets_do_no_harm)
{
        size_t n = 1000000;
        char *text = unit_alloc(n + 1);

        memset(text, '[', n);
        text[n] = '\0';
        refuse_n(text, n, "nested too deep");
        free(text);
}

TEST(a_key_twice_in_one_object_is_refused)
{
        refuse("{\"a\":1,\"a\":1}", "line 1, column 8: an object has this key twice");
        refuse("{\"a\":1,\"b\":2,\"a\":3}", "column 14");
        refuse("{\"b\":1,\"a\":2,\"a\":3,\"b\":4}", "column 14");
        refuse("{\"\":1,\"\":2}", "twice");
        refuse("{\"a\":1,\"\\u0061\":2}", "twice");
        refuse("{\"\\u0061\":1,\"a\":2}", "twice");
        refuse("{\"\xf0\x9f\x98\x80\":1,\"\\uD83D\\uDe00\":2}", "twice");
        refuse("{\"\xc3\xa9\":1,\"\\u00E9\":2}", "twice");
        refuse("{\"\xe2\x82\xac\":1,\"\\u20ac\":2}", "twice");
        refuse("{\"\\n\":1,\"\\u000a\":2}", "twice");
        refuse("{\"\\/\":1,\"/\":2}", "twice");
        refuse("{\"\\b\\f\\r\\t\\\"\\\\\":1,\"\\u0008\\u000C\\u000d\\u0009\\u0022\\u005c\":2}", "twice");
        refuse("{\"\\u0061b\":1,\"a\\u0062\":2}", "twice");
        refuse("{\"\\u00E9\":1,\"\\u00e9\":2}", "twice");
        refuse("{\"a\":{\"b\":1},\"c\":{\"b\":1},\"a\":1}", "twice");
        refuse("{\"x\":[0,{\"y\":[{\"z\":1,\"w\":2,\"\\u007a\":3}]}]}", "twice");
        refuse("[{\"a\":1},{\"b\":{\"c\":1,\"c\":2}}]", "twice");
        refuse("{\"a\":{\"b\":1,\"c\":[{\"d\":1}]},\"c\":1,\"a\":2}", "twice");
}

TEST(a_key_twice_among_as_many_as_there_may_be_is_found)
{
        enum { KEYS = FERRY_JSON_VALUES - 2, MEMBER = 11 };
        char *text = unit_alloc((KEYS + 1) * MEMBER + 2), *end = text, member[MEMBER + 1];

        *end++ = '{';
        for (unsigned i = 0; i < KEYS; i++, end += MEMBER) {
                (void)snprintf(member, sizeof(member), "\"%06u\":1,", i * 7919 % KEYS);
                memcpy(end, member, MEMBER);
        }
        memcpy(end, "\"00000x\":1}", MEMBER + 1);
        (void)parse(text);
        memcpy(end, "\"001000\":1}", MEMBER + 1);
        refuse(text, "an object has this key twice");
        free(text);
}

TEST(texts_longer_than_2_gib_are_refused)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object;

        assert_int_equal(ferry_json_parse("[]", (size_t)INT32_MAX + 1, NULL, &object, &errors), FERRY_E_INVALID_JSON);
        assert_string_equal(errors.items[0].detail, "the text is too long");
}

TEST(a_text_may_be_nothing_at_all)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object;

        assert_int_equal(ferry_json_parse(NULL, 0, NULL, &object, &errors), FERRY_E_INVALID_JSON);
        assert_int_equal(errors.n, 1);
}

TEST(short_memory_is_told_from_bad_json)
{
        static const char text[] = "{\"a\":{\"b\":1},\"c\":[{\"d\":1}]}";
        int r = -ENOMEM;

        for (long n = 0; r != 0; n++) {
                struct ferry_json_errors errors = { 0 };
                struct ferry_json *object = NULL;

                memory_left = n;
                r = ferry_json_parse(text, sizeof(text) - 1, NULL, &object, &errors);
                memory_left = -1;
                assert_true(r == 0 || r == -ENOMEM);
                assert_int_equal(errors.n, 0);
                assert_true(r == 0 ? n >= 2 : !object);
                (void)ferry_json_free(object);
        }
}
