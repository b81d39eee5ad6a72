/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_memory.h"
#include "metadata_fixture.h"

/* ---- encoding ---- */

TEST(the_blob_is_base64_of_zlib_of_json)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);
        const char *text = open_blob(string_of(object, "nixl_metadata"));
        static const char start[] = "{\"protocol\":8,\"worker\":\"alpha\",\"epoch\":\"0123456789abcdef\","
                                    "\"operation\":\"fedcba9876543210\",\"data\":\"[::1]:9400\","
                                    "\"http\":\"http://127.0.0.1:9300\",\"expires\":1790000000123,\"digest\":\"";

        assert_memory_equal(text, start, sizeof(start) - 1);
        assert_int_equal(strlen(text), sizeof(start) - 1 + 16 + 2);
        assert_string_equal(text + strlen(text) - 2, "\"}");
}

/* nixl_connect strips these characters from the front of the blob, not only the prefix. */
TEST(the_blob_s_base64_begins_with_none_of_the_prefix_s_characters)
{
        struct ferry_metadata m = sample();

        for (m.operation = 1; m.operation < 200; m.operation++) {
                struct json_object *object = encode(&m);

                assert_null(strchr("b64:", string_of(object, "nixl_metadata")[4]));
        }
}

TEST(the_blob_s_size_does_not_depend_on_the_descriptors)
{
        struct ferry_metadata m = sample();
        struct json_object *one, *many;

        m.n_descriptors = 1;
        one = encode(&m);
        m.n_descriptors = 5000;
        m.descriptors = calloc(m.n_descriptors, sizeof(*m.descriptors));
        for (size_t i = 0; i < m.n_descriptors; i++)
                m.descriptors[i] = two[i % 2];
        many = encode(&m);
        assert_int_equal(strlen(string_of(one, "nixl_metadata")), strlen(string_of(many, "nixl_metadata")));
        free(m.descriptors);
}

TEST(the_key_stands_in_its_own_place_only)
{
        struct ferry_metadata m = sample(), other = sample();
        struct json_object *a, *b;

        other.key[5] ^= 1;
        a = encode(&m);
        b = encode(&other);
        assert_string_equal(string_of(a, "nixl_metadata"), string_of(b, "nixl_metadata"));
        assert_string_not_equal(string_of(a, "notification_key"), string_of(b, "notification_key"));
}

static void refuse_to_encode(const struct ferry_metadata *m)
{
        struct ferry_json_writer writer = { 0 };

        assert_int_equal(ferry_metadata_encode(m, &writer), -EINVAL);
        assert_int_equal(writer.size, 0);
}

#define REFUSE_MEMBER(...)                                                                                             \
        do {                                                                                                           \
                struct ferry_metadata m = sample();                                                                    \
                __VA_ARGS__;                                                                                           \
                refuse_to_encode(&m);                                                                                  \
        } while (0)

TEST(members_that_are_not_valid_are_not_encoded)
{
        REFUSE_MEMBER(m.operation_kind = 0);
        REFUSE_MEMBER(m.operation_kind = 3);
        REFUSE_MEMBER(m.operation_kind = -1);
        REFUSE_MEMBER(m.protocol = 0);
        REFUSE_MEMBER(m.protocol = 2);
        REFUSE_MEMBER(m.epoch = 0);
        REFUSE_MEMBER(m.operation = 0);
        REFUSE_MEMBER(m.expires_ms = EXACT + 1);
        REFUSE_MEMBER(m.n_descriptors = 0);
        REFUSE_MEMBER(m.n_descriptors = FERRY_METADATA_DESCRIPTORS + 1);
        REFUSE_MEMBER(strcpy(m.worker, "two words"));
        REFUSE_MEMBER(strcpy(m.worker, "a\"b"));
        REFUSE_MEMBER(strcpy(m.worker, "a\\b"));
        REFUSE_MEMBER(strcpy(m.worker, "\xc3\xa9"));
        REFUSE_MEMBER(memset(m.worker, 'a', sizeof(m.worker)));
        REFUSE_MEMBER(strcpy(m.data, "host\n:1"));
        REFUSE_MEMBER(memset(m.data, 'a', sizeof(m.data)));
        REFUSE_MEMBER(strcpy(m.http, "ftp://host/"));
        REFUSE_MEMBER(strcpy(m.http, "127.0.0.1:9300"));
        REFUSE_MEMBER(strcpy(m.http, "http://a b"));
        REFUSE_MEMBER(strcpy(m.http, "http://a\x7f"));
        REFUSE_MEMBER(memset(m.http + 7, 'a', sizeof(m.http) - 7));
}

