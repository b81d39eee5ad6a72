/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METADATA_FIXTURE_H
#define METADATA_FIXTURE_H

#include <json-c/json.h>
#include <zlib.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

#include "unit.h"
#include "unit_json.h"

/* Metadata to begin with, and what changes one part of them. */

#define PLAIN (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define EXACT FERRY_JSON_INTEGER_MAX

static struct ferry_metadata_descriptor two[] = {
        { .device = "cpu", .ptr = UINT64_C(4294967296), .size = 1048576 },
        { .device = "cuda:0", .ptr = 17, .size = 1 },
};

static inline struct ferry_metadata sample(void)
{
        struct ferry_metadata m = {
                .operation_kind = FERRY_METADATA_READ,
                .protocol = FERRY_PROTOCOL,
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

static inline struct json_object *encode(const struct ferry_metadata *m)
{
        struct ferry_json_writer writer = { 0 };

        assert_int_equal(ferry_metadata_encode(m, &writer), 0);
        return unit_json_read(&writer);
}

static inline const char *encode_text(const struct ferry_metadata *m)
{
        struct ferry_json_writer writer = { 0 };

        assert_int_equal(ferry_metadata_encode(m, &writer), 0);
        return text_keep(ferry_json_take(&writer, NULL));
}

/* object NULL = JSON's null. */
static inline int decode(struct json_object *object, const char *prefix, struct ferry_metadata **ret_metadata,
                         struct ferry_json_errors *errors)
{
        size_t size;
        const char *text = json_object_to_json_string_length(object, PLAIN, &size);

        return ferry_metadata_decode(text, size, prefix, ret_metadata, errors);
}

static inline const char *string_of(struct json_object *object, const char *key)
{
        return json_object_get_string(json_object_object_get(object, key));
}

static inline void set(struct json_object *object, const char *key, const char *json)
{
        assert_int_equal(json_object_object_add(object, key, json_tokener_parse(json)), 0);
}

/* Expects that object is refused with one complaint at pointer whose text has detail in it. */
static inline void refuse_as(int error, struct json_object *object, const char *pointer, const char *detail)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *m = (struct ferry_metadata *)&errors;

        assert_int_equal(decode(object, "/m", &m, &errors), error);
        assert_ptr_equal(m, &errors);
        assert_int_equal(errors.error, error);
        assert_int_equal(errors.n, 1);
        assert_string_equal(errors.items[0].pointer, pointer);
        if (!strstr(errors.items[0].detail, detail))
                fail_msg("\"%s\" does not say \"%s\"", errors.items[0].detail, detail);
}

static inline void refuse(struct json_object *object, const char *pointer, const char *detail)
{
        refuse_as(FERRY_E_INVALID_METADATA, object, pointer, detail);
}

/* The sample with one key set to another value. */
static inline void refuse_with(const char *key, const char *json, const char *pointer, const char *detail)
{
        struct ferry_metadata m = sample();
        struct json_object *object = encode(&m);

        set(object, key, json);
        refuse(object, pointer, detail);
}

static inline void assert_same(const struct ferry_metadata *a, const struct ferry_metadata *b)
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
static inline void read_back(const char *text, const struct ferry_metadata *m)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *back = NULL;

        if (ferry_metadata_decode(text, strlen(text), "", &back, &errors) != 0)
                fail_msg("%s: %s", errors.items[0].pointer, errors.items[0].detail);
        assert_int_equal(errors.n, 0);
        assert_same(m, back);
        assert_null(ferry_metadata_free(back));
}

static inline void round_trip(const struct ferry_metadata *m)
{
        const char *text = encode_text(m);

        read_back(text, m);
}

/* ---- the blob, by other means than the code under test ---- */

/* The text in a blob. */
static inline const char *open_blob(const char *blob)
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

static inline const char *blob_of_bytes(const void *bytes, size_t n)
{
        return text_format("b64:%s", text_keep(ferry_base64_encode(bytes, n)));
}

/* A blob of any text, compressed as zlib does by default, with extra bytes behind the stream. */
static inline const char *close_blob(const char *text, size_t n, size_t extra)
{
        uLongf size = compressBound(n);
        Bytef *stream = calloc(size + extra, 1);
        const char *blob;

        assert_int_equal(compress(stream, &size, (const Bytef *)text, n), Z_OK);
        blob = blob_of_bytes(stream, size + extra);
        free(stream);
        return blob;
}

static inline void refuse_blob(const char *blob, const char *detail)
{
        refuse_with("nixl_metadata", text_format("\"%s\"", blob), "/m/nixl_metadata", detail);
}

static inline void refuse_blob_text(const char *text, const char *detail)
{
        refuse_blob(close_blob(text, strlen(text), 0), detail);
}

/* The sample's blob with one of its keys set to another value, or taken out (json NULL). */
static inline void refuse_blob_with(const char *key, const char *json, const char *detail)
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

#endif
