/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/metadata.h>

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/util.h>

#include "metadata_blob.h"

/*
 * The metadata of an operation: the document with its four keys, and what both directions hold it against. The blob
 * within it is metadata_blob.c's. A document is decoded whole or not at all; whatever is wrong with it is
 * FERRY_E_INVALID_METADATA, but for another protocol and a lack of memory. Any thread; the struct is a secret.
 */

enum { FOREIGN_KEY_MAX = 256 /* bytes; longer than ours, so that the blob tells whose the metadata are */ };

/* Upstream's RdmaMetadata. */
struct document {
        struct json_object *descriptors;
        const char *nixl_metadata, *notification_key;
        uint64_t operation_kind;
};

static const struct ferry_json_field document_fields[] = {
        { "descriptors", FERRY_JSON_ARRAY, true, offsetof(struct document, descriptors), 1, FERRY_METADATA_DESCRIPTORS,
          NULL },
        { "nixl_metadata", FERRY_JSON_STRING, true, offsetof(struct document, nixl_metadata), 1, METADATA_BLOB_MAX - 1,
          NULL },
        { "notification_key", FERRY_JSON_STRING, true, offsetof(struct document, notification_key), 1, FOREIGN_KEY_MAX,
          NULL },
        { "operation_kind", FERRY_JSON_UINT, true, offsetof(struct document, operation_kind), FERRY_METADATA_READ,
          FERRY_METADATA_WRITE, NULL },
};

static const struct ferry_json_field descriptor_fields[] = {
        { "device", FERRY_JSON_TEXT, true, offsetof(struct ferry_metadata_descriptor, device), 1,
          FERRY_METADATA_DEVICE_SIZE - 1, NULL },
        { "ptr", FERRY_JSON_UINT, true, offsetof(struct ferry_metadata_descriptor, ptr), 1, 0, NULL },
        { "size", FERRY_JSON_UINT, true, offsetof(struct ferry_metadata_descriptor, size), 1, 0, NULL },
};

bool ferry_metadata_is_name(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_");

        return n > 0 && n < FERRY_METADATA_NAME_SIZE && text[n] == '\0';
}

struct ferry_metadata *ferry_metadata_free(struct ferry_metadata *m)
{
        if (!m)
                return NULL;
        free(m->descriptors);
        explicit_bzero(m, sizeof(*m));
        free(m);
        return NULL;
}

/* ---- what both directions hold a document against ---- */

/* Whether a text has the form of a device's name ("cpu", "cuda:0"). The worker knows which devices exist. */
static bool is_device(const char *text, size_t size)
{
        size_t n = strnlen(text, size);

        for (size_t i = 0; i < n; i++)
                if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
                      (text[i] >= '0' && text[i] <= '9') || strchr(":._-", text[i])))
                        return false;
        return n > 0 && n < size;
}

/* Whether a JSON number has the value exactly. 0 is no handle and no size. */
static bool is_exact(uint64_t number)
{
        return number > 0 && number <= FERRY_JSON_INTEGER_MAX;
}

/* The sum of the sizes is a JSON integer as well: bytes_total. */
static bool is_total_exact(const struct ferry_metadata *m)
{
        uint64_t total = 0;

        for (size_t i = 0; i < m->n_descriptors; i++)
                if (__builtin_add_overflow(total, m->descriptors[i].size, &total) || total > FERRY_JSON_INTEGER_MAX)
                        return false;
        return true;
}

static bool is_valid(const struct ferry_metadata *m)
{
        if ((m->operation_kind != FERRY_METADATA_READ && m->operation_kind != FERRY_METADATA_WRITE) ||
            m->n_descriptors == 0 || m->n_descriptors > FERRY_METADATA_DESCRIPTORS)
                return false;
        for (size_t i = 0; i < m->n_descriptors; i++) {
                const struct ferry_metadata_descriptor *d = &m->descriptors[i];

                if (!is_device(d->device, sizeof(d->device)) || !is_exact(d->ptr) || !is_exact(d->size))
                        return false;
        }
        return is_total_exact(m) && metadata_blob_valid(m);
}

/* ---- encoding ---- */

