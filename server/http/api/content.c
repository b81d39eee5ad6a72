/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/util.h"
#include "move/content.h"
#include "operations/operations.h"

/*
 * The bytes of an operation for its endpoints: who may have them (the key, or the full token), which transfer a request
 * belongs to, the range that it opens, and digests. The open range is the request's copying, and is closed with it.
 *
 * Thread: the request's; content_move(), digest(), check() and content_free() perhaps one of the pool.
 */

enum { EPOCH_DIGITS = 16 };

void content_refuse(struct http_request *request, int error)
{
        static const struct {
                int error;
                const char *detail;
        } rows[] = {
                { FERRY_E_NOT_PASSIVE, "Only readable and writable operations offer memory" },
                { FERRY_E_FORBIDDEN, "The key is not the notification_key of this operation" },
                { FERRY_E_ALREADY_CLAIMED, "Another transfer has claimed the operation" },
                { FERRY_E_SIZE_MISMATCH, "Ferry-Bytes must be the same with each range of a transfer" },
                { FERRY_E_TOO_LARGE, "The body has more bytes than announced, or than fit" },
                { FERRY_E_CHECKSUM_MISMATCH, "The stored bytes do not match the digest" },
                { FERRY_E_TRANSFER_FAILED, "The transfer has failed on this worker" },
                { FERRY_E_LIMIT_REACHED, "The transfer has too many ranges that do not touch" },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++)
                if (rows[i].error == error) {
                        request_problem(request, error, "%s", rows[i].detail);
                        return;
                }
        if (error > 0 && !ferry_error_http(error))
                request_problem(request, FERRY_E_GONE, "The operation has ended: %s", ferry_error_code(error));
        else
                request_problem(request, error, NULL);
}

/* The key that the client sent; NULL = it sent the full token. */
static const uint8_t *shown_key(struct http_request *request, uint8_t key[FERRY_KEY_SIZE])
{
        const char *bearer = guard_bearer(request->headers.authorization);
        const char *token = guard_secrets(request)->token;

        if (!bearer || (token && ferry_secret_equal(bearer, token)))
                return NULL;
        return ferry_key_parse(bearer, key) ? key : NULL;
}

bool content_shows_key(struct http_request *request)
{
        uint8_t key[FERRY_KEY_SIZE];
        bool shows = shown_key(request, key) != NULL;

        explicit_bzero(key, sizeof(key));
        return shows;
}

bool content_transfer(struct http_request *request, uint64_t *ret_transfer)
{
        *ret_transfer = 0;
        if (!request->headers.ferry_transfer || ferry_id_parse("xfr_", request->headers.ferry_transfer, ret_transfer))
                return true;
        request_problem(request, FERRY_E_INVALID_PARAMETER, "Ferry-Transfer is not \"xfr_\" and 16 hexadecimal digits");
        return false;
}

/*
 * Parses Ferry-Bytes, "BYTES/SIZE": bytes that the client's transfer moves, and those of the operation as it knows
 * them. Returns 0 bytes for a transfer of the whole operation, announced or not. false: answered.
 */
static bool read_announced(struct http_request *request, uint64_t size, uint64_t *ret_announced)
{
        const char *header = request->headers.ferry_bytes, *end = header;
        uint64_t bytes, named;

        *ret_announced = 0;
        if (!header)
                return true;
        end = ferry_uint_read(header, &bytes);
        end = end && *end == '/' ? ferry_uint_read(end + 1, &named) : NULL;
        if (!end || *end || !bytes || bytes > named)
                request_problem(request, FERRY_E_INVALID_PARAMETER, "Ferry-Bytes must be like \"1024/4096\"");
        else if (!request->headers.ferry_transfer)
                request_problem(request, FERRY_E_INVALID_PARAMETER, "Ferry-Bytes needs Ferry-Transfer");
        else if (named != size)
                request_problem(request, FERRY_E_SIZE_MISMATCH,
                                "The operation has %" PRIu64 " bytes, Ferry-Bytes names %" PRIu64, size, named);
        else
                *ret_announced = bytes < size ? bytes : 0;
        return !request->answered;
}

