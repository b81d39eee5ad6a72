/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "failing_memory.h"
#include "json_whole.h"
#include "unit.h"
#include "unit_json.h"

/* json-c forgets to say that memory was short, and leaves a member out, or its value, or an element. */
enum { FORGET_NOTHING, FORGET_MEMBER, FORGET_VALUE, FORGET_ELEMENT };
static int forgets;

struct json_object *__real_json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int size);
struct json_object *__wrap_json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int size);

struct json_object *__wrap_json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int size)
{
        struct json_object *value = __real_json_tokener_parse_ex(tokener, text, size);
        struct json_object *object =
                json_object_is_type(value, json_type_array) ? json_object_array_get_idx(value, 0) : value;

        if (object && forgets == FORGET_MEMBER)
                json_object_object_del(object, "forgotten");
        if (object && forgets == FORGET_VALUE)
                (void)json_object_object_add(object, "forgotten", NULL);
        if (object && forgets == FORGET_ELEMENT)
                (void)json_object_array_del_idx(value, 1, 1);
        return value;
}

static const char *text_of(struct json_object *value)
{
        return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static struct json_object *member(const struct ferry_json *json, const char *key)
{
        return json_object_object_get(ferry_json_root(json), key);
}

/* The text with so much space behind one of its opening brackets that the list there is a long one; NULL: it has fewer
 * brackets. */
static const char *lengthen(const char *text, size_t bracket)
{
        enum { SPACES = 2048 };
        const char *at = strchr(text, '[');

        while (at && bracket-- > 0)
                at = strchr(at + 1, '[');
        if (!at)
                return NULL;
        return text_format("%.*s%*s%s", (int)(at + 1 - text), text, SPACES, "", at + 1);
}

/* json-c's own tree of the text is what it is held against. */
static void read_whole(const char *text)
{
        struct ferry_json *json = unit_json_parse(text);
        struct json_object *whole = json_whole(ferry_json_root(json)), *other = json_tokener_parse(text);

        assert_string_equal(text_of(whole), text_of(other));
        json_object_put(other);
        json_object_put(whole);
}

TEST(lists_at_any_place_are_read_whole)
{
        FOR_EACH_TEXT (text, "[]", "[[]]", "[1]", " [ 1 , \"a\" , null , true , [ ] , { } ] ", "[null,null]",
                       "[[1,[2,[3]]],[],[[[]],4]]", "{\"a\":[],\"b\":[1],\"c\":{\"d\":[2,3],\"e\":[]},\"f\":[4]}",
                       "{\"a\":[{\"b\":[1,2],\"c\":[]},{\"c\":[[3]],\"b\":{\"d\":[4]}}],\"e\":5}",
                       "{ \"a\" : [ 1 ] , \"b\" : [ 2 ] }", "{\"a\":[[],[[]]],\"b\":[],\"c\":[5]}",
                       "[\"]\",\"[\",\"\\\"]\",\",\",\"\\\\\",\"}\",{\"]\":\"[\",\",\":[\"]\"]}]",
                       "{\"[]\":[\"[]\"],\"a\":\"[\"}", "[1.5,-0,2E3,18446744073709551615]", "[[[[[[[[1]]]]]]]]",
                       "[{\"a\":[{\"a\":[{\"a\":[7]}]}]}]") {
                const char *longer;

                read_whole(text);
                for (size_t bracket = 0; (longer = lengthen(text, bracket)); bracket++) {
                        read_whole(longer);
                }
        }
}

TEST(elements_of_all_kinds_are_read_in_any_batch)
{
        static const char *const kinds[] = { "null", "[]", " { } ", "{\"a\":[]}", "[[],1]", "\",]\"", " 1.5 ", "[ ]" };
        enum { ELEMENTS = 5000 };
        char *text = unit_alloc(ELEMENTS * 12 + 2), *at = text;

        for (unsigned i = 0; i < ELEMENTS; i++)
                at += sprintf(at, "%c%s", i ? ',' : '[', kinds[i % 7 * i % UNIT_COUNT(kinds)]);
        strcpy(at, "]");
        read_whole(text);
        read_whole(lengthen(text, 77));
        free(text);
}

TEST(lists_are_counted_without_being_read)
{
        static const char text[] = "{\"a\":[],\"b\":[[1,2,3]],\"c\":[{\"d\":1,\"e\":2},null,\"x,y\",[],7]}";

        for (size_t bracket = 0; bracket < 4; bracket++) {
                const char *longer = lengthen(text, bracket);
                struct ferry_json *json =
                        unit_json_parse(bracket == 2 ? text : longer); /* the third is within the second */

                assert_int_equal(ferry_json_count(member(json, "a")), 0);
                assert_int_equal(ferry_json_count(member(json, "b")), 1);
                assert_int_equal(ferry_json_count(member(json, "c")), 5);
        }
}

TEST(a_long_list_as_text_is_as_it_stood)
{
        const char *text = lengthen(" { \"a\" : { \"b\" : [1 , {\"c\":[ ]} ] } , \"d\" : [ 2 ] , \"e\" : [ ] } ", 0);
        const char *list = lengthen("{\"b\":[1 , {\"c\":[ ]} ]}", 0);
        struct ferry_json *json = unit_json_parse(text);

        assert_string_equal(text_of(member(json, "a")), list);
        assert_string_equal(text_of(member(json, "d")), "[2]");
        assert_string_equal(text_of(member(json, "e")), "[ ]");
}

static void expect_text(const struct ferry_json *json, const char *key, const char *expected)
{
        size_t size;
        const char *text = ferry_json_text(member(json, key), &size);

        assert_int_equal(size, strlen(expected));
        assert_memory_equal(text, expected, size);
}

TEST(a_kept_object_is_text_as_it_stood)
{
        static const char kept[] = "{ \"l\" : [ ] , \"k\":{\"k\":[{}]}, \"n\":1.50 }";
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json;

        const char *text = text_format("{\"e\":[],\"o\":{\"k\":{}},\"k\": %s ,\"l\":[],\"i\":7}", kept);
        assert_int_equal(ferry_json_parse(text, strlen(text), "k", &json, &errors), 0);
        expect_text(json, "k", kept);
        assert_true(ferry_json_text(member(json, "k"), &(size_t){ 0 }) == strstr(text, kept));
        expect_text(json, "o", "{\"k\":{}}");
        expect_text(json, "i", "7");
        assert_int_equal(ferry_json_count(member(json, "e")), 0);
        assert_int_equal(ferry_json_count(member(json, "l")), 0);
        (void)ferry_json_free(json);
}

TEST(only_an_object_is_kept)
{
        static const char *const values[] = { "7", "null", "\"{}\"", "[]", "[1]", "{}" };

        for (size_t i = 0; i < UNIT_COUNT(values); i++) {
                struct ferry_json_errors errors = { 0 };
                struct ferry_json *json;

                const char *text = text_format("{\"k\":%s}", values[i]);
                assert_int_equal(ferry_json_parse(text, strlen(text), "k", &json, &errors), 0);
                expect_text(json, "k", values[i]);
                assert_int_equal(json_object_is_type(member(json, "k"), json_type_array), i >= 3);
                (void)ferry_json_free(json);
        }
}

TEST(what_is_kept_is_checked)
{
        FOR_EACH_TEXT (wrong, "{\"k\":{\"a\":1,\"a\":2}}", "{\"k\":{,}}", "{\"k\":{}", "{\"k\":{},\"k\":1}") {
                struct ferry_json_errors errors = { 0 }, alone = { 0 };
                struct ferry_json *json;

                assert_int_equal(ferry_json_parse(wrong, strlen(wrong), "k", &json, &errors), FERRY_E_INVALID_JSON);
                assert_int_equal(ferry_json_check(wrong, strlen(wrong), &alone), FERRY_E_INVALID_JSON);
                assert_int_equal(alone.n, 1);
                assert_string_equal(alone.items[0].detail, errors.items[0].detail);
        }
}

/* Two walks over one list, and one within an element of another, do not disturb each other. */
static void walk_twice(const char *text)
{
        struct ferry_json *json = unit_json_parse(text);
        struct ferry_json_elements outer = ferry_json_elements(member(json, "a")), inner, second;
        struct json_object *list, *value;
        int64_t expected = 1;

        second = ferry_json_elements(member(json, "a"));
        while (ferry_json_next(&outer, &list) > 0) {
                assert_int_equal(ferry_json_next(&second, &value), 1);
                inner = ferry_json_elements(list);
                while (ferry_json_next(&inner, &value) > 0)
                        assert_int_equal(json_object_get_int64(value), expected++);
                ferry_json_elements_clear(&inner);
        }
        assert_int_equal(expected, 5);
        assert_int_equal(ferry_json_next(&outer, &value), 0);
        assert_int_equal(ferry_json_next(&second, &value), 0);
        ferry_json_elements_clear(&outer);
        ferry_json_elements_clear(&second);
}

TEST(walks_are_independent)
{
        static const char text[] = "{\"a\":[[1,2],[3,4]]}";
        const char *longer = lengthen(text, 0);

        walk_twice(text);
        walk_twice(longer);
}

/* From json-c's tree of them it would be hundreds of bytes each. */
TEST(long_lists_are_read_in_little_memory)
{
        enum { ELEMENTS = 65536, STEPS = 64 };
        char *text = unit_alloc(ELEMENTS * 16 + 2), *at = text;
        struct ferry_json_elements elements;
        struct json_object *element;
        struct ferry_json *json;
        uint64_t n = 0, number;

        for (unsigned i = 0; i < ELEMENTS; i++)
                at += sprintf(at, "%c{\"a\":%u}", i ? ',' : '[', i);
        strcpy(at, "]");
        json = unit_json_parse(text);
        elements = ferry_json_elements(ferry_json_root(json));
        assert_int_equal(ferry_json_next(&elements, &element), 1);
        memory_left = STEPS; /* of ours: none is needed for what is alike */
        do {
                assert_true(ferry_json_get_uint(json_object_object_get(element, "a"), &number));
                assert_int_equal(number, n++);
        } while (ferry_json_next(&elements, &element) > 0);
        assert_int_equal(memory_left, STEPS);
        memory_left = -1;
        assert_int_equal(n, ELEMENTS);
        ferry_json_elements_clear(&elements);
        free(text);
}

TEST(short_memory_ends_a_walk)
{
        const char *text = lengthen("[{\"a\":[1],\"b\":2},3]", 0);
        struct ferry_json *json = unit_json_parse(text);
        int r = -ENOMEM;

        for (long n = 0; r != 0; n++) {
                struct ferry_json_elements elements = ferry_json_elements(ferry_json_root(json));
                struct json_object *element;
                size_t seen = 0;

                memory_left = n;
                while ((r = ferry_json_next(&elements, &element)) > 0)
                        seen++;
                memory_left = -1;
                assert_true(r == -ENOMEM || (r == 0 && n > 0 && seen == 2));
                ferry_json_elements_clear(&elements);
        }
}

static void refuse_while_forgetful(const char *text)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;

        assert_int_equal(ferry_json_parse(text, strlen(text), NULL, &json, &errors), -ENOMEM);
        assert_int_equal(errors.n, 0);
}

