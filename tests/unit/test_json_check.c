/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>

#include "unit.h"

/*
 * The cases of the well-known JSON parsing test suite, by class; test_json.c has what the complaints say, and all about
 * UTF-8, surrogates, keys that come twice and nesting.
 */

/* A text that may have a NUL inside. */
struct text {
        const char *bytes;
        size_t size;
};
/* clang-format off */
#define T(literal) { literal, sizeof(literal) - 1 }
/* clang-format on */

/* Parses a copy that ends where the text does, so that a sanitizer sees every look beyond. */
static bool is_taken(const char *bytes, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object = NULL;
        char *copy = unit_alloc(size);
        int r;

        memcpy(copy, bytes, size);
        r = ferry_json_parse(copy, size, NULL, &object, &errors);
        free(copy);
        (void)ferry_json_free(object);
        assert_true(r == 0 || r == FERRY_E_INVALID_JSON);
        assert_int_equal(errors.error, r);
        return r == 0;
}

static void expect_taken(const struct text *texts)
{
        for (const struct text *text = texts; text->bytes; text++)
                if (!is_taken(text->bytes, text->size))
                        fail_msg("text %td was refused: %s", text - texts, text->bytes);
}

static void expect_refused(const struct text *texts)
{
        for (const struct text *text = texts; text->bytes; text++)
                if (is_taken(text->bytes, text->size))
                        fail_msg("text %td was taken: %s", text - texts, text->bytes);
}

#define TAKEN(...) expect_taken((const struct text[]){ __VA_ARGS__, { NULL } })
#define REFUSED(...) expect_refused((const struct text[]){ __VA_ARGS__, { NULL } })

TEST(json_is_taken)
{
        TAKEN(T("[]"), T("{}"), T("[ ]"), T(" [] "), T("\t\r\n {\n}\n"), T("null"), T("true"), T("false"), T("42"),
              T("-0.1"), T("0"), T("-0"), T("\"\""), T("\"asd\""), T(" 1 "), T("[null]"), T("[false, true]"),
              T("[1\n]"), T(" [1]"), T("[1,null,null,null,2]"), T("[2] "), T("[[]   ]"), T("[\"\"]"), T("[\"a\"]"),
              T("[123e65]"), T("[0e+1]"), T("[0e1]"), T("[ 4]"),
              T("[-0.000000000000000000000000000000000000000000000000000000000000000000000001]"), T("[20e1]"),
              T("[-0]"), T("[-123]"), T("[-1]"), T("[1E22]"), T("[1E-2]"), T("[1E+2]"), T("[123e45]"),
              T("[123.456e78]"), T("[1e-2]"), T("[1e+2]"), T("[123]"), T("[123.456789]"), T("[0.0]"),
              T("{\"asd\":\"sdf\", \"dfg\":\"fgh\"}"), T("{\"asd\":\"sdf\"}"), T("{\"\":0}"),
              T("{\"min\": -1.0e+28, \"max\": 1.0e+28 }"),
              T("{\"x\":[{\"id\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}], \"id\": \"aaaa\"}"), T("{\"a\":[]}"),
              T("{\n\"a\": \"b\"\n}"), T("[\"\\u0060\\u012a\\u12AB\"]"), T("[\"\\uD801\\udc37\"]"),
              T("[\"\\ud83d\\ude39\\ud83d\\udc8d\"]"), T("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"), T("[\"\\\\u0000\"]"),
              T("[\"\\\"\"]"), T("[\"a/*b*/c/*d//e\"]"), T("[\"\\\\a\"]"), T("[\"\\\\n\"]"), T("[\"\\u0012\"]"),
              T("[\"\\uFFFF\"]"), T("[\"\\uDBFF\\uDFFF\"]"), T("[\"new\\u00A0line\"]"),
              T("[\"\\u200B\\u2064\\uFDD0\\uFFFE\"]"), T("[\"\xe2\x82\xac\xf0\x9d\x84\x9e\"]"), T("[\"\xef\xbf\xbf\"]"),
              T("[\"\xf4\x8f\xbf\xbf\"]"), T("[\"\x7f\"]"), T("[\"\xe2\x80\xa8\xe2\x80\xa9\"]"), T("\" \""),
              T("{\"a\":{\"a\":{\"a\":1}}}"), T("[{\"a\":1},{\"a\":1}]"));
}

