/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include <ferry/json_write.h>

#include "failing_memory.h"
#include "unit.h"

static void expect(struct ferry_json_writer *writer, const char *expected)
{
        size_t size;
        char *text = ferry_json_take(writer, &size);

        assert_string_equal(text, expected);
        assert_int_equal(size, strlen(expected));
        assert_null(writer->text);
        assert_int_equal(writer->size, 0);
        free(text);
}

TEST(commas_stand_between_values_and_nowhere_else)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_key(&writer, "empty");
        ferry_json_begin_array(&writer);
        ferry_json_end_array(&writer);
        ferry_json_key(&writer, "list");
        ferry_json_begin_array(&writer);
        ferry_json_put_uint(&writer, 1);
        ferry_json_put_string(&writer, "[");
        ferry_json_put_bool(&writer, true);
        ferry_json_begin_object(&writer);
        ferry_json_end_object(&writer);
        ferry_json_begin_object(&writer);
        ferry_json_add_bool(&writer, "a", false);
        ferry_json_add_uint(&writer, "b", 2);
        ferry_json_end_object(&writer);
        ferry_json_put_text(&writer, "null", 4);
        ferry_json_end_array(&writer);
        ferry_json_add_string(&writer, "c", "{:");
        ferry_json_add_id(&writer, "d", "op_", 0xabc);
        ferry_json_end_object(&writer);
        expect(&writer, "{\"empty\":[],\"list\":[1,\"[\",true,{},{\"a\":false,\"b\":2},null],\"c\":\"{:\","
                        "\"d\":\"op_0000000000000abc\"}");
}

TEST(numbers_are_written_to_the_last_digit)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_array(&writer);
        ferry_json_put_uint(&writer, 0);
        ferry_json_put_uint(&writer, 10);
        ferry_json_put_uint(&writer, UINT64_MAX);
        ferry_json_end_array(&writer);
        expect(&writer, "[0,10,18446744073709551615]");
}

/* Another implementation must read every character back. */
TEST(every_character_survives)
{
        char text[300];
        size_t n = 0;

        for (int c = 1; c < 0x80; c++)
                text[n++] = (char)c;
        strcpy(text + n, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"\\");
        for (size_t start = 0; start <= strlen(text); start++) {
                struct ferry_json_writer writer = { 0 };
                struct json_object *back;
                char *json;

                ferry_json_put_string(&writer, text + start);
                json = ferry_json_take(&writer, NULL);
                back = json_tokener_parse(json);
                assert_string_equal(json_object_get_string(back), text + start);
                json_object_put(back);
                free(json);
        }
}

TEST(escapes_are_the_short_ones_where_there_are_such)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_put_string(&writer, "\b\f\n\r\t\"\\/\x01\x1f\x7f");
        expect(&writer, "\"\\b\\f\\n\\r\\t\\\"\\\\/\\u0001\\u001f\x7f\"");
}

TEST(long_texts_are_whole)
{
        struct ferry_json_writer writer = { 0 };
        size_t size;
        char *text;

        ferry_json_begin_array(&writer);
        for (int i = 0; i < 100000; i++)
                ferry_json_put_uint(&writer, 7);
        ferry_json_end_array(&writer);
        text = ferry_json_take(&writer, &size);
        assert_int_equal(size, 200001);
        for (size_t i = 0; i + 1 < size; i += 2)
                assert_true(text[i + 1] == '7' && text[i] == (i ? ',' : '['));
        free(text);
}

TEST(short_memory_shows_at_the_end_and_leaves_nothing)
{
        char *text = NULL;

        for (long n = 0; !text; n++) {
                struct ferry_json_writer writer = { 0 };

                memory_left = n;
                ferry_json_begin_array(&writer);
                for (int i = 0; i < 1000; i++)
                        ferry_json_put_string(&writer, "text");
                ferry_json_end_array(&writer);
                text = ferry_json_take(&writer, NULL);
                memory_left = -1;
                assert_true(text || n < 10);
                assert_false(writer.failed);
        }
        assert_int_equal(strlen(text), 7001);
        free(text);
}