TEST(a_tree_that_lacks_something_is_short_memory)
{
        const char *list = lengthen("[{\"a\":1,\"forgotten\":2}]", 0);

        for (int what = FORGET_MEMBER; what <= FORGET_VALUE; what++) {
                struct ferry_json *json = unit_json_parse(list);
                struct ferry_json_elements elements = ferry_json_elements(ferry_json_root(json));
                struct json_object *element;

                forgets = what;
                refuse_while_forgetful("{\"a\":1,\"forgotten\":2}");
                refuse_while_forgetful("{\"a\":1,\"forgotten\":[]}");
                refuse_while_forgetful("{\"a\":1,\"forgotten\":[{\"b\":2}]}");
                assert_int_equal(ferry_json_next(&elements, &element), -ENOMEM);
                forgets = FORGET_NOTHING;
                ferry_json_elements_clear(&elements);
        }
}

TEST(a_batch_that_lacks_a_null_is_short_memory)
{
        const char *list = lengthen("[{},null]", 0);
        struct ferry_json *json = unit_json_parse(list);
        struct ferry_json_elements elements = ferry_json_elements(ferry_json_root(json));
        struct json_object *element;

        forgets = FORGET_ELEMENT;
        assert_int_equal(ferry_json_next(&elements, &element), -ENOMEM);
        forgets = FORGET_NOTHING;
        ferry_json_elements_clear(&elements);
}

