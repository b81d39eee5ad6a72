/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <zlib.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

#include "failing_memory.h"
#include "unit.h"
#include "unit_json.h"

#define PLAIN (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define EXACT FERRY_JSON_INTEGER_MAX

static struct ferry_metadata_descriptor two[] = {
        { .device = "cpu", .ptr = UINT64_C(4294967296), .size = 1048576 },
        { .device = "cuda:0", .ptr = 17, .size = 1 },
};

static struct ferry_metadata sample(void)
{
        struct ferry_metadata m = {
                .operation_kind = FERRY_METADATA_READ,
                .protocol = FERRY_METADATA_PROTOCOL,
                .worker = "alpha",
                .epoch = UINT64_C(0x0123456789abcdef),
                .operation = UINT64_C(0xfedcba9876543210),
                .data = "[::1]:9400",
                .http = "http://127.0.0.1:9300",
                .expires_ms = UINT64_C(1790000000123),
                .n_descriptors = UNIT_COUNT(two),
                .descriptors = two,
        };

        for (unsigned i = 0; i < sizeof(m.key); i++)
                m.key[i] = (uint8_t)(i * 37 + 11);
        return m;
}

static struct json_object *encode(const struct ferry_metadata *m)
{
        struct ferry_json_writer writer = { 0 };

        assert_int_equal(ferry_metadata_encode(m, &writer), 0);
        return unit_json_read(&writer);
}

static const char *encode_text(const struct ferry_metadata *m)
{
        struct ferry_json_writer writer = { 0 };

        assert_int_equal(ferry_metadata_encode(m, &writer), 0);
        return text_keep(ferry_json_take(&writer, NULL));
}

/* object NULL = JSON's null. */
static int decode(struct json_object *object, const char *prefix, struct ferry_metadata **ret_metadata,
                  struct ferry_json_errors *errors)
{
        size_t size;
        const char *text = json_object_to_json_string_length(object, PLAIN, &size);

        return ferry_metadata_decode(text, size, prefix, ret_metadata, errors);
}

static const char *string_of(struct json_object *object, const char *key)
{
        return json_object_get_string(json_object_object_get(object, key));
}

static void set(struct json_object *object, const char *key, const char *json)
{
        assert_int_equal(json_object_object_add(object, key, json_tokener_parse(json)), 0);
}

/* Expects that object is refused with one complaint at pointer whose text has detail in it. */
static void refuse(struct json_object *object, const char *pointer, const char *detail)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *m = (struct ferry_metadata *)&errors;

        assert_int_equal(decode(object, "/m", &m, &errors), FERRY_E_INVALID_METADATA);
        assert_ptr_equal(m, &errors);
        assert_int_equal(errors.error, FERRY_E_INVALID_METADATA);
        assert_int_equal(errors.n, 1);
        assert_string_equal(errors.items[0].pointer, pointer);
        if (!strstr(errors.items[0].detail, detail))
                fail_msg("\"%s\" does not say \"%s\"", errors.items[0].detail, detail);
}

/* The sample with one key set to another value. */
static void refuse_with(const char *key, const char *json, const char *pointer, const char *detail)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);

        set(object, key, json);
        refuse(object, pointer, detail);
}

static void assert_same(const struct ferry_metadata *a, const struct ferry_metadata *b)
{
        assert_int_equal(a->operation_kind, b->operation_kind);
        assert_memory_equal(a->key, b->key, sizeof(a->key));
        assert_int_equal(a->protocol, b->protocol);
        assert_string_equal(a->worker, b->worker);
        assert_true(a->epoch == b->epoch && a->operation == b->operation);
        assert_string_equal(a->data, b->data);
        assert_string_equal(a->http, b->http);
        assert_true(a->expires_ms == b->expires_ms);
        assert_int_equal(a->n_descriptors, b->n_descriptors);
        for (size_t i = 0; i < a->n_descriptors; i++) {
                assert_string_equal(a->descriptors[i].device, b->descriptors[i].device);
                assert_true(a->descriptors[i].ptr == b->descriptors[i].ptr);
                assert_true(a->descriptors[i].size == b->descriptors[i].size);
        }
}

/* Expects that the text is m's. */
static void read_back(const char *text, const struct ferry_metadata *m)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *back = NULL;

        if (ferry_metadata_decode(text, strlen(text), "", &back, &errors) != 0)
                fail_msg("%s: %s", errors.items[0].pointer, errors.items[0].detail);
        assert_int_equal(errors.n, 0);
        assert_same(m, back);
        assert_null(ferry_metadata_free(back));
}

static void round_trip(const struct ferry_metadata *m)
{
        const char *text = encode_text(m);

        read_back(text, m);
}

/* ---- the blob, by other means than the code under test ---- */

