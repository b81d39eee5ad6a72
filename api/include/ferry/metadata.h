/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_METADATA_H
#define FERRY_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>
#include <ferry/protocol.h>

struct ferry_json_errors;
struct ferry_json_writer;
struct json_object;

/*
 * The metadata of a passive operation: upstream's RdmaMetadata, exactly four keys. It is a secret, because
 * notification_key is the authority to complete the operation. Any thread.
 */

enum {
        FERRY_METADATA_READ = 1,  /* operation_kind of a readable */
        FERRY_METADATA_WRITE = 2, /* operation_kind of a writable */
        FERRY_METADATA_NAME_SIZE = 64,
        FERRY_METADATA_ADDRESS_SIZE = 280, /* [host]:port */
        FERRY_METADATA_URL_SIZE = 512,
        FERRY_METADATA_DESCRIPTORS = 1 << 18,
        FERRY_METADATA_DEVICE_SIZE = 16,
};

struct ferry_metadata_descriptor {
        char device[FERRY_METADATA_DEVICE_SIZE];
        uint64_t ptr; /* an opaque non-zero handle, never an address */
        uint64_t size;
};

struct ferry_metadata {
        int operation_kind; /* FERRY_METADATA_READ or _WRITE */
        uint8_t key[FERRY_KEY_SIZE];

        /* from the blob */
        uint32_t protocol;
        char worker[FERRY_METADATA_NAME_SIZE];
        uint64_t epoch;
        uint64_t operation;
        char data[FERRY_METADATA_ADDRESS_SIZE]; /* host:port of the UCX network transport; "" = it is not open */
        char http[FERRY_METADATA_URL_SIZE];     /* base URL of the worker's HTTP server */
        uint64_t expires_ms;                    /* Unix time in milliseconds; 0 = never */

        size_t n_descriptors;
        struct ferry_metadata_descriptor *descriptors; /* owned */
};

/*
 * Whether a text may name a worker: 1 to 63 letters, digits, '.', '-' and '_'. It stands in metadata, log lines and
 * links as it is.
 */
bool ferry_metadata_is_name(const char *text);

/*
 * Writes the JSON document of m. The blob is "b64:" + base64 of zlib of a small JSON document; it also holds a digest
 * (XXH3-64) of the descriptors and the kind, so that a document changed on its way, but for the key, is refused by
 * whoever decodes it. worker, data and http must be printable ASCII without white space, quotes and backslashes; the
 * sum of the sizes must stay below 2^53. 0; -ENOMEM; -EINVAL, and nothing written, when m itself is not valid.
 */
int ferry_metadata_encode(const struct ferry_metadata *m, struct ferry_json_writer *writer);

/*
 * Decodes a document and checks everything: exactly the four keys, types, ranges, canonical base64, bounded inflate
 * (64 KiB), the blob's own keys, the digest. Does not look at the clock. pointer_prefix ("/remote_metadata") starts the
 * pointers of complaints. 0 with *ret_metadata for ferry_metadata_free(); FERRY_E_PROTOCOL_MISMATCH, which is looked at
 * before anything else, or FERRY_E_INVALID_METADATA, both with complaints; -ENOMEM.
 */
int ferry_metadata_read(struct json_object *object, const char *pointer_prefix, struct ferry_metadata **ret_metadata,
                        struct ferry_json_errors *errors);

/* The same for a text, which is FERRY_E_INVALID_METADATA where it is not JSON. */
int ferry_metadata_decode(const char *text, size_t size, const char *pointer_prefix,
                          struct ferry_metadata **ret_metadata, struct ferry_json_errors *errors);

/* Wipes the key and frees. Takes NULL; returns NULL. */
struct ferry_metadata *ferry_metadata_free(struct ferry_metadata *m);

#endif