TEST(descriptors_that_are_not_valid_are_not_encoded)
{
        static const struct ferry_metadata_descriptor bad[] = {
                { "cpu", 0, 1 },
                { "cpu", EXACT + 1, 1 },
                { "cpu", 1, 0 },
                { "cpu", 1, EXACT + 1 },
                { "", 1, 1 },
                { "c u", 1, 1 },
                { "c\"u", 1, 1 },
                { "c\x80u", 1, 1 },
                { { 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a' }, 1, 1 },
        };

        for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
                struct ferry_metadata_descriptor list[] = { two[0], bad[i] };
                struct ferry_metadata m = sample();

                m.descriptors = list;
                refuse_to_encode(&m);
        }
}

TEST(sizes_that_add_up_to_too_much_are_not_encoded)
{
        struct ferry_metadata_descriptor list[] = { { "cpu", 1, EXACT }, { "cpu", 2, 1 } };
        struct ferry_metadata m = sample();

        m.descriptors = list;
        refuse_to_encode(&m);
        list[0].size--;
        round_trip(&m);
}

/* ---- decoding ---- */

/* Each mark becomes a piece of white space. */
static void spaced(const char *marked, const struct ferry_metadata *m)
{
        FOR_EACH_TEXT (space, "", " ", "\n", "\t \r\n") {
                char *text = unit_alloc(strlen(marked) * 4 + 1), *at = text;

                for (const char *c = marked; *c; c++)
                        at = *c == '~' ? stpcpy(at, space) : stpncpy(at, c, 1);
                *at = '\0';
                read_back(text, m);
                free(text);
        }
}

/* As other programs write JSON: with spaces, with the members in another order, with escapes. */
TEST(metadata_written_otherwise_are_read_as_well)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);
        const char *blob = string_of(object, "nixl_metadata"), *key = string_of(object, "notification_key");

        FOR_EACH_TEXT (
                form,
                "~{~\"descriptors\"~:~[~{~\"device\"~:~\"cpu\"~,~\"ptr\"~:~4294967296~,~\"size\"~:~1048576~}~,~"
                "{~\"device\"~:~\"cuda:0\"~,~\"ptr\"~:~17~,~\"size\"~:~1~}~]~,~\"nixl_metadata\"~:~\"%1$s\"~,~"
                "\"notification_key\"~:~\"%2$s\"~,~\"operation_kind\"~:~1~}~",
                "{\"operation_kind\":1,~\"notification_key\":\"%2$s\",\"nixl_metadata\":\"%1$s\",\"descriptors\":"
                "[{\"size\":1048576,\"ptr\":4294967296,\"device\":\"cpu\"},{\"size\":1,\"ptr\":17,\"device\":\"cuda:"
                "0\"}]}",
                "{\"descr\\u0069ptors\":[~{\"device\":\"c\\u0070u\",\"ptr\":4294967296,\"size\":1048576},"
                "{\"device\":\"cuda:0\",\"ptr\":17,\"size\":1}],\"nixl_metadata\":\"%1$s\",\"notification_key\":\"%2$"
                "s\","
                "\"operation_kind\":1}") {
                spaced(text_format(form, blob, key), &m);
        }
}

