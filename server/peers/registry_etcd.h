/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_REGISTRY_ETCD_H
#define PEERS_REGISTRY_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peers/registry.h"

struct json_object;

/*
 * Requests to etcd's JSON gateway, and the meaning of its answers. Pure functions; any thread. Bodies are for free(),
 * NULL when memory is short. Answers come from ferry_json_parse; the functions that read them return false, and set
 * nothing, for what etcd would not answer.
 */

enum { ETCD_TTL_MAX_S = 24 * 3600 }; /* a longer lease is taken for an error */

/* The key of a name. */
void etcd_key(const char *prefix, const char *name, char key[REGISTRY_KEY_SIZE]);

char *etcd_lease_grant(uint64_t ttl_s);
char *etcd_lease_name(uint64_t lease); /* for keepalive, timetolive and revoke */
char *etcd_put_if_absent(const char *key, const char *value, uint64_t lease);
char *etcd_get(const char *key);
char *etcd_list(const char *prefix, uint64_t after, size_t limit);
char *etcd_watch(const char *prefix, uint64_t revision);

/* Of grant, keepalive and timetolive. ttl_s is 0 or less when the lease is gone. */
bool etcd_read_lease(struct json_object *answer, uint64_t *ret_lease, int64_t *ret_ttl_s);

/* Of put_if_absent. *ret_put: put, or the lease of the present value (0 = none) and its entry, if it is one. */
struct etcd_put {
        bool put;
        uint64_t lease;
        struct registry_entry holder; /* name "" = not a worker's value */
};
bool etcd_read_put(struct json_object *answer, const char *prefix, struct etcd_put *ret_put);

/* Of get and list. entries has room for max; values that are not a worker's are skipped. */
struct etcd_range {
        size_t n;
        size_t n_skipped;
        uint64_t revision, cursor; /* cursor 0 = this is the last page */
};
bool etcd_read_range(struct json_object *answer, const char *prefix, struct registry_entry *entries, size_t max,
                     struct etcd_range *ret_range);

/* One line of a watch. *ret_changed: a key has changed, or the watch has ended. */
bool etcd_read_watch(struct json_object *line, bool *ret_changed);

/* ---- the value of a key ---- */

char *registry_entry_encode(const struct registry_entry *entry);

/* name: that of the key, which the value must repeat. 0; FERRY_E_INVALID_METADATA; -ENOMEM. */
int registry_entry_decode(const char *text, size_t size, const char *name, struct registry_entry *ret_entry);

#endif
