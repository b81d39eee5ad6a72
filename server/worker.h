/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/worker.h>

/* What libferry-worker and ferryd share beyond the public header. */

/* Zero-initialise; every zero means the default that ferryd --help names. Strings are copied. */
struct worker_options {
        const char *const *listen; /* "127.0.0.1:0", "unix:/path"; n_listen 0 = no HTTP */
        size_t n_listen;
        const char *data_listen; /* NULL = no network transport */
        const char *transports, *interfaces;
        unsigned gpu_direct;   /* enum device_direct */
        const char *local;     /* directory of the local socket, "auto" or "off"; NULL = "auto" */
        uint32_t copy_threads; /* that share large local copies */
        const char *advertise; /* host, or base URL */
        const char *name;      /* NULL = host name + pid */
        uint64_t memory_limit; /* bytes; 0 = half of the memory of the machine, or of the control group where less */
        const char *token_file, *peer_token_file, *metrics_token_file;
        const char *tls_cert, *tls_key;             /* PEM files */
        const char *tls_client_ca;                  /* PEM file; NULL = clients need no certificate */
        const char *peer_ca, *peer_cert, *peer_key; /* for https to peers */
        const char *const *allow_host;
        size_t n_allow_host;
        const char *const *allow_peer;
        size_t n_allow_peer;
        const char *const *allow_origin;
        size_t n_allow_origin;
        const char *registry, *registry_prefix;       /* NULL = no names for workers; the default */
        const char *registry_ca, *registry_user_file; /* PEM file; file that holds NAME:PASSWORD; NULL = none */
        uint64_t registry_ttl_ms;
        bool no_auth;        /* listen beyond loopback without a token */
        uint64_t chunk_size; /* bytes */
        uint32_t window, spin_us;
        uint64_t ttl_ms, stall_ms, retention_ms, grace_ms;
        uint64_t max_operations, max_regions, max_connections, max_waiters, max_links;
        uint32_t http_threads;
};

/*
 * ferry_worker_new with options that are parsed. 0 or -errno (-EINVAL: the options' fault); the reason is in message (a
 * sentence), which may be NULL.
 */
int worker_new(const struct worker_options *options, struct ferry_worker **ret_worker, char *message,
               size_t message_size);

/*
 * Reads the files of tokens and certificates anew, for new requests and connections. 0; -errno with a sentence in
 * message: everything is as it was. Not from two threads at once.
 */
int worker_reload(struct ferry_worker *worker, char *message, size_t message_size);

#endif