TEST(the_text_of_each_element_is_found)
{
        static const struct {
                const char *text, *elements[4];
        } arrays[] = {
                { "[]", { NULL } },
                { " [\n] ", { NULL } },
                { "[1]", { "1" } },
                { "[ {\"a\":[1,2]} ,[[],{}],\t\"]},\\\"\\\\\" ]", { "{\"a\":[1,2]} ", "[[],{}]", "\"]},\\\"\\\\\" " } },
                { "[null,true,-1.5e3]", { "null", "true", "-1.5e3" } },
        };

        for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
                const char *at = arrays[i].text, *element;
                size_t n = 0, size;

                for (; ferry_json_next_text(&at, &element, &size); n++) {
                        assert_non_null(arrays[i].elements[n]);
                        assert_int_equal(size, strlen(arrays[i].elements[n]));
                        assert_memory_equal(element, arrays[i].elements[n], size);
                }
                assert_null(arrays[i].elements[n]);
                assert_false(ferry_json_next_text(&at, &element, &size));
        }
}

/* A list of either length, with as many numbers as count says before the first that is something else. */
TEST(numbers_are_read_up_to_what_is_none)
{
        static const struct {
                const char *text;
                size_t n, length;
                uint64_t first, last;
        } lists[] = {
                { "[]", 0, 0, 0, 0 },
                { "[7]", 1, 1, 7, 7 },
                { " [ 0 ,\t1\n, 9007199254740991 ]", 3, 3, 0, 9007199254740991 },
                { "[1,2,9007199254740992]", 2, 3, 1, 2 },
                { "[1,18446744073709551617]", 1, 2, 1, 1 },
                { "[3,4,-1,5]", 2, 4, 3, 4 },
                { "[3,4.0]", 1, 2, 3, 3 },
                { "[3,1e2]", 1, 2, 3, 3 },
                { "[3,\"4\",5]", 1, 3, 3, 3 },
                { "[3,[4]]", 1, 2, 3, 3 },
                { "[3,null]", 1, 2, 3, 3 },
        };

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                for (int is_long = 0; is_long < 2; is_long++) {
                        const char *text = is_long ? lengthen(lists[i].text, 0) : lists[i].text;
                        struct ferry_json *json = unit_json_parse(text);
                        uint64_t numbers[8] = { 0 };
                        size_t n;

                        assert_int_equal(ferry_json_count(ferry_json_root(json)), lists[i].length);
                        assert_int_equal(ferry_json_get_uints(ferry_json_root(json), numbers, &n), 0);
                        assert_int_equal(n, lists[i].n);
                        if (n) {
                                assert_true(numbers[0] == lists[i].first);
                                assert_true(numbers[n - 1] == lists[i].last);
                        }
                }
        }
}
