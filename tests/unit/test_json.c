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
        r = ferry_json_parse(exact, n, ret_object, errors);
        free(exact);
        return r;
}

static struct ferry_json *parse(const char *text)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object = NULL;

        if (ferry_json_parse_in_place(text, strlen(text), "object", &object, &errors) != 0)
                fail_msg("%s: %s", text, errors.items[0].detail);
        assert_int_equal(errors.n, 0);
        return keep_ferry_json(object);
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

TEST(numbers_that_the_rfc_does_not_have_are_refused)
{
        FOR_EACH_TEXT (text, "+1", "01", "-01", "00", "1.", ".5", "-.5", "-", "--1", "1e", "1e+", "1E-", "1e.5", "1.e1",
                       "0x10", "0b1", "1_0", "1e1.5", "1.2.3", "- 1", "1a", "2.5f", "1d", "0e", "-0x1", "1\xd9\xa1") {
                char list[32];

                refuse(text, NULL);
                (void)snprintf(list, sizeof(list), "[%s]", text);
                refuse(list, NULL);
                (void)snprintf(list, sizeof(list), "{\"a\":%s}", text);
                refuse(list, NULL);
        }
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
               "\"\\ud800\\u0041\"", "\"\\ud83d\\n\"", "\"\\ud83d\\ude0\"", "\"\\ud83d\\");
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
                        int r = ferry_json_parse(text, sizeof(text), &object, &errors);

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
                       "\xf0\x9f\x98", "\xe2\x82\xff", "\xf0\x9f\x98\x41", "\x80", "\xff") {
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
        refuse("[{\"a\":1},{\"b\":{\"c\":1,\"c\":2}}]", "twice");
        refuse("{\"a\":{\"b\":1,\"c\":[{\"d\":1}]},\"c\":1,\"a\":2}", "twice");
}

TEST(the_same_key_in_different_objects_is_fine)
{
        (void)parse("{\"a\":{\"a\":1,\"b\":2},\"b\":[{\"a\":1},{\"a\":1}],\"c\":{\"a\":1}}");
        (void)parse("{\"a\":1,\"aa\":2,\"b\":3,\"ab\":4,\"\\u0001\":5,\"\\u0010\":6}");
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

        assert_int_equal(ferry_json_parse("[]", (size_t)INT32_MAX + 1, &object, &errors), FERRY_E_INVALID_JSON);
        assert_string_equal(errors.items[0].detail, "the text is too long");
}

TEST(a_text_may_be_nothing_at_all)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object;

        assert_int_equal(ferry_json_parse(NULL, 0, &object, &errors), FERRY_E_INVALID_JSON);
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
                r = ferry_json_parse(text, sizeof(text) - 1, &object, &errors);
                memory_left = -1;
                assert_true(r == 0 || r == -ENOMEM);
                assert_int_equal(errors.n, 0);
                assert_true(r == 0 ? n >= 2 : !object);
                (void)ferry_json_free(object);
        }
}

/* ---- complaints ---- */

TEST(the_first_complaint_decides_the_error)
{
        struct ferry_json_errors errors = { 0 };

        ferry_json_complain(&errors, FERRY_E_OUT_OF_BOUNDS, "/a", "%d and %s", 7, "x");
        ferry_json_complain(&errors, FERRY_E_INVALID_PARAMETER, "/b", "y");
        assert_int_equal(errors.error, FERRY_E_OUT_OF_BOUNDS);
        assert_int_equal(errors.n, 2);
        assert_string_equal(errors.items[0].pointer, "/a");
        assert_string_equal(errors.items[0].detail, "7 and x");
        assert_string_equal(errors.items[1].pointer, "/b");
}

TEST(complaints_beyond_the_room_are_dropped)
{
        struct ferry_json_errors errors = { 0 };

        for (int i = 0; i < FERRY_JSON_ERRORS + 5; i++)
                ferry_json_complain(&errors, FERRY_E_INVALID_PARAMETER, "/a", "%d", i);
        assert_int_equal(errors.n, FERRY_JSON_ERRORS);
        assert_string_equal(errors.items[FERRY_JSON_ERRORS - 1].detail, "15");
}

