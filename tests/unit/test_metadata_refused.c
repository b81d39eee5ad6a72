/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_fixture.h"

/* Documents and blobs that are not as a Ferry worker writes them. */

static bool accepts(const char *text, size_t n)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *m = NULL;
        int r = ferry_metadata_decode(text, n, "", &m, &errors);

        assert_true(r == 0 || (errors.n > 0 && !m));
        (void)ferry_metadata_free(m);
        return r == 0;
}

/* Where the key's value begins; it is FERRY_KEY_TEXT_SIZE - 1 long. */
static size_t key_at(const char *text)
{
        static const char before[] = "\"notification_key\":\"";

        return (size_t)(strstr(text, before) - text) + sizeof(before) - 1;
}

static bool in_key(const char *text, size_t i)
{
        return i >= key_at(text) && i < key_at(text) + FERRY_KEY_TEXT_SIZE - 1;
}

TEST(a_document_with_any_byte_changed_is_refused)
{
        struct ferry_metadata m = sample();
        const char *text = encode_text(&m);
        char *changed = test_keep(strdup(text), free);
        size_t n = strlen(text);

        assert_true(accepts(text, n));
        for (size_t i = 0; i < n; i++) {
                if (in_key(text, i))
                        continue;
                for (int c = 0; c < 256; c++) {
                        changed[i] = (char)c;
                        if (changed[i] != text[i] && accepts(changed, n))
                                fail_msg("accepted with %02x at %zu: %s", (unsigned)c, i, changed);
                }
                changed[i] = text[i];
        }
}

TEST(a_document_with_any_byte_taken_out_is_refused)
{
        struct ferry_metadata m = sample();
        const char *text = encode_text(&m);
        char *changed = test_keep(strdup(text), free);
        size_t n = strlen(text);

        for (size_t i = 0; i < n; i++) {
                memcpy(changed, text, i);
                memcpy(changed + i, text + i + 1, n - i - 1);
                assert_false(accepts(changed, n - 1));
                assert_false(accepts(text, i));
        }
}

TEST(two_characters_of_the_blob_changed_are_refused)
{
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        struct ferry_metadata m = sample();
        const char *text = encode_text(&m);
        char *changed = test_keep(strdup(text), free);
        char *blob = strstr(changed, "b64:") + 4;
        size_t n = strlen(text);

        /* The frame of the stream, where zlib itself overlooks most. */
        for (size_t i = 0; i < 10; i++)
                for (size_t a = 0; a < 64; a++)
                        for (size_t b = 0; b < 64; b++) {
                                char old[2] = { blob[i], blob[i + 1] };

                                blob[i] = alphabet[a];
                                blob[i + 1] = alphabet[b];
                                if (memcmp(old, blob + i, 2) != 0)
                                        assert_false(accepts(changed, n));
                                memcpy(blob + i, old, 2);
                        }
}

