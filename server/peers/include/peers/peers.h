/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_PEERS_H
#define PEERS_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include <ferry/metadata.h>

#include "easy/easy.h"

struct easy_thread;
struct engine_connect;
struct metrics;
struct operation;
struct operation_store;
struct registry;

/*
 * HTTP to other workers, by libcurl: fetches their metadata and descriptions, says notices.
 *
 * Only admitted hosts, http and https only, no redirects, no proxy, bounded body and time. Public functions: any
 * thread.
 */

struct peers;

enum { PEERS_FETCHES_MAX = 256 };

struct peers_config {
        /* Copied, its allowlist and texts but worker borrowed until peers_free. 0 of a number = 3 s, 10 s, 8 MiB;
         * headers are not taken. */
        struct easy_settings easy;
        const char *token;          /* bearer token for documents of peers; NULL = none */
        size_t max_fetches;         /* at the same time; 0 = PEERS_FETCHES_MAX */
        struct metrics *metrics;    /* may be NULL */
        struct easy_thread *thread; /* borrowed until peers_free */
        struct registry *registry;  /* freed after the peers; NULL = names of workers cannot be resolved */
};

/* 0 or -ENOMEM. */
int peers_new(const struct peers_config *config, struct peers **ret_peers);

/* The settings of requests to other workers: hosts, certificates, names. They stay until peers_free. */
const struct easy_settings *peers_settings(const struct peers *peers);

/* The bearer token from now on. 0 or -ENOMEM. Any thread, one at a time. */
int peers_set_token(struct peers *peers, const char *token);

/* Stops the thread, which ends running fetches with FERRY_E_CANCELLED. Takes NULL; returns NULL. */
struct peers *peers_free(struct peers *peers);

/*
 * Checks a URL before anything is sent: 0; FERRY_E_INVALID_PARAMETER or FERRY_E_FORBIDDEN with a sentence in detail, as
 * from peers_fetch_metadata; -ENOMEM.
 */
int peers_check_url(struct peers *peers, const char *url, char *detail, size_t detail_size);

/* error 0: metadata is handed over (ferry_metadata_free); else FERRY_E_* and a sentence. Runs on libcurl's thread. */
typedef void (*peers_fetched)(void *context, int error, const char *detail, struct ferry_metadata *metadata);
/*
 * Whether the document is still needed; otherwise the fetch ends with FERRY_E_CANCELLED. Runs on libcurl's thread,
 * each time that it looks at its work: easy_thread_wake has it do so. NULL = it is.
 */
typedef bool (*peers_wanted)(void *context);

/*
 * Fetches url: a worker's …/v1/operations/{id}/metadata, or ferry://NAME/op_ID, which the registry resolves. 0: fetched
 * will be called exactly once. FERRY_E_INVALID_PARAMETER (not an http(s) URL, or with user information);
 * FERRY_E_FORBIDDEN (host not admitted; the resolved address is checked again at connect time); FERRY_E_LIMIT_REACHED;
 * -ENOMEM. detail gets a sentence. Errors that come through fetched: PEER_UNREACHABLE, TIMEOUT, FORBIDDEN,
 * STALE_METADATA (404, 410 of the peer), PEER_REFUSED (401, 403), INVALID_METADATA, TRANSFER_FAILED (anything else).
 */
int peers_fetch_metadata(struct peers *peers, const char *url, peers_fetched fetched, peers_wanted wanted,
                         void *context, char *detail, size_t detail_size);

/*
 * Fetches the description of a worker, {url}/v1/worker: url is its base URL or ferry://NAME. Results and errors are
 * those of peers_fetch_metadata, which has fetched called once. Of the metadata only
 * worker, epoch and data (not checked against the admitted hosts) are set. PEER_REFUSED (401, 403), INVALID_METADATA
 * and TRANSFER_FAILED: it is not a Ferry worker, or refuses.
 */
int peers_fetch_worker(struct peers *peers, const char *url, peers_fetched fetched, void *context, char *detail,
                       size_t detail_size);

/*
 * Says the notice of *spec to the worker at spec->peer.url over HTTP, once: as engine_connect, but on the peers'
 * thread. 0: connected will be called exactly once, also with PEER_UNREACHABLE, TIMEOUT, FORBIDDEN (also where the host
 * is not admitted), GONE, ALREADY_CLAIMED, STALE_METADATA, PEER_REFUSED, DRAINING, TRANSFER_FAILED (anything else) or
 * CANCELLED. Else FERRY_E_INVALID_PARAMETER, FERRY_E_FORBIDDEN or FERRY_E_LIMIT_REACHED with a sentence, or -errno. For
 * struct engine_http: peers is a struct peers.
 */
int peers_notice(void *peers, const struct engine_connect *spec, char *detail, size_t detail_size);

/*
 * Fetches a peer's metadata, then begins the operation (borrowed; it keeps a reference of its own) or ends it as
 * ERRORED, on libcurl's thread. 0, or an error of peers_fetch_metadata with a sentence in detail, and the operation is
 * untouched.
 */
int remote_begin(struct operation_store *store, struct peers *peers, struct operation *operation, const char *url,
                 char *detail, size_t detail_size);

#endif