/* What is cut goes into JSON again. */
TEST(complaints_are_cut_between_characters)
{
        FOR_EACH_TEXT (character, "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80")
                for (size_t shift = 0; shift < 4; shift++) {
                        struct ferry_json_errors errors = { 0 };
                        char text[1024] = "....";
                        char quoted[FERRY_JSON_DETAIL_SIZE + 2];

                        text[shift] = '\0';
                        while (strlen(text) < 1000)
                                strcat(text, character);
                        ferry_json_complain(&errors, FERRY_E_INVALID_PARAMETER, text, "%s", text);
                        assert_true(strlen(errors.items[0].pointer) >= FERRY_JSON_POINTER_SIZE - 4);
                        assert_true(strlen(errors.items[0].detail) >= FERRY_JSON_DETAIL_SIZE - 4);
                        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", errors.items[0].pointer);
                        (void)parse(quoted);
                        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", errors.items[0].detail);
                        (void)parse(quoted);
                }
}

TEST(whole_characters_at_the_end_stay)
{
        FOR_EACH_TEXT (text, "", "a", "\xc3\xa9", "a\xe2\x82\xac", "\xf0\x9f\x98\x80") {
                struct ferry_json_errors errors = { 0 };

                ferry_json_complain(&errors, FERRY_E_INVALID_PARAMETER, text, "%s", text);
                assert_string_equal(errors.items[0].pointer, text);
                assert_string_equal(errors.items[0].detail, text);
        }
}

/* ---- decoding ---- */

static const char *const colours[] = { "red", "green", NULL };

struct thing {
        const char *name, *colour, *any;
        uint64_t count, wide;
        bool flag;
        struct json_object *object, *array;
};

static const struct ferry_json_field fields[] = {
        { "name", FERRY_JSON_STRING, true, offsetof(struct thing, name), 2, 4, NULL },
        { "colour", FERRY_JSON_STRING, false, offsetof(struct thing, colour), 0, 0, colours },
        { "any", FERRY_JSON_STRING, false, offsetof(struct thing, any), 0, 0, NULL },
        { "count", FERRY_JSON_UINT, false, offsetof(struct thing, count), 3, 10, NULL },
        { "wide", FERRY_JSON_UINT, false, offsetof(struct thing, wide), 0, UINT64_MAX, NULL },
        { "flag", FERRY_JSON_BOOL, false, offsetof(struct thing, flag), 0, 0, NULL },
        { "object", FERRY_JSON_KEPT, false, offsetof(struct thing, object), 0, 0, NULL },
        { "array", FERRY_JSON_ARRAY, false, offsetof(struct thing, array), 1, 2, NULL },
};

static bool decode(struct ferry_json *object, struct thing *thing, const char *prefix, struct ferry_json_errors *errors)
{
        return ferry_json_decode(ferry_json_root(object), fields, UNIT_COUNT(fields), thing, prefix, errors);
}

/* Expects exactly one complaint, at pointer. */
static void complains(const char *text, int error, const char *pointer, const char *detail)
{
        struct ferry_json *object = parse(text);
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { .count = 77 };

        if (decode(object, &thing, "", &errors))
                fail_msg("accepted: %s", text);
        assert_int_equal(errors.n, 1);
        assert_int_equal(errors.error, error);
        assert_string_equal(errors.items[0].pointer, pointer);
        if (!strstr(errors.items[0].detail, detail))
                fail_msg("%s: \"%s\" does not say \"%s\"", text, errors.items[0].detail, detail);
        assert_int_equal(thing.count, 77);
}

TEST(a_field_of_each_type_is_stored)
{
        struct ferry_json *object = parse("{\"name\":\"abc\",\"colour\":\"green\",\"count\":5,\"flag\":true,"
                                          "\"object\":{\"x\":1},\"array\":[1,2],\"any\":\"\",\"wide\":0}");
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { .wide = 7 };
        size_t size;

        assert_true(decode(object, &thing, "", &errors));
        assert_int_equal(errors.n, 0);
        assert_string_equal(thing.name, "abc");
        assert_string_equal(thing.colour, "green");
        assert_string_equal(thing.any, "");
        assert_int_equal(thing.count, 5);
        assert_int_equal(thing.wide, 0);
        assert_true(thing.flag);
        assert_memory_equal(ferry_json_text(thing.object, &size), "{\"x\":1}", 7);
        assert_int_equal(size, 7);
        assert_int_equal(ferry_json_count(thing.array), 2);
}

TEST(absent_fields_keep_their_defaults)
{
        struct ferry_json *object = parse("{\"name\":\"ab\"}");
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { .count = 9, .flag = true, .colour = "blue" };

        assert_true(decode(object, &thing, "", &errors));
        assert_int_equal(thing.count, 9);
        assert_true(thing.flag);
        assert_string_equal(thing.colour, "blue");
        assert_null(thing.array);
}