/* The text in a blob. */
static const char *open_blob(const char *blob)
{
        uLongf size = 65536;
        char *text = unit_alloc(size + 1);
        void *stream;
        size_t stream_size;

        assert_memory_equal(blob, "b64:", 4);
        assert_int_equal(ferry_base64_decode(blob + 4, strlen(blob + 4), &stream, &stream_size), 0);
        assert_int_equal(uncompress((Bytef *)text, &size, stream, stream_size), Z_OK);
        text[size] = '\0';
        free(stream);
        return text_keep(text);
}

static const char *blob_of_bytes(const void *bytes, size_t n)
{
        return text_format("b64:%s", text_keep(ferry_base64_encode(bytes, n)));
}

/* A blob of any text, compressed as zlib does by default, with extra bytes behind the stream. */
static const char *close_blob(const char *text, size_t n, size_t extra)
{
        uLongf size = compressBound(n);
        Bytef *stream = calloc(size + extra, 1);
        const char *blob;

        assert_int_equal(compress(stream, &size, (const Bytef *)text, n), Z_OK);
        blob = blob_of_bytes(stream, size + extra);
        free(stream);
        return blob;
}

static void refuse_blob(const char *blob, const char *detail)
{
        refuse_with("nixl_metadata", text_format("\"%s\"", blob), "/m/nixl_metadata", detail);
}

static void refuse_blob_text(const char *text, const char *detail)
{
        refuse_blob(close_blob(text, strlen(text), 0), detail);
}

/* The sample's blob with one of its keys set to another value, or taken out (json NULL). */
static void refuse_blob_with(const char *key, const char *json, const char *detail)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m), *inner;
        const char *text = open_blob(string_of(object, "nixl_metadata"));

        inner = keep_json(json_tokener_parse(text));
        assert_non_null(inner);
        if (json)
                set(inner, key, json);
        else
                json_object_object_del(inner, key);
        refuse_blob_text(json_object_to_json_string_ext(inner, PLAIN), detail);
}

/* ---- encoding ---- */

TEST(the_document_has_exactly_upstream_s_four_keys)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m), *descriptors = json_object_object_get(object, "descriptors");

        assert_int_equal(json_object_object_length(object), 4);
        assert_string_equal(json_object_to_json_string_ext(descriptors, PLAIN),
                            "[{\"device\":\"cpu\",\"ptr\":4294967296,\"size\":1048576},"
                            "{\"device\":\"cuda:0\",\"ptr\":17,\"size\":1}]");
        assert_int_equal(json_object_get_int(json_object_object_get(object, "operation_kind")), 1);
        assert_int_equal(strlen(string_of(object, "notification_key")), 43);
        assert_memory_equal(string_of(object, "nixl_metadata"), "b64:e", 5);
}

TEST(the_blob_is_base64_of_zlib_of_json)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);
        const char *text = open_blob(string_of(object, "nixl_metadata"));
        static const char start[] = "{\"protocol\":1,\"worker\":\"alpha\",\"epoch\":\"0123456789abcdef\","
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

TEST(the_same_metadata_give_the_same_document)
{
        struct ferry_metadata m = sample();
        const char *a = encode_text(&m), *b = encode_text(&m);

        assert_string_equal(a, b);
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

static unsigned calls_of_json_c;

struct json_object *__real_json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int size);
struct json_object *__wrap_json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int size);

struct json_object *__wrap_json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int size)
{
        calls_of_json_c++;
        return __real_json_tokener_parse_ex(tokener, text, size);
}

/* A thousand descriptors are a thousand trees to it, the blob one. */
TEST(of_what_a_worker_writes_json_c_reads_the_blob_alone)
{
        struct ferry_metadata m = sample();
        const char *text = encode_text(&m);

        calls_of_json_c = 0;
        read_back(text, &m);
        assert_int_equal(calls_of_json_c, 1);
}

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

TEST(the_other_kind_is_refused)
{
        refuse_with("operation_kind", "2", "/m/nixl_metadata", "do not belong together");
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
        refuse_with("descriptors", list, "/m/descriptors", "1 to 65536 elements");
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
        FOR_EACH_TEXT (other, "", "nixl", "[]", "1", "{}", "null", "{\"worker\":1}", "{\"protocol\":1,\"protocol\":1}",
                       "\"protocol\"")
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

TEST(a_blob_of_another_protocol_is_named_as_such)
{
        refuse_blob_text("{\"protocol\":2,\"other\":[]}", "of protocol 2, this worker speaks 1");
        refuse_blob_with("protocol", "2", "of protocol 2, this worker speaks 1");
        refuse_blob_with("protocol", "0", "of protocol 0");
        refuse_blob_with("protocol", "4294967297", "of protocol 4294967297");
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