TEST(broken_arrays_are_refused)
{
        REFUSED(T("[1 true]"), T("[a\xe5]"), T("[\"\": 1]"), T("[\"\"],"), T("[,1]"), T("[1,,2]"), T("[\"x\",,]"),
                T("[\"x\"]]"), T("[\"\",]"), T("[\"x\""), T("[x"), T("[3[4]]"), T("[\xff]"), T("[1:2]"), T("[,]"),
                T("[-]"), T("[   , \"\"]"), T("[\"a\",\n4\n,1,"), T("[1,]"), T("[1,,]"), T("[\"\va\"\\f]"), T("[*]"),
                T("[\"\""), T("[1,"), T("[1,\n1\n,1"), T("[{}"), T("["), T("[["), T("]"), T("[1]x"), T("[1]]"),
                T("[][]"), T("[\"asd]"), T("[True]"), T("[tru]"), T("[nul]"), T("[fals]"), T("[NULL]"),
                T("[undefined]"), T("[truefalse]"), T("[nullx]"), T("[\f1]"));
}

TEST(broken_numbers_are_refused)
{
        REFUSED(T("[++1234]"), T("[--1]"), T("[+1]"), T("[+Inf]"), T("[-01]"), T("[-1.0.]"), T("[-2.]"), T("[-NaN]"),
                T("[.-1]"), T("[.2e-3]"), T("[0.1.2]"), T("[0.3e+]"), T("[0.3e]"), T("[0.e1]"), T("[0E+]"), T("[0E]"),
                T("[0e+]"), T("[0e]"), T("[1.0e+]"), T("[1.0e-]"), T("[1.0e]"), T("[1 000.0]"), T("[1eE2]"),
                T("[2.e+3]"), T("[2.e-3]"), T("[2.e3]"), T("[9.e+]"), T("[Inf]"), T("[NaN]"), T("[\xef\xbc\x91]"),
                T("[1+2]"), T("[0x1]"), T("[0x42]"), T("[Infinity]"), T("[0e+-1]"), T("[-123.123foo]"), T("[123\xe5]"),
                T("[1e1\xe5]"), T("[0\xe5]"), T("[-Infinity]"), T("[-foo]"), T("[- 1]"), T("[-012]"), T("[-.123]"),
                T("[-1x]"), T("[1ea]"), T("[1.]"), T("[.123]"), T("[1.2a-3]"), T("[1.8011670033376514H-308]"),
                T("[012]"), T("00"), T("01"), T("1e"), T("-"), T("1."), T("0x1"), T("NaN"), T("Infinity"),
                T("-Infinity"), T("{\"size\":NaN}"), T("{\"size\":1_000}"));
}

TEST(broken_objects_are_refused)
{
        REFUSED(T("{\"x\", null}"), T("{\"x\"::\"b\"}"), T("{key: 'value'}"), T("{\"a\":\"a\" 123}"), T("{\"a\" b}"),
                T("{:\"b\"}"), T("{\"a\" \"b\"}"), T("{\"a\":"), T("{\"a\""), T("{1:1}"), T("{9999E9999:1}"),
                T("{null:null,null:null}"), T("{\"id\":0,,,,,}"), T("{'a':0}"), T("{\"id\":0,}"),
                T("{\"a\":\"b\"}/**/"), T("{\"a\":\"b\"}//"), T("{\"a\":\"b\"}/"), T("{\"a\":\"b\",,\"c\":\"d\"}"),
                T("{a: \"b\"}"), T("{\"a\":\"a"), T("{ \"foo\" : \"bar\", \"a\" }"), T("{\"a\":\"b\"}#"),
                T("{\"a\":'b'}"), T("{"), T("{\"a\":1"), T("{]"), T("[}"), T("{,}"), T("{\"a\":}"), T("{\"a\":1}}"),
                T("{\"a\":1 \"b\":2}"), T("{\"a\":/*comment*/1}"), T("{\"a\":true}x"), T("}"), T("{\"a\":1;\"b\":2}"));
}

TEST(broken_strings_are_refused)
{
        REFUSED(T("[\"\\uD800\\\"]"), T("[\"\\uD800\\u\"]"), T("[\"\\uD800\\u1\"]"), T("[\"\\uD800\\u1x\"]"),
                T("[\xc3\xa9]"), T("[\"\\\0\"]"), T("[\"\\x00\"]"), T("[\"\\\\\\\"]"), T("[\"\\\t\"]"),
                T("[\"\\\xf0\x9f\x8c\x80\"]"), T("[\"\\\"]"), T("[\"\\u00A\"]"), T("[\"\\uD834\\uDd\"]"),
                T("[\"\\uD800\\uD800\\x\"]"), T("[\"\\u\xe5\"]"), T("[\"\\a\"]"), T("[\"\\uqqqq\"]"), T("[\"\\\xe5\"]"),
                T("[\\u0020\"asd\"]"), T("[\\n]"), T("\""), T("['single quote']"), T("abc"), T("[\"\\"),
                T("[\"a\0a\"]"), T("[\"new\nline\"]"), T("[\"\t\"]"), T("\"\\UA66D\""), T("\"\"x"), T("\"abc"),
                T("\"\\u12"), T("\"\\"), T("[\"\x1f\"]"), T("[\"\\'\"]"), T("\"\\u+123\""), T("\"\\u 123\""),
                T("{\"a\\\":1}"), T("\"\\u"), T("\"\\ud800\\u"), T("\"\\ud800\\udc0"));
}

