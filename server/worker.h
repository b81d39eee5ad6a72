/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_WORKER_H
#define FERRY_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * libferry-worker: a Ferry worker inside your own process, for a program that wants to offer its own pointers. ferryd
 * is a thin main over this. Functions may be called from any thread, those of one worker one at a time.
 */

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_WORKER_EXPORT __attribute__((visibility("default")))

struct ferry_worker;

/* Zero-initialise; every zero means the default that ferryd --help names. Strings are copied. */
struct ferry_worker_options {
        const char *const *listen; /* "127.0.0.1:0", "unix:/path"; n_listen 0 = 127.0.0.1:9300 */
        size_t n_listen;
        const char *data_listen; /* NULL = no network side */
        const char *transports, *interfaces;
        const char *local;     /* directory of the local socket, "auto" or "off"; NULL = "auto" */
        uint32_t copy_threads; /* that share large local copies */
        const char *advertise;
        const char *name;      /* NULL = host name + pid */
        uint64_t memory_limit; /* bytes; 0 = half of the memory of the machine, or of the control group where less */
        const char *token_file, *peer_token_file;
        const char *tls_cert, *tls_key;             /* PEM files */
        const char *peer_ca, *peer_cert, *peer_key; /* for https to peers */
        const char *const *allow_peer;
        size_t n_allow_peer;
        const char *const *allow_origin;
        size_t n_allow_origin;
        bool no_auth;        /* listen beyond loopback without a token */
        uint64_t chunk_size; /* bytes */
        uint32_t window, spin_us;
        uint64_t ttl_ms, stall_ms, retention_ms, grace_ms;
        uint64_t max_operations, max_regions, max_connections, max_waiters;
        uint32_t http_threads;
};

/* Starts a worker. 0 or -errno; the reason is in message (a sentence), which may be NULL. */
FERRY_WORKER_EXPORT int ferry_worker_new(const struct ferry_worker_options *options, struct ferry_worker **ret_worker,
                                         char *message, size_t message_size);

/* The ready line's JSON object, without a newline. Valid until ferry_worker_free. */
FERRY_WORKER_EXPORT const char *ferry_worker_ready_line(const struct ferry_worker *worker);

/* The base URL of the i-th listener; NULL beyond the last. */
FERRY_WORKER_EXPORT const char *ferry_worker_url(const struct ferry_worker *worker, size_t i);

/*
 * Offers memory that the program owns as a region. It must stay mapped until ferry_worker_region_remove returned 0 or
 * ferry_worker_free returned. ret_id (FERRY_WORKER_ID_SIZE bytes) gets "rgn_…". 0, -errno, or a positive FERRY_E_*.
 */
enum { FERRY_WORKER_ID_SIZE = 24 };
FERRY_WORKER_EXPORT int ferry_worker_region_add(struct ferry_worker *worker, void *address, size_t size,
                                                const char *device, const char *name, char *ret_id);

/*
 * Allocates size bytes of zeros on device (NULL = "cpu"), named name (NULL = unnamed), as a region that local peers can
 * map and nobody but this process can write. Transfers from such memory need no second copy. Blocks until every page is
 * there (about 0.3 s per GiB). *ret_address is valid until ferry_worker_region_remove returned 0, which frees it, or
 * ferry_worker_free. ret_id (FERRY_WORKER_ID_SIZE bytes) gets "rgn_…". 0; FERRY_E_NO_SPACE (--memory-limit, or a limit
 * of the system); FERRY_E_LIMIT_REACHED; FERRY_E_UNKNOWN_DEVICE; FERRY_E_INVALID_PARAMETER; -errno.
 */
FERRY_WORKER_EXPORT int ferry_worker_region_alloc(struct ferry_worker *worker, size_t size, const char *device,
                                                  const char *name, void **ret_address, char *ret_id);

/*
 * 0 when the memory is free of Ferry, and that of ferry_worker_region_alloc must not be touched any more;
 * FERRY_E_REGION_IN_USE; FERRY_E_NOT_FOUND.
 */
FERRY_WORKER_EXPORT int ferry_worker_region_remove(struct ferry_worker *worker, const char *id);

/*
 * Refuses new work, then waits until every operation is terminal, at most timeout_ms; those that are left are
 * cancelled. Returns how many were cancelled.
 */
FERRY_WORKER_EXPORT size_t ferry_worker_drain(struct ferry_worker *worker, unsigned timeout_ms);

/* Ends everything that still runs, frees. Takes NULL; returns NULL. */
FERRY_WORKER_EXPORT struct ferry_worker *ferry_worker_free(struct ferry_worker *worker);

/*
 * For a program that must end at once, without ferry_worker_free: unlinks the sockets of every
 * worker of this process. Ends nothing. Any thread, at any time, also while another thread drains or frees.
 */
FERRY_WORKER_EXPORT void ferry_worker_abandon(void);

#ifdef __cplusplus
}
#endif

#endif
