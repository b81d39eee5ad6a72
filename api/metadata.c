/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* the state's struct, to have it on the stack */
#include <xxhash.h>
#include <zlib.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

#define BLOB_PREFIX "b64:"

enum { BLOB_TEXT_MAX = 64 << 10 };

/* The blob's JSON document: what a peer needs beside upstream's keys. */
struct blob {
        uint64_t protocol;
        const char *worker, *epoch, *operation, *data, *http, *digest;
        uint64_t expires;
};

#define BLOB(json_type, member, least, most)                                                                           \
        {                                                                                                              \
                .name = #member, .type = FERRY_JSON_##json_type, .required = true,                                     \
                .offset = offsetof(struct blob, member), .min = (least), .max = (most)                                 \
        }

static const struct ferry_json_field blob_fields[] = {
        BLOB(UINT, protocol, 1, UINT32_MAX),
        BLOB(STRING, worker, 0, FERRY_METADATA_NAME_SIZE - 1),
        BLOB(STRING, epoch, 16, 16),
        BLOB(STRING, operation, 16, 16),
        BLOB(STRING, data, 0, FERRY_METADATA_ADDRESS_SIZE - 1),
        BLOB(STRING, http, 0, FERRY_METADATA_URL_SIZE - 1),
        BLOB(UINT, expires, 0, FERRY_JSON_INTEGER_MAX),
        BLOB(STRING, digest, 16, 16),
};

/* The document around it: upstream's RdmaMetadata. */
struct document {
        struct json_object *descriptors;
        const char *nixl_metadata, *notification_key;
        uint64_t operation_kind;
};

static const struct ferry_json_field document_fields[] = {
        { "descriptors", FERRY_JSON_ARRAY, true, offsetof(struct document, descriptors), 1, FERRY_METADATA_DESCRIPTORS,
          NULL },
        { "nixl_metadata", FERRY_JSON_STRING, true, offsetof(struct document, nixl_metadata), 8, BLOB_TEXT_MAX, NULL },
        { "notification_key", FERRY_JSON_STRING, true, offsetof(struct document, notification_key),
          FERRY_KEY_TEXT_SIZE - 1, FERRY_KEY_TEXT_SIZE - 1, NULL },
        { "operation_kind", FERRY_JSON_UINT, true, offsetof(struct document, operation_kind), FERRY_METADATA_READ,
          FERRY_METADATA_WRITE, NULL },
};

struct descriptor {
        const char *device;
        uint64_t ptr, size;
};