TEST(another_key_is_left_to_its_owner)
{
        struct ferry_metadata m = sample(), *back;
        struct ferry_json_errors errors = { 0 };
        struct json_object *object = encode(&m);

        set(object, "notification_key", "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"");
        assert_int_equal(decode(object, "", &back, &errors), 0);
        memset(m.key, 0, sizeof(m.key));
        assert_same(&m, back);
        (void)ferry_metadata_free(back);
}

TEST(the_blob_of_another_operation_is_refused)
{
        struct ferry_metadata_descriptor bigger[] = { two[0], { "cuda:0", 17, 2 } };
        struct ferry_metadata m = sample(), other = sample();
        struct json_object *a, *b;

        other.descriptors = bigger;
        a = encode(&m);
        b = encode(&other);
        assert_int_equal(
                json_object_object_add(a, "nixl_metadata", json_object_get(json_object_object_get(b, "nixl_metadata"))),
                0);
        refuse(a, "/m/nixl_metadata", "do not belong together");
}

TEST(descriptors_in_another_order_or_number_are_refused)
{
        FOR_EACH_TEXT (
                list,
                "[{\"device\":\"cuda:0\",\"ptr\":17,\"size\":1},{\"device\":\"cpu\",\"ptr\":4294967296,\"size\":"
                "1048576}]",
                "[{\"device\":\"cpu\",\"ptr\":4294967296,\"size\":1048576}]",
                "[{\"device\":\"cpu\",\"ptr\":4294967296,\"size\":1048576},{\"device\":\"cuda:0\",\"ptr\":17,\"size\":"
                "1},"
                "{\"device\":\"cuda:0\",\"ptr\":17,\"size\":1}]")
                refuse_with("descriptors", list, "/m/nixl_metadata", "do not belong together");
}

TEST(keys_of_the_document_must_be_those_four)
{
        char pointer[64];

        FOR_EACH_TEXT (key, "descriptors", "nixl_metadata", "notification_key", "operation_kind") {
                struct ferry_metadata m = sample();
                struct json_object *object = encode(&m);

                json_object_object_del(object, key);
                (void)snprintf(pointer, sizeof(pointer), "/m/%s", key);
                refuse(object, pointer, "missing");
        }
        refuse_with("extra", "1", "/m/extra", "unknown field \"extra\"");
}

TEST(a_document_that_is_no_object_is_refused)
{
        refuse(NULL, "/m", "expected an object");
        refuse(keep_json(json_object_new_array()), "/m", "expected an object");
        refuse(keep_json(json_object_new_string("b64:")), "/m", "expected an object");
}

/* Each of the values of that key, with a complaint there. */
#define REFUSE_AT(pointer, key, ...)                                                                                   \
        FOR_EACH_TEXT (json, __VA_ARGS__)                                                                              \
        refuse_with(key, json, pointer, "")

TEST(wrong_types_and_ranges_are_refused)
{
        REFUSE_AT("/m/operation_kind", "operation_kind", "0", "3", "4294967297", "-1", "\"1\"", "1.0");
        REFUSE_AT("/m/notification_key", "notification_key", "\"\"", "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB\"",
                  "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\"", "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"",
                  "null");
        REFUSE_AT("/m/nixl_metadata", "nixl_metadata", "\"\"", "{}");
        REFUSE_AT("/m/descriptors", "descriptors", "[]", "{}",
                  "[{\"device\":\"cpu\",\"ptr\":1,\"size\":9007199254740991},"
                  "{\"device\":\"cpu\",\"ptr\":1,\"size\":1}]");
        REFUSE_AT("/m/descriptors/0", "descriptors", "[1]", "[null]");
        REFUSE_AT("/m/descriptors/0/size", "descriptors", "[{\"device\":\"cpu\",\"ptr\":1}]",
                  "[{\"device\":\"cpu\",\"ptr\":1,\"size\":0}]",
                  "[{\"device\":\"cpu\",\"ptr\":1,\"size\":99999999999999999999}]");
        REFUSE_AT("/m/descriptors/0/ptr", "descriptors", "[{\"device\":\"cpu\",\"size\":1}]",
                  "[{\"device\":\"cpu\",\"ptr\":0,\"size\":1}]", "[{\"device\":\"cpu\",\"ptr\":-1,\"size\":1}]",
                  "[{\"device\":\"cpu\",\"ptr\":9007199254740992,\"size\":1}]");
        REFUSE_AT("/m/descriptors/0/device", "descriptors", "[{\"ptr\":1,\"size\":1}]",
                  "[{\"device\":\"\",\"ptr\":1,\"size\":1}]", "[{\"device\":\"c u\",\"ptr\":1,\"size\":1}]",
                  "[{\"device\":\"\xc3\xa9\",\"ptr\":1,\"size\":1}]",
                  "[{\"device\":\"abcdefghijklmnop\",\"ptr\":1,\"size\":1}]");
        REFUSE_AT("/m/descriptors/0/x", "descriptors", "[{\"device\":\"cpu\",\"ptr\":1,\"size\":1,\"x\":1}]");
        REFUSE_AT("/m/descriptors/1/size", "descriptors",
                  "[{\"device\":\"cpu\",\"ptr\":1,\"size\":1},{\"device\":\"cpu\",\"ptr\":1,\"size\":0}]");
}

TEST(one_descriptor_too_many_is_refused)
{
        size_t n = FERRY_METADATA_DESCRIPTORS + 1, at = 0;
        static const char item[] = "{\"device\":\"cpu\",\"ptr\":1,\"size\":1},";
        char *list = unit_alloc(n * sizeof(item) + 3);

        list[at++] = '[';
        for (size_t i = 0; i < n; i++, at += sizeof(item) - 1)
                memcpy(list + at, item, sizeof(item));
        strcpy(list + at - 1, "]");
        refuse_with("descriptors", list, "/m/descriptors", "1 to 262144 elements");
        free(list);
}

TEST(complaints_are_of_the_metadata_and_not_too_many)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata m = sample(), *back;
        struct json_object *object = encode(&m), *list = json_object_new_array();

        for (int i = 0; i < 100; i++)
                assert_int_equal(json_object_array_add(list, json_object_new_int(i)), 0);
        assert_int_equal(json_object_object_add(object, "descriptors", list), 0);
        assert_int_equal(decode(object, "/m", &back, &errors), FERRY_E_INVALID_METADATA);
        assert_int_equal(errors.error, FERRY_E_INVALID_METADATA);
        assert_int_equal(errors.n, FERRY_JSON_ERRORS);
        assert_string_equal(errors.items[15].pointer, "/m/descriptors/15");
}

