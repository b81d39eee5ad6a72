/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_CONTENT_H
#define MOVE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>

struct http_mover;
struct operation;
struct operation_store;

/*
 * The passive side of a transfer over HTTP: the bytes of an operation for the HTTP server, range by range, for clients
 * and for peers that share no transport of the engine with this worker. The first range claims the operation, further
 * ones of the same transfer join it, and it ends like a transfer of the engine.
 *
 * A transfer is complete when its ranges cover every byte. Ranges of a readable count when the caller reports them as
 * sent, those of a writable as they are stored. A client that names its transfer reports the end itself
 * (http_content_end), so that both sides agree on it. It may announce how many bytes it moves: then it is complete
 * when so many have moved, whichever they are. A transfer without an open range or connection waits
 * absence_ms for its client, then fails as peer-lost. A revoke (cancel, expiry, stall, shutdown) waits for no client
 * and for no copy: no new one begins, and the thread whose copy is under way (of 1 MiB at most for a GET) ends the
 * transfer after it.
 *
 * All functions: any thread; the functions of one range from one thread at a time.
 */

struct http_content; /* one open range */
struct http_responder;

struct http_content_request {
        uint64_t transfer;     /* the transfer's id; 0 = the client gives none */
        uint64_t announced;    /* bytes that the transfer moves; only with an id. 0 = every byte of the operation */
        uint64_t first, size;  /* the range, inside the operation's bytes; size is not 0 */
        const char *transport; /* "http" or "https"; a literal */
        uint64_t peer_epoch;   /* epoch that the asking worker gives; 0 = none */
        const char *peer_name; /* its name; NULL = not known */
};

/* Whether the key is the operation's. Constant time. */
bool http_content_key(const struct operation *operation, const uint8_t key[FERRY_KEY_SIZE]);

/*
 * Opens a range for a client whose key, or token, the caller has checked: claims the operation, or joins the transfer
 * with that id. A client without an id joins a transfer of another such client only if no open range overlaps its own;
 * otherwise it is a second peer. 0 with *ret_content, or FERRY_E_*: NOT_PASSIVE; ALREADY_CLAIMED, EXPIRED,
 * CANCELLED_BY_PEER (over, or another peer's); GONE (the client has ended the transfer); SIZE_MISMATCH (it announces
 * more bytes than there are, or not those of its first range); LIMIT_REACHED (more than CONTENT_RANGES_MAX ranges with
 * gaps, and nothing announced); -ENOMEM.
 */
int http_content_open(struct http_mover *mover, struct operation_store *store, struct operation *operation,
                      const struct http_content_request *request, struct http_content **ret_content);

/* 1 + the device (struct space) that has bytes of the operation; 0 = all are in host memory. Also after the transfer's
 * end. */
unsigned http_content_gpu(const struct http_content *content);

/*
 * Copies the range's next bytes from a readable, or stores them in a writable; more than the range has is an error. 0,
 * or the FERRY_E_* for the client.
 */
int http_content_move(struct http_content *content, void *bytes, size_t size);

/* The FERRY_E_* for the client of a transfer that is over. */
int http_content_error(const struct http_content *content);

/* Closes and frees the range. sent: of a readable, all that was read has been sent to the client. Takes NULL. */
void http_content_close(struct http_content *content, bool sent);

/*
 * For a client that is a worker, which keeps its connections: it is not absent while the connection of the range is
 * open, for instance while its process is stopped. The result lasts until http_content_disconnected;
 * NULL: the transfer has no name.
 */
struct http_responder *http_content_connected(struct http_content *content);
/* The connection is closed, or has been used for another transfer. Takes NULL. */
void http_content_disconnected(struct http_responder *transfer);
/* Whether it has ended, so that its connections need not keep its memory any longer. NULL has not. */
bool http_content_is_over(struct http_responder *transfer);

/*
 * How many bytes of a writable are stored without a gap from the first one on: a client that lost its connection goes
 * on there.
 */
uint64_t http_content_stored(struct operation_store *store, struct operation *operation);

/* Whether the range's transfer has moved every byte of the operation. */
bool http_content_is_whole(struct http_content *content);

/* XXH3-64 of the range's bytes. false: the transfer is over. */
bool http_content_checksum(struct http_content *content, uint64_t *ret_checksum);

/*
 * Calls visit for all bytes of the operation in order, in pieces, so that a cancel waits for one of them only. false:
 * the transfer is over.
 */
bool http_content_visit(struct http_content *content, void (*visit)(void *context, const void *bytes, size_t size),
                        void *context);

/* Ends the transfer with error: the range's bytes are not what was sent. The range must still be closed. */
void http_content_fail(struct http_content *content, int error);

/*
 * A client whose key, or token, the caller has checked ends its transfer. error 0: complete when every byte has moved,
 * else cancelled by the peer; a FERRY_E_*: it is not complete for that reason, whatever has moved. May be repeated, and
 * may come before the transfer's first range: no range of it is opened afterwards. 0 with *ret_complete; NOT_PASSIVE;
 * GONE (there is no such transfer).
 */
int http_content_end(struct operation_store *store, struct operation *operation, uint64_t transfer, int error,
                     bool *ret_complete);

#endif
