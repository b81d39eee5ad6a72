/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/metadata.h>

#include "easy/easy.h"

struct easy_thread;
struct metrics;

/*
 * Names of workers, kept in etcd through its JSON gateway (/v3). A name is a key under the prefix, bound to a lease
 * that the worker renews: it exists while the worker lives, and at most the TTL longer. The value says how to reach the
 * worker; it never contains metadata of an operation. One thread does the work; public functions: any thread.
 *
 * The registry is not trusted: every answer is bounded in size and time and checked, and a URL from it is fetched by
 * the rules of --allow-peer alone.
 */

struct registry;

enum {
        REGISTRY_NAME_SIZE = FERRY_METADATA_NAME_SIZE,
        REGISTRY_VERSION_SIZE = 32,
        REGISTRY_TIME_SIZE = 32,
        REGISTRY_KEY_SIZE = 320, /* prefix and name */
        REGISTRY_PREFIX_MAX = 200,
        REGISTRY_PAGE_MAX = 1000,
        REGISTRY_LOOKUPS_MAX = 256, /* at the same time */
        REGISTRY_DETAIL_SIZE = 256,
        REGISTRY_TTL_MIN_MS = 2000, /* the shortest lease that etcd grants */
};

#define REGISTRY_PREFIX_DEFAULT "/ferry/workers/"
#define REGISTRY_TTL_DEFAULT_MS UINT64_C(10000)

/* A worker's entry. Texts are printable ASCII; "" = not given. */
struct registry_entry {
        char name[REGISTRY_NAME_SIZE];
        uint64_t epoch;
        char version[REGISTRY_VERSION_SIZE];
        char http[FERRY_METADATA_URL_SIZE]; /* base URL */
        char data[FERRY_METADATA_ADDRESS_SIZE];
        char started_at[REGISTRY_TIME_SIZE];
};

struct registry_config {
        const char *url;            /* as --registry takes it */
        const char *prefix;         /* gets a "/" at its end; NULL = REGISTRY_PREFIX_DEFAULT */
        uint64_t ttl_ms;            /* rounded up to seconds; 0 = REGISTRY_TTL_DEFAULT_MS */
        const char *user;           /* "NAME:PASSWORD" of etcd's own authentication; NULL = none */
        struct easy_settings easy;  /* files and user_agent alone, borrowed until registry_free */
        struct easy_thread *thread; /* that asks; borrowed: stopped before registry_free */
        struct metrics *metrics;    /* may be NULL */
};

/* Whether a text is a list of endpoints: etcd://, http:// or https://, then HOST:PORT; further ones after commas. */
bool registry_url_is_valid(const char *url);

/* Whether a text can be the prefix of keys. */
bool registry_prefix_is_valid(const char *prefix);

/* Sends nothing. 0; -EINVAL: url, prefix, user or ttl_ms is invalid; -ENOMEM. */
int registry_new(const struct registry_config *config, struct registry **ret_registry);

/* After its thread was stopped (peers_free does that), and after the peers, which resolve names by it. Takes NULL;
 * returns NULL. */
struct registry *registry_free(struct registry *registry);

/* ---- this worker's own name ---- */

enum registry_status {
        REGISTRY_REGISTERING,
        REGISTRY_REGISTERED,
        REGISTRY_NAME_TAKEN,  /* another worker has the name, or had it when it died; retried */
        REGISTRY_UNREACHABLE, /* no endpoint answers, or none accepts; retried */
        REGISTRY_LEFT,
};

/* "registering", "registered", "name-taken", "unreachable", "left". */
const char *registry_status_name(enum registry_status status);

/*
 * Registers self (copied) and keeps it registered until registry_leave. Waits for the result: 0: registered, or the
 * registry does not answer (logged; retried); -EADDRINUSE with a sentence in message: a live worker has the name, which
 * is taken longer than a dead worker would keep it. Waits at most 15 s for that; after that the thread goes on.
 * Once.
 */
int registry_join(struct registry *registry, const struct registry_entry *self, char *message, size_t message_size);

/* Gives the name up and does not wait: a draining worker should not be found any more. */
void registry_leave(struct registry *registry);

/* Waits at most timeout_ms for the end of registry_leave. */
void registry_await_left(struct registry *registry, unsigned timeout_ms);

/* The state for users. */
struct registry_view {
        enum registry_status status;
        char key[REGISTRY_KEY_SIZE];
        uint64_t ttl_ms; /* as configured */
};
void registry_get_view(struct registry *registry, struct registry_view *ret_view);

/* ---- looking others up ---- */

struct registry_query {
        const char *name;  /* only this name; NULL = a page of all */
        uint64_t after;    /* cursor of the page before; 0 = from the start */
        size_t limit;      /* 1 to REGISTRY_PAGE_MAX */
        uint64_t revision; /* with wait_ms: waits for a change after this revision */
        uint64_t wait_ms;  /* longest wait; 0 = none */
};

/* In the order of registration, without values that are not a worker's. */
struct registry_page {
        const struct registry_entry *entries;
        size_t n;
        size_t n_skipped;  /* values that are no worker's */
        uint64_t cursor;   /* of the next page; 0 = this is the last */
        uint64_t revision; /* of the registry at the time of the answer */
};

/*
 * 0: found is called exactly once, on libcurl's thread: error 0 with the page (borrowed), or FERRY_E_* with a
 * sentence. FERRY_E_LIMIT_REACHED (too many lookups); FERRY_E_CANCELLED (the worker ends); -errno.
 */
typedef void (*registry_found)(void *context, int error, const char *detail, const struct registry_page *page);
int registry_find(struct registry *registry, const struct registry_query *query, registry_found found, void *context);

#endif