static const struct ferry_json_field descriptor_fields[] = {
        { "device", FERRY_JSON_STRING, true, offsetof(struct descriptor, device), 1, FERRY_METADATA_DEVICE_SIZE - 1,
          NULL },
        { "ptr", FERRY_JSON_UINT, true, offsetof(struct descriptor, ptr), 1, FERRY_JSON_INTEGER_MAX, NULL },
        { "size", FERRY_JSON_UINT, true, offsetof(struct descriptor, size), 1, FERRY_JSON_INTEGER_MAX, NULL },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct ferry_metadata *ferry_metadata_free(struct ferry_metadata *m)
{
        if (!m)
                return NULL;
        free(m->descriptors);
        explicit_bzero(m, sizeof(*m));
        free(m);
        return NULL;
}

/* ---- digest: finds a document that was changed on its way. Not the key: a wrong one is found by its owner ---- */

static void digest_number(XXH3_state_t *state, uint64_t number)
{
        uint8_t bytes[8];

        for (int i = 0; i < 8; i++)
                bytes[i] = (uint8_t)(number >> (8 * i));
        (void)XXH3_64bits_update(state, bytes, sizeof(bytes));
}

static void digest_text(XXH3_state_t *state, const char *text)
{
        (void)XXH3_64bits_update(state, text, strlen(text) + 1);
}

static uint64_t digest(const struct ferry_metadata *m)
{
        XXH3_state_t state;

        (void)XXH3_64bits_reset(&state);
        digest_number(&state, m->protocol);
        digest_number(&state, (uint64_t)m->operation_kind);
        digest_text(&state, m->worker);
        digest_number(&state, m->epoch);
        digest_number(&state, m->operation);
        digest_text(&state, m->data);
        digest_text(&state, m->http);
        digest_number(&state, m->expires_ms);
        for (size_t i = 0; i < m->n_descriptors; i++) {
                digest_text(&state, m->descriptors[i].device);
                digest_number(&state, m->descriptors[i].ptr);
                digest_number(&state, m->descriptors[i].size);
        }
        return XXH3_64bits_digest(&state);
}

static bool is_printable(const char *text)
{
        for (; *text; text++)
                if (*text <= ' ' || *text > '~')
                        return false;
        return true;
}

static bool is_http_url(const char *text)
{
        return *text == '\0' ||
               (is_printable(text) && (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0));
}

/* ---- encoding ---- */

static bool add(struct json_object *object, const char *key, struct json_object *value)
{
        if (value && json_object_object_add(object, key, value) == 0)
                return true;
        json_object_put(value);
        return false;
}

static struct json_object *hex(uint64_t number)
{
        char text[17];

        (void)snprintf(text, sizeof(text), "%016" PRIx64, number);
        return json_object_new_string(text);
}

/* zlib and base64 of a text, with the prefix; NULL when memory is short. */
static char *pack(const char *text)
{
        uLong room = compressBound(strlen(text)), size = room;
        Bytef *packed = malloc(room);
        char *base64 = NULL, *result = NULL;

        if (packed && compress2(packed, &size, (const Bytef *)text, strlen(text), Z_BEST_COMPRESSION) == Z_OK)
                base64 = ferry_base64_encode(packed, size);
        if (base64 && asprintf(&result, BLOB_PREFIX "%s", base64) < 0)
                result = NULL;
        free(base64);
        free(packed);
        return result;
}

static struct json_object *encode_blob(const struct ferry_metadata *m)
{
        struct json_object *object = json_object_new_object(), *result = NULL;
        char *text;

        if (object && add(object, "protocol", json_object_new_int64(m->protocol)) &&
            add(object, "worker", json_object_new_string(m->worker)) && add(object, "epoch", hex(m->epoch)) &&
            add(object, "operation", hex(m->operation)) && add(object, "data", json_object_new_string(m->data)) &&
            add(object, "http", json_object_new_string(m->http)) &&
            add(object, "expires", json_object_new_int64((int64_t)m->expires_ms)) &&
            add(object, "digest", hex(digest(m)))) {
                text = pack(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
                if (text)
                        result = json_object_new_string(text);
                free(text);
        }
        json_object_put(object);
        return result;
}

static struct json_object *encode_descriptors(const struct ferry_metadata *m)
{
        struct json_object *array = json_object_new_array_ext((int)m->n_descriptors);

        for (size_t i = 0; array && i < m->n_descriptors; i++) {
                struct json_object *item = json_object_new_object();

                if (!item || !add(item, "device", json_object_new_string(m->descriptors[i].device)) ||
                    !add(item, "ptr", json_object_new_int64((int64_t)m->descriptors[i].ptr)) ||
                    !add(item, "size", json_object_new_int64((int64_t)m->descriptors[i].size)) ||
                    json_object_array_add(array, item) != 0) {
                        json_object_put(item);
                        json_object_put(array);
                        return NULL;
                }
        }
        return array;
}

static bool is_valid(const struct ferry_metadata *m)
{
        if ((m->operation_kind != FERRY_METADATA_READ && m->operation_kind != FERRY_METADATA_WRITE) ||
            m->protocol != FERRY_METADATA_PROTOCOL || m->epoch == 0 || m->operation == 0 || m->n_descriptors == 0 ||
            m->n_descriptors > FERRY_METADATA_DESCRIPTORS || m->expires_ms > FERRY_JSON_INTEGER_MAX ||
            !is_printable(m->data) || !is_http_url(m->http))
                return false;
        for (size_t i = 0; i < m->n_descriptors; i++)
                if (m->descriptors[i].ptr == 0 || m->descriptors[i].ptr > FERRY_JSON_INTEGER_MAX ||
                    m->descriptors[i].size == 0 || m->descriptors[i].size > FERRY_JSON_INTEGER_MAX)
                        return false;
        return true;
}

int ferry_metadata_encode(const struct ferry_metadata *m, struct json_object **ret_object)
{
        struct json_object *object;
        char key[FERRY_KEY_TEXT_SIZE];
        bool good;

        if (!is_valid(m))
                return -EINVAL;
        object = json_object_new_object();
        if (!object)
                return -ENOMEM;
        ferry_key_format(m->key, key);
        good = add(object, "descriptors", encode_descriptors(m)) && add(object, "nixl_metadata", encode_blob(m)) &&
               add(object, "notification_key", json_object_new_string(key)) &&
               add(object, "operation_kind", json_object_new_int(m->operation_kind));
        explicit_bzero(key, sizeof(key));
        if (!good) {
                json_object_put(object);
                return -ENOMEM;
        }
        *ret_object = object;
        return 0;
}

/* ---- decoding ---- */

/* The text in the blob, for free(); NULL when it is not canonical base64 of exactly one zlib stream of bounded size. */
static char *unpack(const char *blob, size_t *ret_size)
{
        size_t n = strlen(BLOB_PREFIX), packed_size;
        char *text = malloc(BLOB_TEXT_MAX);
        void *packed = NULL;
        z_stream z = { .next_out = (Bytef *)text, .avail_out = BLOB_TEXT_MAX };
        bool good = false;

        if (text && strncmp(blob, BLOB_PREFIX, n) == 0 &&
            ferry_base64_decode(blob + n, strlen(blob + n), &packed, &packed_size) == 0 && packed_size > 0 &&
            inflateInit(&z) == Z_OK) {
                z.next_in = packed;
                z.avail_in = (uInt)packed_size;
                good = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0;
                *ret_size = z.total_out;
                (void)inflateEnd(&z);
        }
        free(packed);
        if (good)
                return text;
        free(text);
        return NULL;
}

static bool decode_descriptors(struct json_object *array, const char *prefix, struct ferry_metadata *m,
                               struct ferry_json_errors *errors)
{
        size_t n = json_object_array_length(array);
        char pointer[FERRY_JSON_POINTER_SIZE];

        m->descriptors = calloc(n, sizeof(*m->descriptors));
        if (!m->descriptors)
                return false;
        m->n_descriptors = n;
        for (size_t i = 0; i < n; i++) {
                struct descriptor d = { 0 };

                (void)snprintf(pointer, sizeof(pointer), "%s/descriptors/%zu", prefix, i);
                if (!ferry_json_decode(json_object_array_get_idx(array, i), descriptor_fields, COUNT(descriptor_fields),
                                       &d, pointer, errors))
                        return false;
                if (!is_printable(d.device)) {
                        ferry_json_complain(errors, FERRY_E_INVALID_METADATA, pointer, "the device is not a name");
                        return false;
                }
                (void)snprintf(m->descriptors[i].device, sizeof(m->descriptors[i].device), "%s", d.device);
                m->descriptors[i].ptr = d.ptr;
                m->descriptors[i].size = d.size;
        }
        return true;
}

static bool parse_hex(const char *text, uint64_t *ret_number)
{
        return ferry_id_parse("", text, ret_number);
}

/* Takes over the blob's fields. Says nothing about their content: whoever changed them knows. */
static bool decode_blob(const char *text, struct ferry_metadata *m, uint64_t *ret_digest,
                        struct ferry_json_errors *blob_errors)
{
        struct blob b = { 0 };
        size_t size;
        char *json = unpack(text, &size);
        struct json_object *object = NULL;
        bool good;

        if (!json)
                return false;
        good = ferry_json_parse(json, size, &object, blob_errors) == 0 &&
               ferry_json_decode(object, blob_fields, COUNT(blob_fields), &b, "", blob_errors) &&
               parse_hex(b.epoch, &m->epoch) && parse_hex(b.operation, &m->operation) &&
               parse_hex(b.digest, ret_digest) && is_printable(b.data) && is_http_url(b.http);
        if (good) {
                m->protocol = (uint32_t)b.protocol;
                m->expires_ms = b.expires;
                (void)snprintf(m->worker, sizeof(m->worker), "%s", b.worker);
                (void)snprintf(m->data, sizeof(m->data), "%s", b.data);
                (void)snprintf(m->http, sizeof(m->http), "%s", b.http);
        }
        json_object_put(object);
        free(json);
        return good;
}

static bool decode(struct json_object *object, const char *prefix, struct ferry_metadata *m,
                   struct ferry_json_errors *errors)
{
        struct ferry_json_errors blob_errors = { 0 };
        struct document d = { 0 };
        char pointer[FERRY_JSON_POINTER_SIZE];
        uint64_t said;

        if (!ferry_json_decode(object, document_fields, COUNT(document_fields), &d, prefix, errors))
                return false;
        m->operation_kind = (int)d.operation_kind;
        if (!ferry_key_parse(d.notification_key, m->key)) {
                (void)snprintf(pointer, sizeof(pointer), "%s/notification_key", prefix);
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, pointer,
                                    "must be 256 bits of base64url without padding");
                return false;
        }
        if (!decode_descriptors(d.descriptors, prefix, m, errors))
                return false;
        (void)snprintf(pointer, sizeof(pointer), "%s/nixl_metadata", prefix);
        if (!decode_blob(d.nixl_metadata, m, &said, &blob_errors)) {
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, pointer,
                                    "is not a blob that a Ferry worker made");
                return false;
        }
        if (m->protocol != FERRY_METADATA_PROTOCOL) {
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, pointer,
                                    "speaks protocol %u; this worker speaks %d", m->protocol, FERRY_METADATA_PROTOCOL);
                return false;
        }
        if (digest(m) != said) {
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, prefix,
                                    "was changed since the worker made it: fetch it again and pass it on as it is");
                return false;
        }
        return true;
}

int ferry_metadata_decode(struct json_object *object, const char *pointer_prefix, struct ferry_metadata **ret_metadata,
                          struct ferry_json_errors *errors)
{
        struct ferry_metadata *m = calloc(1, sizeof(*m));
        size_t complaints = errors->n;

        if (!m)
                return -ENOMEM;
        if (decode(object, pointer_prefix, m, errors)) {
                *ret_metadata = m;
                return 0;
        }
        (void)ferry_metadata_free(m);
        if (errors->n == complaints && complaints < FERRY_JSON_ERRORS)
                return -ENOMEM;
        /* Whatever is wrong in it, to the caller it is the metadata that is not valid. */
        if (complaints == 0)
                errors->error = FERRY_E_INVALID_METADATA;
        return FERRY_E_INVALID_METADATA;
}