TEST(bounds_are_part_of_the_range)
{
        FOR_EACH_TEXT (text, "{\"name\":\"abcd\"}", "{\"name\":\"ab\",\"count\":3}", "{\"name\":\"ab\",\"count\":10}",
                       "{\"name\":\"ab\",\"array\":[1]}", "{\"name\":\"ab\",\"wide\":9007199254740991}",
                       "{\"name\":\"ab\",\"wide\":-0}") {
                struct ferry_json *object = parse(text);
                struct ferry_json_errors errors = { 0 };
                struct thing thing = { 0 };

                assert_true(decode(object, &thing, "", &errors));
        }
}

TEST(values_out_of_range_are_refused)
{
        complains("{\"name\":\"a\"}", FERRY_E_INVALID_PARAMETER, "/name", "a string of 2 to 4 bytes");
        complains("{\"name\":\"abcde\"}", FERRY_E_INVALID_PARAMETER, "/name", "2 to 4 bytes");
        complains("{\"name\":\"\xc3\xa9\xc3\xa9x\"}", FERRY_E_INVALID_PARAMETER, "/name", "2 to 4 bytes");
        complains("{\"name\":\"ab\",\"count\":2}", FERRY_E_INVALID_PARAMETER, "/count", "an integer, 3 to 10");
        complains("{\"name\":\"ab\",\"count\":11}", FERRY_E_INVALID_PARAMETER, "/count", "3 to 10");
        complains("{\"name\":\"ab\",\"count\":-3}", FERRY_E_INVALID_PARAMETER, "/count", "3 to 10");
        complains("{\"name\":\"ab\",\"array\":[]}", FERRY_E_INVALID_PARAMETER, "/array", "an array of 1 to 2 elements");
        complains("{\"name\":\"ab\",\"array\":[1,2,3]}", FERRY_E_INVALID_PARAMETER, "/array", "1 to 2 elements");
        complains("{\"name\":\"ab\",\"colour\":\"blue\"}", FERRY_E_INVALID_PARAMETER, "/colour",
                  "one of \"red\", \"green\"");
        complains("{\"name\":\"ab\",\"colour\":\"\"}", FERRY_E_INVALID_PARAMETER, "/colour", "one of");
        complains("{\"name\":\"ab\",\"colour\":\"Red\"}", FERRY_E_INVALID_PARAMETER, "/colour", "one of");
}

/* No table lets an integer through that JavaScript would round, however it is written. */
TEST(integers_beyond_2_53_are_out_of_every_range)
{
        FOR_EACH_TEXT (huge, "9007199254740992", "9223372036854775807", "9223372036854775808", "18446744073709551615",
                       "18446744073709551616", "99999999999999999999999999999999999999999999999999", "-1",
                       "-9007199254740992", "-9223372036854775809",
                       "-99999999999999999999999999999999999999999999999999") {
                char text[128];

                (void)snprintf(text, sizeof(text), "{\"name\":\"ab\",\"wide\":%s}", huge);
                complains(text, FERRY_E_INVALID_PARAMETER, "/wide", "an integer, 0 to 9007199254740991");
                (void)snprintf(text, sizeof(text), "{\"name\":\"ab\",\"count\":%s}", huge);
                complains(text, FERRY_E_INVALID_PARAMETER, "/count", "an integer, 3 to 10");
        }
}

TEST(numbers_with_a_point_or_an_exponent_are_no_integers)
{
        FOR_EACH_TEXT (other, "5.0", "5e0", "0.5e1", "5E+0", "5.5", "1e400", "-0.0", "50e-1") {
                char text[128];

                (void)snprintf(text, sizeof(text), "{\"name\":\"ab\",\"count\":%s}", other);
                complains(text, FERRY_E_INVALID_PARAMETER, "/count", "expected an integer");
        }
}

TEST(each_type_takes_no_other)
{
        static const char *const values[] = { "\"red\"", "5", "true", "{}", "[1]", "null", "1.5" };
        static const struct {
                const char *field, *detail;
                size_t own; /* index of the value it takes */
        } cases[] = {
                { "colour", "expected a string", 0 },    { "count", "expected an integer", 1 },
                { "flag", "expected true or false", 2 }, { "object", "expected an object", 3 },
                { "array", "expected an array", 4 },
        };

        for (size_t i = 0; i < UNIT_COUNT(cases); i++)
                for (size_t j = 0; j < UNIT_COUNT(values); j++) {
                        char text[64], pointer[16];

                        if (j == cases[i].own)
                                continue;
                        (void)snprintf(text, sizeof(text), "{\"name\":\"ab\",\"%s\":%s}", cases[i].field, values[j]);
                        (void)snprintf(pointer, sizeof(pointer), "/%s", cases[i].field);
                        complains(text, FERRY_E_INVALID_PARAMETER, pointer, cases[i].detail);
                }
}