TEST(an_earlier_complaint_keeps_its_error)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *m;

        ferry_json_complain(&errors, FERRY_E_OUT_OF_BOUNDS, "/x", "x");
        assert_int_equal(decode(NULL, "/m", &m, &errors), FERRY_E_INVALID_METADATA);
        assert_int_equal(errors.error, FERRY_E_OUT_OF_BOUNDS);
        assert_int_equal(errors.n, 2);
}

TEST(complaints_do_not_repeat_the_key)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata m = sample(), *back;
        struct json_object *object = encode(&m);
        const char *key = text_keep(strdup(string_of(object, "notification_key")));

        set(object, "operation_kind", "9");
        set(object, "extra", "1");
        assert_int_equal(decode(object, "", &back, &errors), FERRY_E_INVALID_METADATA);
        for (size_t i = 0; i < errors.n; i++)
                assert_null(strstr(errors.items[i].detail, key));
}

/* ---- bad blobs ---- */

TEST(blobs_that_are_not_one_zlib_stream_are_refused)
{
        static const char text[] = "{\"protocol\":1}";
        static const uint8_t garbage[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, dictionary[] = { 0x78, 0xbb, 1, 2, 3, 4, 3, 0 };

        refuse_blob("eJw=", "does not begin with b64:");
        refuse_blob("B64:eJw=", "does not begin with b64:");
        refuse_blob("b64", "does not begin with b64:");
        refuse_blob("b64:", "not one zlib stream");
        refuse_blob("b64:!!!!", "not base64");
        refuse_blob("b64:eJw", "not base64");
        refuse_blob("b64: eJw=", "not base64");
        refuse_blob("b64:eJw=", "not one zlib stream");
        refuse_blob(blob_of_bytes(garbage, sizeof(garbage)), "not one zlib stream");
        refuse_blob(blob_of_bytes(dictionary, sizeof(dictionary)), "not one zlib stream");
        refuse_blob(close_blob(text, sizeof(text) - 1, 1), "not one zlib stream");
        refuse_blob(close_blob(text, sizeof(text) - 1, 100), "not one zlib stream");
}

TEST(a_blob_that_inflates_without_bound_is_refused)
{
        size_t n = 10 << 20;
        char *spaces = unit_alloc(n);

        memset(spaces, ' ', n);
        refuse_blob(close_blob(spaces, n, 0), "bounded size");
        refuse_blob(close_blob(spaces, 65537, 0), "bounded size");
        refuse_blob(close_blob(spaces, 65536, 0), "does not come from a Ferry worker");
        free(spaces);
}

TEST(a_blob_too_long_to_look_at_is_refused)
{
        char *blob = test_keep(unit_alloc(300000), free);

        memset(blob, 'A', 300000);
        memcpy(blob, "b64:", 4);
        blob[299999] = '\0';
        refuse_blob(blob, "1 to 131071 bytes");
}

TEST(blobs_of_other_documents_are_refused)
{
        FOR_EACH_TEXT (other, "", "nixl", "[]", "1", "{}", "null", "{\"worker\":1}", "\"protocol\"")
                refuse_blob_text(other, "does not come from a Ferry worker");
}

/* Its key is another one, too; what the user must hear is whose metadata these are. */
TEST(metadata_of_a_nixl_agent_are_named_as_such)
{
        static const char text[] = "nixlSerDes|Agent\x05\0\0\0\0\0\0\0agent|Conns";
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);
        const char *blob = close_blob(text, sizeof(text) - 1, 0);

        json_object_object_add(object, "notification_key",
                               json_object_new_string("0d4e7c3e-8a5b-4f6d-9a3e-1c2b3d4e5f60"));
        json_object_object_add(object, "nixl_metadata", json_object_new_string(blob));
        refuse(object, "/m/nixl_metadata", "NIXL agent");
}