static void encode_descriptors(const struct ferry_metadata *m, struct ferry_json_writer *writer)
{
        ferry_json_open_array(writer, "descriptors");
        for (size_t i = 0; i < m->n_descriptors; i++) {
                const struct ferry_metadata_descriptor *d = &m->descriptors[i];

                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "device", d->device);
                ferry_json_add_uint(writer, "ptr", d->ptr);
                ferry_json_add_uint(writer, "size", d->size);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

int ferry_metadata_encode(const struct ferry_metadata *m, struct ferry_json_writer *writer)
{
        char key[FERRY_KEY_TEXT_SIZE], *blob;

        if (!is_valid(m))
                return -EINVAL;
        blob = metadata_blob_encode(m);
        if (!blob)
                return -ENOMEM;
        ferry_key_format(m->key, key);
        ferry_json_begin_object(writer);
        encode_descriptors(m, writer);
        ferry_json_add_string(writer, "nixl_metadata", blob);
        ferry_json_add_string(writer, "notification_key", key);
        ferry_json_add_uint(writer, "operation_kind", (uint64_t)m->operation_kind);
        ferry_json_end_object(writer);
        explicit_bzero(key, sizeof(key));
        free(blob);
        return writer->failed ? -ENOMEM : 0;
}

/* ---- decoding ---- */

/* Complains at prefix + rest. Returns the error. */
static int refuse_as(int error, struct ferry_json_errors *errors, const char *prefix, const char *rest,
                     const char *detail)
{
        char pointer[FERRY_JSON_POINTER_SIZE + 32];

        (void)snprintf(pointer, sizeof(pointer), "%s%s", prefix, rest);
        ferry_json_complain(errors, error, pointer, "%s", detail);
        return error;
}

static int refuse(struct ferry_json_errors *errors, const char *prefix, const char *rest, const char *detail)
{
        return refuse_as(FERRY_E_INVALID_METADATA, errors, prefix, rest, detail);
}

static int decode_descriptor(struct json_object *object, const char *list, size_t i, struct ferry_metadata *m,
                             struct ferry_json_errors *errors)
{
        struct ferry_metadata_descriptor *d = &m->descriptors[i];
        char rest[32];

        if (!ferry_json_decode_element(object, descriptor_fields, FERRY_ARRAY_SIZE(descriptor_fields), d, list, i,
                                       errors))
                return FERRY_E_INVALID_METADATA;
        if (is_device(d->device, sizeof(d->device)))
                return 0;
        (void)snprintf(rest, sizeof(rest), "/%zu/device", i);
        return refuse(errors, list, rest, "expected the name of a device");
}

/* Stops when there is no room for more complaints. */
static int decode_descriptors(struct json_object *array, const char *prefix, struct ferry_metadata *m,
                              struct ferry_json_errors *errors)
{
        char list[FERRY_JSON_POINTER_SIZE];
        int result = 0;

        (void)snprintf(list, sizeof(list), "%s/descriptors", prefix);
        m->n_descriptors = json_object_array_length(array);
        m->descriptors = calloc(m->n_descriptors, sizeof(*m->descriptors));
        if (!m->descriptors)
                return -ENOMEM;
        for (size_t i = 0; i < m->n_descriptors && errors->n < FERRY_JSON_ERRORS; i++) {
                int r = decode_descriptor(json_object_array_get_idx(array, i), list, i, m, errors);

                result = result ?: r;
        }
        if (!result && !is_total_exact(m))
                return refuse(errors, prefix, "/descriptors", "the sizes add up to more than 2^53 - 1");
        return result;
}

/* The blob is read before anything else, for its protocol; what else is wrong with it is said last. */
static int decode(struct json_object *object, const char *prefix, struct ferry_metadata *m,
                  struct ferry_json_errors *errors)
{
        struct json_object *blob = json_object_object_get(object, "nixl_metadata");
        struct document d = { 0 };
        char detail[FERRY_JSON_DETAIL_SIZE] = "";
        uint64_t digest = 0;
        int r, blob_r = FERRY_E_INVALID_METADATA;

        if (json_object_is_type(blob, json_type_string))
                blob_r = metadata_blob_read(json_object_get_string(blob), m, &digest, detail);
        if (blob_r == FERRY_E_PROTOCOL_MISMATCH)
                return refuse_as(blob_r, errors, prefix, "/nixl_metadata", detail);
        if (blob_r < 0)
                return blob_r;
        if (!ferry_json_decode(object, document_fields, FERRY_ARRAY_SIZE(document_fields), &d, prefix, errors))
                return FERRY_E_INVALID_METADATA;
        m->operation_kind = (int)d.operation_kind;
        r = decode_descriptors(d.descriptors, prefix, m, errors);
        if (r)
                return r;
        r = blob_r ?: metadata_blob_compare(d.nixl_metadata, m, digest, detail);
        if (r)
                return r > 0 ? refuse(errors, prefix, "/nixl_metadata", detail) : r;
        if (!ferry_key_parse(d.notification_key, m->key))
                return refuse(errors, prefix, "/notification_key", "expected 256 bits of base64url without padding");
        return 0;
}

int ferry_metadata_read(struct json_object *object, const char *pointer_prefix, struct ferry_metadata **ret_metadata,
                        struct ferry_json_errors *errors)
{
        /* A list of its own: whatever is wrong, to the caller it is the metadata that is not valid. */
        struct ferry_json_errors own = { 0 };
        struct ferry_metadata *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return -ENOMEM;
        r = decode(object, pointer_prefix, m, &own);
        if (r == 0) {
                *ret_metadata = m;
                return 0;
        }
        (void)ferry_metadata_free(m);
        for (size_t i = 0; i < own.n; i++)
                ferry_json_complain(errors, r > 0 ? r : FERRY_E_INVALID_METADATA, own.items[i].pointer, "%s",
                                    own.items[i].detail);
        return r;
}

int ferry_metadata_decode(const char *text, size_t size, const char *pointer_prefix,
                          struct ferry_metadata **ret_metadata, struct ferry_json_errors *errors)
{
        struct ferry_json_errors own = { 0 };
        struct json_object *object = NULL;
        int r = ferry_json_parse(text, size, &object, &own);

        if (r > 0)
                return refuse(errors, "", "", own.items[0].detail);
        if (r == 0)
                r = ferry_metadata_read(object, pointer_prefix, ret_metadata, errors);
        json_object_put(object);
        return r;
}
