/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "unit.h"
#include "unit_json.h"

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
                        (void)unit_json_parse(quoted);
                        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", errors.items[0].detail);
                        (void)unit_json_parse(quoted);
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
        { "object", FERRY_JSON_OBJECT, false, offsetof(struct thing, object), 0, 0, NULL },
        { "array", FERRY_JSON_ARRAY, false, offsetof(struct thing, array), 1, 2, NULL },
};

static bool decode(struct json_object *object, struct thing *thing, const char *prefix,
                   struct ferry_json_errors *errors)
{
        return ferry_json_decode(object, fields, UNIT_COUNT(fields), thing, prefix, errors);
}

/* Expects exactly one complaint, at pointer. */
static void complains(const char *text, int error, const char *pointer, const char *detail)
{
        struct json_object *object = unit_json_parse(text);
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

/* ---- answers, whose writer may be newer ---- */

struct answer {
        char text[4], prose[4];
        const char *name;
        uint64_t count;
};

static const struct ferry_json_field answer_fields[] = {
        FERRY_JSON_FIELD("text", TEXT, false, struct answer, text),
        FERRY_JSON_FIELD("prose", PROSE, false, struct answer, prose),
        FERRY_JSON_FIELD("name", STRING, true, struct answer, name),
        FERRY_JSON_FIELD("count", UINT, false, struct answer, count),
};

static bool decode_answer(const char *text, bool lenient, struct answer *answer, struct ferry_json_errors *errors)
{
        *errors = (struct ferry_json_errors){ .lenient = lenient };
        *answer = (struct answer){ .text = "x", .count = 77 };
        return ferry_json_decode(unit_json_parse(text), answer_fields, UNIT_COUNT(answer_fields), answer, "", errors);
}

TEST(an_answer_may_have_null_and_fields_that_are_new)
{
        static const char text[] = "{\"new\":[1],\"name\":\"n\",\"text\":null,\"count\":null,\"newer\":null}";
        struct ferry_json_errors errors;
        struct answer answer;

        assert_true(decode_answer(text, true, &answer, &errors));
        assert_int_equal(errors.n, 0);
        assert_string_equal(answer.name, "n");
        assert_string_equal(answer.text, "x");
        assert_int_equal(answer.count, 77);
        assert_false(decode_answer(text, false, &answer, &errors));
        assert_int_equal(errors.n, 4);
        assert_false(decode_answer("{\"name\":null}", true, &answer, &errors));
        assert_string_equal(errors.items[0].pointer, "/name");
        assert_false(decode_answer("{\"name\":\"n\",\"count\":\"7\"}", true, &answer, &errors));
        assert_string_equal(errors.items[0].pointer, "/count");
}

TEST(text_fits_or_is_refused_and_prose_is_cut)
{
        struct ferry_json_errors errors;
        struct answer answer;

        assert_true(decode_answer("{\"name\":\"\",\"text\":\"abc\",\"prose\":\"abcd\"}", true, &answer, &errors));
        assert_string_equal(answer.text, "abc");
        assert_string_equal(answer.prose, "abc");
        assert_true(decode_answer("{\"name\":\"\",\"prose\":\"ab\xc3\xa9\"}", true, &answer, &errors));
        assert_string_equal(answer.prose, "ab");
        assert_false(decode_answer("{\"name\":\"\",\"text\":\"abcd\"}", true, &answer, &errors));
        assert_string_equal(errors.items[0].pointer, "/text");
        assert_string_equal(errors.items[0].detail, "expected a string of at most 3 bytes");
        assert_string_equal(answer.text, "x");
}

/* ---- each type ---- */

TEST(a_field_of_each_type_is_stored)
{
        struct json_object *object = unit_json_parse("{\"name\":\"abc\",\"colour\":\"green\",\"count\":5,\"flag\":true,"
                                                     "\"object\":{\"x\":1},\"array\":[1,2],\"any\":\"\",\"wide\":0}");
        struct ferry_json_errors errors = { 0 };
        struct thing thing = { .wide = 7 };

        assert_true(decode(object, &thing, "", &errors));
        assert_int_equal(errors.n, 0);
        assert_string_equal(thing.name, "abc");
        assert_string_equal(thing.colour, "green");
        assert_string_equal(thing.any, "");
        assert_int_equal(thing.count, 5);
        assert_int_equal(thing.wide, 0);
        assert_true(thing.flag);
        assert_int_equal(json_object_object_length(thing.object), 1);
        assert_int_equal(json_object_array_length(thing.array), 2);
}

TEST(absent_fields_keep_their_defaults)
{
        struct json_object *object = unit_json_parse("{\"name\":\"ab\"}");
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
                struct json_object *object = unit_json_parse(text);
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
                complains(text_format("{\"name\":\"ab\",\"count\":%s}", other), FERRY_E_INVALID_PARAMETER, "/count",
                          "expected an integer");
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
                        if (j == cases[i].own)
                                continue;
                        const char *text = text_format("{\"name\":\"ab\",\"%s\":%s}", cases[i].field, values[j]);
                        complains(text, FERRY_E_INVALID_PARAMETER, text_format("/%s", cases[i].field), cases[i].detail);
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

TEST(a_body_that_is_no_object_is_refused)
{
        FOR_EACH_TEXT (other, "[]", "1", "\"name\"", "true", "null")
                complains(other, FERRY_E_INVALID_PARAMETER, "", "expected an object");
}

TEST(all_that_is_wrong_is_said_at_once)
{
        struct json_object *object = unit_json_parse("{\"count\":\"5\",\"x\":1,\"flag\":0}");
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

TEST(a_name_may_stand_in_the_place_of_an_integer)
{
        static const char *const names[] = { "unlimited", NULL };
        static const struct ferry_json_field field = { "n", FERRY_JSON_UINT, true, 0, 1, 9, names };
        static const struct {
                const char *text;
                uint64_t number; /* 0 = it is refused */
        } rows[] = { { "{\"n\":9}", 9 },     { "{\"n\":\"unlimited\"}", UINT64_MAX },
                     { "{\"n\":10}", 0 },    { "{\"n\":\"Unlimited\"}", 0 },
                     { "{\"n\":\"9\"}", 0 }, { "{\"n\":true}", 0 } };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct ferry_json_errors errors = { 0 };
                uint64_t number = 0;

                assert_int_equal(
                        ferry_json_decode(unit_json_parse(test_row(rows[i].text)), &field, 1, &number, "", &errors),
                        rows[i].number != 0);
                assert_true(number == rows[i].number);
        }
}

TEST(pointers_of_long_names_are_cut_but_whole)
{
        for (size_t shift = 0; shift < 3; shift++) {
                struct ferry_json_errors errors = { 0 };
                struct thing thing = { 0 };
                struct json_object *object;
                char name[512] = "...";
                size_t n;

                name[shift] = '\0';
                while (strlen(name) < 400)
                        strcat(name, "~");
                object = unit_json_parse(text_format("{\"%s\":null}", name));
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
        struct json_object *object = unit_json_parse("{\"x\":1}");
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

TEST(a_complaint_without_room_still_fails_the_decoding)
{
        struct json_object *good = unit_json_parse("{\"name\":\"ab\"}"), *bad = unit_json_parse("{\"name\":1}");
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
        struct json_object *object = unit_json_parse("{\"x\":1}"), *other = unit_json_parse("7");

        assert_false(ferry_json_decode_element(object, fields, UNIT_COUNT(fields), &thing, "/list", 65535, &errors));
        assert_false(ferry_json_decode_element(other, fields, UNIT_COUNT(fields), &thing, "/list", 0, &errors));
        assert_int_equal(errors.n, 3);
        assert_string_equal(errors.items[0].pointer, "/list/65535/x");
        assert_string_equal(errors.items[1].pointer, "/list/65535/name");
        assert_string_equal(errors.items[2].pointer, "/list/0");
}