/* All else may differ in another protocol, so that nothing else is looked at before. */
TEST(metadata_of_another_protocol_say_which_worker_is_older)
{
        static const struct {
                const char *blob, *detail;
        } rows[] = {
                { "{\"protocol\":5}", "speaks protocol 5, this worker protocol 8: upgrade the peer, which is older" },
                { "{\"protocol\":9,\"other\":[]}",
                  "speaks protocol 9, this worker protocol 8: upgrade this worker, which is older" },
                { "{\"protocol\":4294967297}", "speaks protocol 4294967297" },
                { "{\"protocol\":0}", "speaks no numbered protocol" },
        };
        struct ferry_metadata m = sample();

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct json_object *object = encode(&m);

                test_row(rows[i].blob);
                json_object_object_add(object, "nixl_metadata",
                                       json_object_new_string(close_blob(rows[i].blob, strlen(rows[i].blob), 0)));
                refuse_as(FERRY_E_PROTOCOL_MISMATCH, object, "/m/nixl_metadata", rows[i].detail);
                set(object, "operation_kind", "17");
                set(object, "descriptors", "[{\"length\":1}]");
                refuse_as(FERRY_E_PROTOCOL_MISMATCH, object, "/m/nixl_metadata", rows[i].detail);
        }
}

/* Each of the values in that field of the blob. */
#define REFUSE_FIELD(key, ...)                                                                                         \
        FOR_EACH_TEXT (json, __VA_ARGS__)                                                                              \
        refuse_blob_with(key, json, "does not come from a Ferry worker")

TEST(fields_of_the_blob_are_checked_one_by_one)
{
        FOR_EACH_TEXT (key, "protocol", "worker", "epoch", "operation", "data", "http", "expires", "digest")
                refuse_blob_with(key, NULL, "does not come from a Ferry worker");
        REFUSE_FIELD("protocol", "\"1\"");
        REFUSE_FIELD("worker", "1", "\"two words\"", "\"\xc3\xa9\"",
                     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"");
        REFUSE_FIELD("epoch", "\"0000000000000000\"", "\"0123456789ABCDEF\"", "\"123456789abcdef\"",
                     "81985529216486895");
        REFUSE_FIELD("operation", "\"op_fedcba9876543\"");
        REFUSE_FIELD("data", "\"host\\n:1\"", "\"a b:1\"");
        REFUSE_FIELD("http", "\"file:///etc/passwd\"", "\"gopher://a\"", "\"HTTP://a\"", "\"http://a\\r\\nx\"");
        REFUSE_FIELD("expires", "-1", "9007199254740992", "1.5");
        REFUSE_FIELD("digest", "\"+123456789abcdef\"", "\"0123456789ABCDEF\"");
        REFUSE_FIELD("extra", "1");
}

TEST(each_field_of_the_blob_is_covered_by_the_digest)
{
        static const struct {
                const char *key, *json;
        } changes[] = {
                { "worker", "\"beta\"" },
                { "epoch", "\"0123456789abcdee\"" },
                { "operation", "\"fedcba9876543211\"" },
                { "data", "\"[::1]:9401\"" },
                { "data", "\"\"" },
                { "http", "\"http://127.0.0.1:9301\"" },
                { "expires", "1790000000124" },
                { "digest", "\"0000000000000001\"" },
        };

        for (size_t i = 0; i < UNIT_COUNT(changes); i++)
                refuse_blob_with(changes[i].key, changes[i].json, "do not belong together");
}

/* Otherwise a stream with a byte changed may say the same, and the change would pass. */
TEST(the_same_blob_written_otherwise_is_refused)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);
        const char *text = open_blob(string_of(object, "nixl_metadata"));

        refuse_blob_text(text, "not as a Ferry worker writes it");
        refuse_blob_text(text_format("%s ", text), "not as a Ferry worker writes it");
}