/* Parses Ferry-Worker, by which a worker names itself: "EPOCH NAME". Anything else is ignored. */
static void read_worker(const struct http_request *request, struct http_content_request *wanted)
{
        const char *header = request->headers.ferry_worker;
        char epoch[FERRY_ID_TEXT_SIZE];

        if (!header || strlen(header) < EPOCH_DIGITS + 2 || header[EPOCH_DIGITS] != ' ' ||
            !ferry_metadata_is_name(header + EPOCH_DIGITS + 1))
                return;
        (void)snprintf(epoch, sizeof(epoch), "%.*s", EPOCH_DIGITS, header);
        if (!ferry_id_parse("", epoch, &wanted->peer_epoch))
                return;
        wanted->peer_name = header + EPOCH_DIGITS + 1;
}

/* Whether the client has shown the operation's key, or the full token. */
static bool has_key(struct http_request *request)
{
        uint8_t key[FERRY_KEY_SIZE];
        const uint8_t *shown = shown_key(request, key);
        bool has = !shown || http_content_key(request->operation, shown);

        explicit_bzero(key, sizeof(key));
        return has;
}

bool content_find(struct http_request *request, struct operation_view *ret_view)
{
        uint64_t announced;

        if (!request_look_up_operation(request))
                return false;
        operation_get_view(request->server->config.operations, request->operation, ret_view);
        if (!ferry_kind_is_passive((int)ret_view->kind)) {
                content_refuse(request, FERRY_E_NOT_PASSIVE);
                return false;
        }
        if (!has_key(request)) {
                content_refuse(request, FERRY_E_FORBIDDEN);
                return false;
        }
        guard_trust(request);
        return request_check_operation(request) && read_announced(request, ret_view->bytes_total, &announced);
}

/* ---- the open bytes: callbacks of the copying ---- */

enum { SHA256_SIZE = 32 };

/* What a client asks about the bytes, or says that they are. */
struct content {
        struct http_content *open;
        bool checked;
        struct {
                bool asked;
                uint64_t checksum;
        } range;
        struct {
                bool asked;
                uint8_t sha256[SHA256_SIZE];
        } whole;
};

static int content_move(void *context, void *bytes, size_t size)
{
        struct content *content = context;

        return http_content_move(content->open, bytes, size);
}

static void content_free(void *context, bool done)
{
        struct content *content = context;

        http_content_close(content->open, done);
        free(content);
}

static const struct content_copy_ops content_ops = { .move = content_move, .close = content_free };

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

/* Parses what the client says that the bytes are; what cannot be checked must not pass. false: answered. */
static bool read_digests(struct http_request *request, struct content *content)
{
        const char *range = request->headers.content_digest, *whole = request->headers.repr_digest;
        const char *sha256 = whole ? headers_dictionary_find(whole, "sha-256") : NULL;

        content->range.asked = range && headers_dictionary_find(range, "xxh3");
        content->whole.asked = sha256;
        if (content->range.asked && !ferry_digest_parse(range, strlen(range), &content->range.checksum))
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "The xxh3 of Content-Digest must be the base64 of 8 bytes between colons");
        else if (sha256 && !parse_sha256(sha256, content->whole.sha256))
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "The sha-256 of Repr-Digest must be the base64 of 32 bytes between colons");
        return !request->answered;
}

/* Makes them the request's state. Closes them where that fails. */
static int content_keep(struct http_request *request, const struct content *opened)
{
        struct content *content = malloc(sizeof(*content));
        int r = -ENOMEM;

        if (content) {
                *content = *opened;
                r = content_copy_open(request, &content_ops, content,
                                      (struct pool_devices){ .one = http_content_gpu(content->open) });
        }
        if (r < 0) {
                http_content_close(opened->open, false);
                free(content);
        }
        return r;
}

/* Bytes of the whole operation. */
static uint64_t total(const struct http_request *request)
{
        struct operation_view view;

        operation_get_view(request->server->config.operations, request->operation, &view);
        return view.bytes_total;
}

bool content_open(struct http_request *request, uint64_t first, uint64_t size)
{
        struct http_content_request wanted = {
                .first = first,
                .size = size,
                .transport = request->connection->listener->tls ? "https" : "http",
        };
        const struct http_config *config = &request->server->config;
        struct http_connection *connection = request->connection;
        struct content content = { 0 };
        int error;

        if (!content_transfer(request, &wanted.transfer) ||
            !read_announced(request, total(request), &wanted.announced) ||
            (!strcmp(request->method, "PUT") && !read_digests(request, &content)))
                return false;
        if (wanted.announced && content.whole.asked) {
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "Repr-Digest is of all bytes, and Ferry-Bytes announces a part of them");
                return false;
        }
        read_worker(request, &wanted);
        connection_watch_peer(connection);
        error = http_content_open(config->mover, config->operations, request->operation, &wanted, &content.open);
        if (!error)
                error = content_keep(request, &content);
        if (error) {
                content_refuse(request, error);
                return false;
        }
        http_content_disconnected(connection->transfer);
        connection->transfer = wanted.peer_epoch ? http_content_connected(content.open) : NULL;
        return true;
}