TEST(broken_structures_are_refused)
{
        REFUSED(T(""), T(" "), T("\n"), T("\0"), T("[]\0"), T("\xef\xbb\xbf{}"), T("\xef\xbb\xbf"), T("<.>"),
                T("[<null>]"), T("aaa"), T("\xe5"), T("{}}"), T("[1][2]"), T("{}{}"), T("1 2"), T("[] #"), T("[]//x"),
                T("/**/[]"), T("\xe2\x81\xa0[]"), T("\xc2\xa0[]"), T("[\xe2\x81\xa0]"), T("\v[]"), T("[\\u000A\"\"]"),
                T("{[\"a\"]:1}"), T("*"), T("{\"asd\":\"asd\""), T("'a'"), T("\x00{\x00}\x00"), T("{\x00}"),
                T("\xff\xfe[\x00]\x00"), T("<!doctype html>"), T("a=1&b=2"));
}

TEST(keys_that_only_look_alike_are_taken)
{
        TAKEN(T("{\"a\":1,\"A\":2}"), T("{\"a\":1,\"a \":2,\" a\":3,\"\":4}"), T("{\"a\":1,\"\\\\u0061\":2}"),
              T("{\"\xc3\xa9\":1,\"e\xcc\x81\":2}"), /* é, composed and not */
              T("{\"n\":1,\"\\n\":2,\"\\\\n\":3}"), T("{\"a\":{\"a\":1},\"b\":{\"a\":1}}"),
              T("{\"a\":[{\"a\":1},{\"a\":1}]}"), T("{\"b\":{\"a\":1},\"a\":2}"),
              T("{\"a\":2,\"b\":{\"a\":1,\"b\":{\"a\":1,\"b\":3}}}"), T("{\"ab\":1,\"abc\":2,\"abcd\":3}"));
}

/* before, then n members of one object, then after. */
static bool are_members_taken(const char *before, const char *value, unsigned n, const char *after)
{
        size_t room = 64 + (size_t)n * 32, size;
        char *text = unit_alloc(room);
        bool taken;

        size = (size_t)snprintf(text, room, "%s{", before);
        for (unsigned i = 0; i < n; i++)
                size += (size_t)snprintf(text + size, room - size, "%s\"%x\":%s", i ? "," : "", i, value);
        size += (size_t)snprintf(text + size, room - size, "}%s", after);
        taken = is_taken(text, size);
        free(text);
        return taken;
}

/* json-c takes two hundred times the room of such a text. The object itself is a value, too. */
TEST(values_are_counted_but_those_of_each_element_of_a_long_list_for_themselves)
{
        enum { MAX = FERRY_JSON_VALUES - 1 };

        assert_true(are_members_taken("", "1", MAX, ""));
        assert_false(are_members_taken("", "1", MAX + 1, ""));
        assert_false(are_members_taken("", "null", MAX + 1, ""));
        assert_true(are_members_taken("", "{\"\":{}}", MAX / 2, ""));
        assert_false(are_members_taken("", "{\"\":{}}", MAX / 2 + 1, ""));
        assert_true(are_members_taken("", "[{},{}]", MAX / 3, ""));
        assert_false(are_members_taken("", "[{},{}]", MAX / 3 + 1, ""));
        assert_true(are_members_taken("[{\"a\":1},", "1", MAX, ",{\"a\":1}]"));
        assert_false(are_members_taken("[{\"a\":1},", "1", MAX + 1, ",{\"a\":1}]"));
        assert_true(are_members_taken("{\"a\":1,\"b\":[[", "1", MAX, "]]}"));
        assert_true(are_members_taken("{\"a\":[[{\"a\":1}]],\"b\":", "1", MAX - 5, "}"));
        assert_false(are_members_taken("{\"a\":[[{\"a\":1}]],\"b\":", "1", MAX - 4, "}"));
}