TEST(metadata_survive_the_round_trip)
{
        struct ferry_metadata m = sample();

        round_trip(&m);
        m.operation_kind = FERRY_METADATA_WRITE;
        round_trip(&m);
}

TEST(empty_and_smallest_members_survive_the_round_trip)
{
        struct ferry_metadata_descriptor one = { "c", 1, 1 };
        struct ferry_metadata m = sample();

        m.worker[0] = m.data[0] = m.http[0] = '\0';
        m.epoch = m.operation = 1;
        m.expires_ms = 0;
        m.descriptors = &one;
        m.n_descriptors = 1;
        memset(m.key, 0, sizeof(m.key));
        round_trip(&m);
}

TEST(longest_members_survive_the_round_trip)
{
        struct ferry_metadata_descriptor one = { "abcdefghijklmno", EXACT, EXACT };
        struct ferry_metadata m = sample();

        memset(m.worker, 'w', sizeof(m.worker) - 1);
        memset(m.data, 'd', sizeof(m.data) - 1);
        memset(m.http, 'h', sizeof(m.http) - 1);
        memcpy(m.http, "https://", 8);
        m.epoch = m.operation = UINT64_MAX;
        m.expires_ms = EXACT;
        m.descriptors = &one;
        m.n_descriptors = 1;
        memset(m.key, 0xff, sizeof(m.key));
        round_trip(&m);
}

TEST(the_most_descriptors_survive_the_round_trip)
{
        struct ferry_metadata m = sample();

        m.n_descriptors = FERRY_METADATA_DESCRIPTORS;
        m.descriptors = calloc(m.n_descriptors, sizeof(*m.descriptors));
        for (size_t i = 0; i < m.n_descriptors; i++)
                m.descriptors[i] = (struct ferry_metadata_descriptor){ "cpu", i + 1, i % 4096 + 1 };
        round_trip(&m);
        free(m.descriptors);
}

/* ---- memory ---- */

/* Decodes with ever more memory until the result is the one expected. Takes more than least allocations. */
static void decode_in_little_memory(struct json_object *document, int expected, long least)
{
        size_t size;
        const char *text = json_object_to_json_string_length(document, PLAIN, &size);
        int r = -ENOMEM;
        long n;

        for (n = 0; r != expected; n++) {
                struct ferry_json_errors errors = { 0 };
                struct ferry_metadata *back = NULL;

                memory_left = n;
                r = ferry_metadata_decode(text, size, "", &back, &errors);
                memory_left = -1;
                assert_true(r == expected || r == -ENOMEM);
                assert_int_equal(errors.n, r > 0 ? 1 : 0);
                assert_true(r == 0 || !back);
                (void)ferry_metadata_free(back);
        }
        assert_true(n > least);
}

TEST(short_memory_is_told_from_bad_metadata)
{
        struct ferry_metadata m = sample();
        struct json_object *document = encode(&m);
        const char *text = open_blob(string_of(document, "nixl_metadata"));
        const char *blob = close_blob(text, strlen(text), 0);

        decode_in_little_memory(document, 0, 4);
        assert_int_equal(json_object_object_add(document, "nixl_metadata", json_object_new_string(blob)), 0);
        decode_in_little_memory(document, FERRY_E_INVALID_METADATA, 6);
}

TEST(short_memory_ends_an_encoding_without_a_leak)
{
        struct ferry_metadata m = sample();
        int r = -ENOMEM;
        long n;

        for (n = 0; r != 0; n++) {
                struct ferry_json_writer writer = { 0 };

                memory_left = n;
                r = ferry_metadata_encode(&m, &writer);
                memory_left = -1;
                assert_true(r == 0 || r == -ENOMEM);
                ferry_json_writer_clear(&writer);
        }
        assert_true(n > 1);
}

TEST(nothing_may_be_freed)
{
        assert_null(ferry_metadata_free(NULL));
        assert_null(ferry_metadata_free(calloc(1, sizeof(struct ferry_metadata))));
}