/* Ferry-Error, why the client gives its transfer up; 0 = no such header. */
static int read_error(const struct http_request *request)
{
        int error = request->headers.ferry_error ? ferry_error_from_code(request->headers.ferry_error, 0) : 0;

        return error < 0 ? FERRY_E_TRANSFER_FAILED : error;
}

bool content_end(struct http_request *request, bool *ret_complete)
{
        uint64_t transfer;
        int error;

        if (!content_transfer(request, &transfer))
                return false;
        error = http_content_end(request->server->config.operations, request->operation, transfer, read_error(request),
                                 ret_complete);
        if (error == FERRY_E_GONE)
                request_problem(request, error, "The operation no longer has this transfer");
        else if (error)
                content_refuse(request, error);
        return !error;
}

/* ---- digests ---- */

static void hash_piece(void *context, const void *bytes, size_t size)
{
        (void)gnutls_hash(*(gnutls_hash_hd_t *)context, bytes, size);
}

/* SHA-256 of all bytes. */
static int hash_all(struct content *content, uint8_t ret_digest[SHA256_SIZE])
{
        gnutls_hash_hd_t hash;
        bool all;

        if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256))
                return -ENOMEM;
        all = http_content_visit(content->open, hash_piece, &hash);
        gnutls_hash_deinit(hash, ret_digest);
        return all ? 0 : http_content_error(content->open);
}

/* The digests that were asked for. */
static int digest(void *context)
{
        struct content *content = context;

        if (content->range.asked && !http_content_checksum(content->open, &content->range.checksum))
                return http_content_error(content->open);
        return content->whole.asked ? hash_all(content, content->whole.sha256) : 0;
}

void content_begin(struct http_request *request, bool range, bool whole, uint64_t size)
{
        struct content *content = content_copy_content(request);

        content->range.asked = range;
        content->whole.asked = whole;
        content_copy_begin(request, range || whole ? digest : NULL, whole ? total(request) : size, size);
}

bool content_add_digests(struct http_request *request)
{
        const struct content *content = content_copy_content(request);

        if (content->range.asked)
                range_add_digest(request, content->range.checksum);
        if (content->whole.asked) {
                FERRY_CLEANUP(cleanup_free) char *base64 = ferry_base64_encode(content->whole.sha256, SHA256_SIZE);

                if (!base64) {
                        request_problem(request, -ENOMEM, NULL);
                        return false;
                }
                request_header(request, "Repr-Digest", "sha-256=:%s:", base64);
        }
        return true;
}

/* Compares the stored bytes; all of them once the last one is stored: before, nothing can be said of them. */
static int check(void *context)
{
        struct content *content = context;
        uint8_t sha256[SHA256_SIZE];
        uint64_t checksum;
        int r = 0;

        if (content->range.asked && !http_content_checksum(content->open, &checksum))
                return http_content_error(content->open);
        if (content->range.asked && checksum != content->range.checksum)
                r = FERRY_E_CHECKSUM_MISMATCH;
        if (!r && content->whole.asked && http_content_is_whole(content->open)) {
                r = hash_all(content, sha256);
                if (!r && memcmp(sha256, content->whole.sha256, SHA256_SIZE) != 0)
                        r = FERRY_E_CHECKSUM_MISMATCH;
        }
        if (r == FERRY_E_CHECKSUM_MISMATCH)
                http_content_fail(content->open, r);
        return r;
}

bool content_finish(struct http_request *request, void (*resume)(struct http_request *request))
{
        struct content *content = content_copy_content(request);

        if (!content_copy_flush(request, resume))
                return false;
        if (!content_copy_error(request) && !content->checked) {
                content->checked = true;
                if (content->range.asked || content->whole.asked)
                        content_copy_begin(request, check, total(request), 0);
                if (!content_copy_await(request, resume))
                        return false;
        }
        if (content_copy_error(request))
                content_refuse(request, content_copy_error(request));
        return !content_copy_error(request);
}
