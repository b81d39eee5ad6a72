/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_content.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/util.h"
#include "connection.h"
#include "guard.h"
#include "http_internal.h"
#include "operations/content.h"
#include "operations/operations.h"
#include "request.h"

enum { EPOCH_DIGITS = 16 };

/* Answers with an error of the data plane, mapped to one that has an HTTP status. */
static void refuse(struct http_request *request, int error)
{
        switch (error) {
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Only readable and writable operations have content");
                break;
        case FERRY_E_PEER_REFUSED:
                request_problem(request, FERRY_E_FORBIDDEN, "The key is not the notification_key of this operation");
                break;
        case FERRY_E_ALREADY_CLAIMED:
                request_problem(request, error, "Another transfer has the operation, or has had it");
                break;
        case FERRY_E_LIMIT_REACHED:
                request_problem(request, error, "The transfer has too many ranges that do not touch each other");
                break;
        default:
                if (error > 0 && !ferry_error_http(error))
                        request_problem(request, FERRY_E_GONE, "The operation is over: %s", ferry_error_code(error));
                else
                        request_problem(request, error, NULL);
        }
}

bool content_find(struct http_request *request, struct operation_view *ret_view)
{
        if (!request_find_operation(request))
                return false;
        operation_get_view(request->server->config.operations, request->operation, ret_view);
        if (ferry_kind_is_passive((int)ret_view->kind))
                return true;
        refuse(request, FERRY_E_NOT_PASSIVE);
        return false;
}

/* The key that the client sent; NULL = it sent the full token, or none is required. */
static const uint8_t *shown_key(struct http_request *request, uint8_t key[FERRY_KEY_SIZE])
{
        const char *bearer = guard_bearer(request->headers.authorization);
        const char *token = guard_secrets(request)->token;

        if (!bearer || (token && ferry_secret_equal(bearer, token)))
                return NULL;
        return ferry_key_parse(bearer, key) ? key : NULL;
}

/* Parses Ferry-Transfer; 0 = no such header. false: answered. */
static bool read_transfer(struct http_request *request, uint64_t *ret_transfer)
{
        *ret_transfer = 0;
        if (!request->headers.ferry_transfer || ferry_id_parse("xfr_", request->headers.ferry_transfer, ret_transfer))
                return true;
        request_problem(request, FERRY_E_INVALID_PARAMETER, "Ferry-Transfer is not \"xfr_\" and 16 hexadecimal digits");
        return false;
}

/* Parses Ferry-Worker, by which a worker names itself: "EPOCH NAME". Anything else is ignored. */
static void read_worker(const struct http_request *request, struct operation_content_request *wanted)
{
        const char *header = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Ferry-Worker");
        char epoch[FERRY_ID_TEXT_SIZE];

        if (!header || strlen(header) < EPOCH_DIGITS + 2 || header[EPOCH_DIGITS] != ' ' ||
            !ferry_metadata_is_name(header + EPOCH_DIGITS + 1))
                return;
        (void)snprintf(epoch, sizeof(epoch), "%.*s", EPOCH_DIGITS, header);
        if (!ferry_id_parse("", epoch, &wanted->peer_epoch))
                return;
        wanted->peer_name = header + EPOCH_DIGITS + 1;
}

bool content_check(struct http_request *request)
{
        uint8_t key[FERRY_KEY_SIZE];
        const uint8_t *shown = shown_key(request, key);
        bool may = !shown || operation_content_key(request->operation, shown);

        explicit_bzero(key, sizeof(key));
        if (!may)
                refuse(request, FERRY_E_PEER_REFUSED);
        return may;
}

void content_close(struct http_request *request, bool done)
{
        operation_content_close(FERRY_STEAL(request->state), done);
}

static void clean_content(struct http_request *request)
{
        content_close(request, request->sent);
}

bool content_open(struct http_request *request, uint64_t first, uint64_t size)
{
        uint8_t key[FERRY_KEY_SIZE];
        struct operation_content_request wanted = {
                .key = shown_key(request, key),
                .first = first,
                .size = size,
                .transport = request->server->tls && !request->listener->local ? "https" : "http",
        };
        struct http_connection *connection = connection_of(request->connection);
        struct operation_content *content;
        int error;

        if (!read_transfer(request, &wanted.transfer))
                return false;
        read_worker(request, &wanted);
        connection_watch_peer(connection);
        error = operation_content_open(request->server->config.operations, request->operation, &wanted, &content);
        explicit_bzero(key, sizeof(key));
        if (error) {
                refuse(request, error);
                return false;
        }
        request_keep(request, content, clean_content);
        operation_content_disconnected(connection->transfer);
        connection->transfer = wanted.peer_epoch ? operation_content_connected(content) : NULL;
        return true;
}