TEST(a_missing_field_is_complained_of)
{
        complains("{}", FERRY_E_INVALID_PARAMETER, "/name", "missing field \"name\"");
        complains("{\"name\":null}", FERRY_E_INVALID_PARAMETER, "/name", "expected a string");
}

TEST(an_unknown_field_is_complained_of)
{
        complains("{\"name\":\"ab\",\"x\":1}", FERRY_E_UNKNOWN_FIELD, "/x", "unknown field \"x\"");
        complains("{\"name\":\"ab\",\"Name\":1}", FERRY_E_UNKNOWN_FIELD, "/Name", "unknown field \"Name\"");
        complains("{\"name\":\"ab\",\"\":null}", FERRY_E_UNKNOWN_FIELD, "/", "unknown field");
}

TEST(pointers_are_escaped_as_in_rfc_6901)
{
        complains("{\"name\":\"ab\",\"a/b~c~1\":1}", FERRY_E_UNKNOWN_FIELD, "/a~1b~0c~01", "unknown field");
}

TEST(pointers_of_long_names_are_cut_but_whole)
{
        for (size_t shift = 0; shift < 3; shift++) {
                struct ferry_json_errors errors = { 0 };
                struct thing thing = { 0 };
                struct ferry_json *object;
                char name[512] = "...", text[600];
                size_t n;

                name[shift] = '\0';
                while (strlen(name) < 400)
                        strcat(name, "~");
                (void)snprintf(text, sizeof(text), "{\"%s\":null}", name);
                object = parse(text);
                assert_false(decode(object, &thing, "/prefix", &errors));
                n = strlen(errors.items[0].pointer);
                assert_true(n >= FERRY_JSON_POINTER_SIZE - 3 && n < FERRY_JSON_POINTER_SIZE);
                assert_int_equal(errors.items[0].pointer[n - 1], '0');
        }
}

TEST(a_prefix_that_fills_the_pointer_does_no_harm)
{
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { 0 };
        struct ferry_json *object = parse("{\"x\":1}");
        char prefix[300];

        memset(prefix, '/', sizeof(prefix));
        for (size_t n = 80; n < 200; n++) {
                prefix[n] = '\0';
                errors.n = 0;
                assert_false(decode(object, &thing, prefix, &errors));
                assert_int_equal(errors.n, 2);
                assert_true(strlen(errors.items[0].pointer) < FERRY_JSON_POINTER_SIZE);
                prefix[n] = '/';
        }
}

TEST(a_body_that_is_no_object_is_refused)
{
        FOR_EACH_TEXT (other, "[]", "1", "\"name\"", "true", "null")
                complains(other, FERRY_E_INVALID_PARAMETER, "", "expected an object");
}

TEST(all_that_is_wrong_is_said_at_once)
{
        struct ferry_json *object = parse("{\"count\":\"5\",\"x\":1,\"flag\":0}");
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { 0 };

        assert_false(decode(object, &thing, "/a/0", &errors));
        assert_int_equal(errors.n, 4);
        assert_int_equal(errors.error, FERRY_E_INVALID_PARAMETER);
        assert_string_equal(errors.items[0].pointer, "/a/0/count");
        assert_string_equal(errors.items[1].pointer, "/a/0/x");
        assert_string_equal(errors.items[2].pointer, "/a/0/flag");
        assert_string_equal(errors.items[3].pointer, "/a/0/name");
}

TEST(a_complaint_without_room_still_fails_the_decoding)
{
        struct ferry_json *good = parse("{\"name\":\"ab\"}"), *bad = parse("{\"name\":1}");
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { 0 };

        for (int i = 0; i < FERRY_JSON_ERRORS; i++)
                ferry_json_complain(&errors, FERRY_E_INVALID_PARAMETER, "", "x");
        assert_true(decode(good, &thing, "", &errors));
        assert_false(decode(bad, &thing, "", &errors));
}

TEST(an_element_of_a_list_is_named_by_its_place)
{
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { 0 };
        struct ferry_json *object = parse("{\"x\":1}"), *other = parse("7");

        assert_false(ferry_json_decode_element(ferry_json_root(object), fields, UNIT_COUNT(fields), &thing, "/list",
                                               65535, &errors));
        assert_false(ferry_json_decode_element(ferry_json_root(other), fields, UNIT_COUNT(fields), &thing, "/list", 0,
                                               &errors));
        assert_int_equal(errors.n, 3);
        assert_string_equal(errors.items[0].pointer, "/list/65535/x");
        assert_string_equal(errors.items[1].pointer, "/list/65535/name");
        assert_string_equal(errors.items[2].pointer, "/list/0");
}
