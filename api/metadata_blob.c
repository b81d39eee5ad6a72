/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_blob.h"

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
#include <ferry/json_write.h>
#include <ferry/util.h>

/*
 * "b64:" + base64 of a zlib stream of one JSON document. Every worker makes the same bytes of the same metadata, so
 * that a reader finds any change by making them again. That is why the stream is one stored block (a compressor has
 * many ways to say the same, and its versions differ) and the document has one form. Nothing is lost by it:
 * keys and identifiers do not compress.
 */
static const char prefix[] = "b64:";

enum {
        DOCUMENT_SIZE = 2048, /* of ours; the names alone are below 900 bytes, the rest below 200 */
        INFLATED_MAX = 64 << 10,
        ZLIB_HEAD = 2 + 5,          /* header, head of the stored block */
        ZLIB_FRAME = ZLIB_HEAD + 4, /* and the checksum */
};
_Static_assert(FERRY_METADATA_NAME_SIZE + FERRY_METADATA_ADDRESS_SIZE + FERRY_METADATA_URL_SIZE < DOCUMENT_SIZE - 512,
               "a document fits");

struct blob {
        uint64_t protocol, expires;
        const char *worker, *epoch, *operation, *data, *http, *digest;
};

/* clang-format off */
#define BLOB(json_type, member, least, most)                                                                           \
        { #member, FERRY_JSON_##json_type, true, offsetof(struct blob, member), (least), (most), NULL }
/* clang-format on */

static const struct ferry_json_field fields[] = {
        BLOB(UINT, protocol, 1, UINT32_MAX),
        BLOB(STRING, worker, 0, FERRY_METADATA_NAME_SIZE - 1),
        BLOB(STRING, epoch, 16, 16),
        BLOB(STRING, operation, 16, 16),
        BLOB(STRING, data, 0, FERRY_METADATA_ADDRESS_SIZE - 1),
        BLOB(STRING, http, 0, FERRY_METADATA_URL_SIZE - 1),
        BLOB(UINT, expires, 0, 0),
        BLOB(STRING, digest, 16, 16),
};

/* Printable ASCII, without what would need an escape in JSON. */
static bool is_plain(const char *text, size_t size)
{
        size_t n = strnlen(text, size);

        for (size_t i = 0; i < n; i++)
                if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
                        return false;
        return n < size;
}

static bool is_http_url(const char *text)
{
        return !*text || strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

bool metadata_blob_valid(const struct ferry_metadata *m)
{
        return m->protocol == FERRY_PROTOCOL && m->epoch != 0 && m->operation != 0 &&
               m->expires_ms <= FERRY_JSON_INTEGER_MAX && is_plain(m->worker, sizeof(m->worker)) &&
               is_plain(m->data, sizeof(m->data)) && is_plain(m->http, sizeof(m->http)) && is_http_url(m->http);
}

/* ---- digest: ties the blob to the descriptors and the kind that it came with. Not to the key, which its owner
 * checks ---- */

static void digest_number(XXH3_state_t *state, uint64_t number)
{
        uint8_t bytes[8];

        for (unsigned i = 0; i < sizeof(bytes); i++)
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
        digest_text(&state, m->worker);
        digest_number(&state, m->epoch);
        digest_number(&state, m->operation);
        digest_text(&state, m->data);
        digest_text(&state, m->http);
        digest_number(&state, m->expires_ms);
        digest_number(&state, (uint64_t)m->operation_kind);
        digest_number(&state, m->n_descriptors);
        for (size_t i = 0; i < m->n_descriptors; i++) {
                digest_text(&state, m->descriptors[i].device);
                digest_number(&state, m->descriptors[i].ptr);
                digest_number(&state, m->descriptors[i].size);
        }
        return XXH3_64bits_digest(&state);
}

/* ---- encoding ---- */

/* One stored block of RFC 1951 in the frame of RFC 1950. */
static size_t store(const char *text, size_t n, uint8_t out[])
{
        uint32_t sum = (uint32_t)adler32(adler32(0, NULL, 0), (const Bytef *)text, (uInt)n);
        const uint8_t head[] = { 0x78, 0x01, 0x01, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n, (uint8_t)(~n >> 8) };

        memcpy(out, head, sizeof(head));
        memcpy(out + sizeof(head), text, n);
        for (size_t i = 0; i < 4; i++)
                out[sizeof(head) + n + i] = (uint8_t)(sum >> (24 - 8 * i));
        return n + ZLIB_FRAME;
}

static void write_document(const struct ferry_metadata *m, struct ferry_json_writer *writer)
{
        ferry_json_begin_object(writer);
        ferry_json_add_uint(writer, "protocol", m->protocol);
        ferry_json_add_string(writer, "worker", m->worker);
        ferry_json_add_id(writer, "epoch", "", m->epoch);
        ferry_json_add_id(writer, "operation", "", m->operation);
        ferry_json_add_string(writer, "data", m->data);
        ferry_json_add_string(writer, "http", m->http);
        ferry_json_add_uint(writer, "expires", m->expires_ms);
        ferry_json_add_id(writer, "digest", "", digest(m));
        ferry_json_end_object(writer);
}

/* Makes the zlib stream of a blob; returns its size in bytes, 0 when memory is short. */
static size_t make_stream(const struct ferry_metadata *m, uint8_t stream[DOCUMENT_SIZE + ZLIB_FRAME])
{
        struct ferry_json_writer writer = { 0 };
        char *document;
        size_t n;

        write_document(m, &writer);
        document = ferry_json_take(&writer, &n);
        if (!document)
                return 0;
        n = store(document, n, stream);
        free(document);
        return n;
}

char *metadata_blob_encode(const struct ferry_metadata *m)
{
        uint8_t stream[DOCUMENT_SIZE + ZLIB_FRAME];
        char *base64, *text = NULL;
        size_t n = make_stream(m, stream);

        base64 = n ? ferry_base64_encode(stream, n) : NULL;
        if (base64)
                text = malloc(sizeof(prefix) + strlen(base64));
        if (text)
                stpcpy(stpcpy(text, prefix), base64);
        free(base64);
        return text;
}

/* ---- why a blob is refused ---- */

#define FOREIGN "the blob does not come from a Ferry worker"
#define FOREIGN_NIXL "the blob comes from a NIXL agent: only the metadata of a Ferry worker can be used here"
static const char nixl_mark[] = "nixlSerDes"; /* begins what an agent serializes */

static int refuse(char detail[FERRY_JSON_DETAIL_SIZE], const char *text)
{
        (void)snprintf(detail, FERRY_JSON_DETAIL_SIZE, "%s", text);
        return FERRY_E_INVALID_METADATA;
}

/* The document within a blob. Takes any compression, which a blob of another protocol may have. */
static int unpack(const char *text, char **ret_document, size_t *ret_size, char detail[FERRY_JSON_DETAIL_SIZE])
{
        size_t n = strlen(prefix), size;
        uLongf inflated, room;
        uLong used;
        void *stream;
        char *document;
        int r;

        if (strncmp(text, prefix, n) != 0)
                return refuse(detail, "the blob does not begin with b64:");
        r = ferry_base64_decode(text + n, strlen(text + n), &stream, &size);
        if (r == -ENOMEM)
                return r;
        if (r)
                return refuse(detail, "the blob is not base64");
        /* The document of a stored stream, as workers write it, is shorter than the stream. */
        for (room = size < INFLATED_MAX ? size : INFLATED_MAX;; room = INFLATED_MAX) {
                inflated = room;
                used = size;
                document = malloc(room);
                r = document ? uncompress2((Bytef *)document, &inflated, stream, &used) : Z_MEM_ERROR;
                if (r != Z_BUF_ERROR || room == INFLATED_MAX)
                        break;
                free(document);
        }
        free(stream);
        if (r == Z_OK && used == size) {
                *ret_document = document;
                *ret_size = inflated;
                return 0;
        }
        free(document);
        return r == Z_MEM_ERROR ? -ENOMEM : refuse(detail, "the blob is not one zlib stream of bounded size");
}

/* Fills m from the blob's document. false: it is not as a worker of this protocol writes it. */
static bool take_fields(struct json_object *document, struct ferry_metadata *m, uint64_t *ret_digest)
{
        struct ferry_json_errors errors = { 0 };
        struct blob blob = { 0 };

        if (!ferry_json_decode(document, fields, FERRY_ARRAY_SIZE(fields), &blob, "", &errors) ||
            !ferry_id_parse("", blob.epoch, &m->epoch) || !ferry_id_parse("", blob.operation, &m->operation) ||
            strspn(blob.digest, "0123456789abcdef") != 16)
                return false;
        *ret_digest = strtoull(blob.digest, NULL, 16);
        m->protocol = (uint32_t)blob.protocol;
        m->expires_ms = blob.expires;
        memcpy(m->worker, blob.worker, strlen(blob.worker) + 1);
        memcpy(m->data, blob.data, strlen(blob.data) + 1);
        memcpy(m->http, blob.http, strlen(blob.http) + 1);
        return metadata_blob_valid(m);
}

/* The JSON document of a blob, for json_object_put(). Returns 0; FERRY_E_INVALID_METADATA with detail; -ENOMEM. */
static int open_document(const char *text, struct json_object **ret_document, char detail[FERRY_JSON_DETAIL_SIZE])
{
        struct ferry_json_errors errors = { 0 };
        char *json;
        size_t size;
        int r = unpack(text, &json, &size, detail);

        if (r)
                return r;
        r = ferry_json_parse(json, size, ret_document, &errors);
        if (r > 0)
                r = refuse(detail, memmem(json, size, nixl_mark, strlen(nixl_mark)) ? FOREIGN_NIXL : FOREIGN);
        free(json);
        return r;
}

int metadata_blob_read(const char *text, struct ferry_metadata *m, uint64_t *ret_digest,
                       char ret_detail[FERRY_JSON_DETAIL_SIZE])
{
        struct json_object *document = NULL;
        uint64_t protocol;
        int r = open_document(text, &document, ret_detail);

        if (r)
                return r;
        if (ferry_json_get_uint(json_object_object_get(document, "protocol"), &protocol) &&
            ferry_protocol_differs(FERRY_PROTOCOL, protocol, ret_detail, FERRY_JSON_DETAIL_SIZE))
                r = FERRY_E_PROTOCOL_MISMATCH;
        else if (!take_fields(document, m, ret_digest))
                r = refuse(ret_detail, FOREIGN);
        json_object_put(document);
        return r;
}

int metadata_blob_compare(const char *text, const struct ferry_metadata *m, uint64_t said,
                          char ret_detail[FERRY_JSON_DETAIL_SIZE])
{
        char *again = metadata_blob_encode(m);
        bool same;

        if (!again)
                return -ENOMEM;
        same = strcmp(again, text) == 0;
        free(again);
        if (same)
                return 0;
        if (said != digest(m))
                return refuse(ret_detail,
                              "the blob and the rest do not belong together: pass metadata on as it was fetched");
        return refuse(ret_detail, "the blob is not as a Ferry worker writes it: pass it on as it was fetched");
}