bool content_end(struct http_request *request, bool *ret_complete)
{
        uint8_t key[FERRY_KEY_SIZE];
        const uint8_t *shown = shown_key(request, key);
        uint64_t transfer;
        int error;

        if (!read_transfer(request, &transfer))
                return false;
        error = operation_content_end(request->server->config.operations, request->operation, shown, transfer,
                                      ret_complete);
        explicit_bzero(key, sizeof(key));
        if (error == FERRY_E_GONE)
                request_problem(request, error, "The operation has no such transfer any more");
        else if (error)
                refuse(request, error);
        return !error;
}

void content_take(struct http_request *request, const char *data, size_t size)
{
        int error = operation_content_write(request->state, data, size);

        if (!error)
                return;
        if (error == FERRY_E_TOO_LARGE)
                request_problem(request, error, "The body has more bytes than were announced or fit");
        else
                refuse(request, error);
        content_close(request, false);
}

bool content_add_digest(struct http_request *request)
{
        char text[FERRY_DIGEST_TEXT_SIZE];
        uint64_t checksum;

        if (!operation_content_checksum(request->state, &checksum)) {
                request_problem(request, FERRY_E_GONE, "The operation is over");
                return false;
        }
        ferry_digest_format(checksum, text);
        request_header_text(request, "Content-Digest", "", text);
        return true;
}

/* ---- SHA-256 of all bytes ---- */

enum { SHA256_SIZE = 32 };

static void hash_piece(void *context, const void *bytes, size_t size)
{
        (void)gnutls_hash(*(gnutls_hash_hd_t *)context, bytes, size);
}

/* false: answered. */
static bool hash_all(struct http_request *request, uint8_t ret_digest[SHA256_SIZE])
{
        gnutls_hash_hd_t hash;
        bool all;

        if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256)) {
                request_problem(request, -ENOMEM, NULL);
                return false;
        }
        all = operation_content_visit(request->state, hash_piece, &hash);
        gnutls_hash_deinit(hash, ret_digest);
        if (!all)
                request_problem(request, FERRY_E_GONE, "The operation is over");
        return all;
}

bool content_add_repr_digest(struct http_request *request)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        uint8_t digest[SHA256_SIZE];

        if (!hash_all(request, digest))
                return false;
        text = ferry_base64_encode(digest, sizeof(digest));
        if (!text)
                request_problem(request, -ENOMEM, NULL);
        else
                request_header(request, "Repr-Digest", "sha-256=:%s:", text);
        return text != NULL;
}

/* Parses ":BASE64:", a byte sequence of RFC 8941. */
static bool parse_sha256(const char *value, uint8_t ret_digest[SHA256_SIZE])
{
        FERRY_CLEANUP(cleanup_free) void *data = NULL;
        const char *end = *value == ':' ? strchr(value + 1, ':') : NULL;
        size_t n;

        if (!end || ferry_base64_decode(value + 1, (size_t)(end - value - 1), &data, &n) || n != SHA256_SIZE)
                return false;
        memcpy(ret_digest, data, n);
        return true;
}

/* Checks Repr-Digest once the last byte is stored; before, it cannot be known. false: answered. */
static bool check_repr_digest(struct http_request *request)
{
        struct operation_store *operations = request->server->config.operations;
        const char *header = request->headers.repr_digest;
        const char *value = header ? headers_dictionary_find(header, "sha-256") : NULL;
        uint8_t wanted[SHA256_SIZE], digest[SHA256_SIZE];
        struct operation_view view;

        if (!value || !parse_sha256(value, wanted))
                return true;
        operation_get_view(operations, request->operation, &view);
        if (operation_content_stored(operations, request->operation) < view.bytes_total)
                return true;
        if (!hash_all(request, digest))
                return false;
        if (!memcmp(digest, wanted, sizeof(digest)))
                return true;
        operation_content_fail(request->state, FERRY_E_CHECKSUM_MISMATCH);
        request_problem(request, FERRY_E_CHECKSUM_MISMATCH, "The bytes stored are not those of the Repr-Digest");
        return false;
}

bool content_check_digest(struct http_request *request)
{
        const char *header = request->headers.content_digest;
        uint64_t wanted, checksum;

        if (!header || !ferry_digest_parse(header, strlen(header), &wanted))
                return check_repr_digest(request);
        if (!operation_content_checksum(request->state, &checksum)) {
                request_problem(request, FERRY_E_GONE, "The operation is over");
                return false;
        }
        if (checksum == wanted)
                return check_repr_digest(request);
        operation_content_fail(request->state, FERRY_E_CHECKSUM_MISMATCH);
        request_problem(request, FERRY_E_CHECKSUM_MISMATCH, "The bytes stored are not those of the Content-Digest");
        return false;
}
