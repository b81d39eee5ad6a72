/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/metrics.h"
#include "base/util.h"
#include "registry_internal.h"

/*
 * Workers in the registry: the coding of an entry, and lookups of one name or of pages. An entry that is not a
 * worker's, by its key or its value, is counted and left out: anybody who may write to etcd could have made it. A
 * lookup counts against REGISTRY_LOOKUPS_MAX from registry_find() until found() is called.
 *
 * Thread: any for registry_find(); the rest libcurl's.
 */

enum {
        ANSWER_BASE = 64 * 1024,
        ANSWER_EACH = 4096, /* above the base64 size of a worker's key and value */
};

/* ---- entries ---- */

/* The members of a value, which has the epoch besides. */
static const struct {
        const char *name;
        size_t offset, size;
} texts[] = {
        { "name", offsetof(struct registry_entry, name), REGISTRY_NAME_SIZE },
        { "version", offsetof(struct registry_entry, version), REGISTRY_VERSION_SIZE },
        { "http", offsetof(struct registry_entry, http), FERRY_METADATA_URL_SIZE },
        { "data", offsetof(struct registry_entry, data), FERRY_METADATA_ADDRESS_SIZE },
        { "started_at", offsetof(struct registry_entry, started_at), REGISTRY_TIME_SIZE },
};

char *registry_entry_encode(const struct registry_entry *entry)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_add_id(&writer, "epoch", "", entry->epoch);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(texts); i++) {
                const char *text = (const char *)entry + texts[i].offset;

                if (*text)
                        ferry_json_add_string(&writer, texts[i].name, text);
        }
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

/* Further members may come from other versions. */
static bool entry_decode(const char *text, size_t size, struct registry_entry *entry)
{
        struct json_object *value = registry_parse(text, size);
        bool good = value && ferry_json_get_epoch(value, &entry->epoch);

        for (size_t i = 0; good && i < FERRY_ARRAY_SIZE(texts); i++) {
                const char *member = ferry_json_get_text(value, texts[i].name, texts[i].size);

                if (member)
                        memcpy((char *)entry + texts[i].offset, member, strlen(member) + 1);
                else
                        good = !json_object_object_get_ex(value, texts[i].name, NULL);
        }
        (void)json_object_put(value);
        return good;
}

/* Decodes a member, for free(). NULL: the member is no base64, or memory is short. */
static char *read_bytes(struct json_object *pair, const char *name, size_t *ret_size)
{
        struct json_object *text = json_object_object_get(pair, name);
        void *bytes;

        if (!json_object_is_type(text, json_type_string) ||
            ferry_base64_decode(json_object_get_string(text), (size_t)json_object_get_string_len(text), &bytes,
                                ret_size) != 0)
                return NULL;
        return bytes;
}

bool registry_entry_read(struct json_object *pair, const char *prefix, struct registry_entry *ret_entry)
{
        size_t length = strlen(prefix), key_size, value_size;
        FERRY_CLEANUP(cleanup_free) char *key = read_bytes(pair, "key", &key_size);
        FERRY_CLEANUP(cleanup_free) char *value = read_bytes(pair, "value", &value_size);
        struct registry_entry entry = { 0 };

        if (!key || !value || !entry_decode(value, value_size, &entry) || key_size != length + strlen(entry.name) ||
            !*entry.name || memcmp(key, prefix, length) != 0 ||
            memcmp(key + length, entry.name, key_size - length) != 0)
                return false;
        *ret_entry = entry;
        return true;
}

/* ---- lookups ---- */

struct registry_lookup {
        struct registry *registry;
        size_t limit;
        uint64_t after;
        registry_found found;
        void *context;
};

/* Counts a lookup. Returns 0; FERRY_E_CANCELLED: the worker ends; FERRY_E_LIMIT_REACHED. */
static int lookup_begin(struct registry *registry)
{
        int r = 0;

        pthread_mutex_lock(&registry->lock);
        if (registry->phase == REGISTRY_STOPPED)
                r = FERRY_E_CANCELLED;
        else if (registry->n_lookups >= REGISTRY_LOOKUPS_MAX)
                r = FERRY_E_LIMIT_REACHED;
        else
                metric_set(registry->lookups, (int64_t)++registry->n_lookups);
        pthread_mutex_unlock(&registry->lock);
        return r;
}

static void lookup_end(struct registry *registry)
{
        pthread_mutex_lock(&registry->lock);
        metric_set(registry->lookups, (int64_t)--registry->n_lookups);
        pthread_mutex_unlock(&registry->lock);
}

/*
 * Reads etcd's answer to a range. entries has room for the lookup's limit. Returns false when etcd would not answer
 * that.
 */
static bool read_page(const struct registry_lookup *lookup, struct json_object *answer, struct registry_entry *entries,
                      struct registry_page *page)
{
        struct json_object *pairs = json_object_object_get(answer, "kvs");
        int64_t revision = registry_number(json_object_object_get(answer, "header"), "revision"), created = 0;

        if (revision <= 0 || (pairs && !json_object_is_type(pairs, json_type_array)))
                return false;
        *page = (struct registry_page){ .entries = entries, .revision = (uint64_t)revision };
        for (size_t i = 0; pairs && i < json_object_array_length(pairs) && page->n < lookup->limit; i++) {
                struct json_object *pair = json_object_array_get_idx(pairs, i);

                created = registry_number(pair, "create_revision");
                if (created >= 0 && registry_entry_read(pair, lookup->registry->prefix, &entries[page->n]))
                        page->n++;
                else
                        page->n_skipped++;
        }
        /* The cursor must grow, else clients would loop. */
        if (json_object_get_boolean(json_object_object_get(answer, "more")) && created > 0 &&
            (uint64_t)created > lookup->after)
                page->cursor = (uint64_t)created;
        return true;
}

/* The answer is there, or is not to come: tells the caller. */
static void on_range(void *context, int error, const char *detail, struct json_object *answer)
{
        struct registry_lookup *lookup = context;
        FERRY_CLEANUP(cleanup_free) struct registry_entry *entries = NULL;
        struct registry_page page;

        if (!error) {
                entries = calloc(lookup->limit, sizeof(*entries));
                if (!entries || !read_page(lookup, answer, entries, &page)) {
                        error = FERRY_E_PEER_UNREACHABLE;
                        detail = entries ? "its answer is not one of etcd's" : "memory is short";
                }
        }
        lookup_end(lookup->registry);
        lookup->found(lookup->context, error, detail, error ? NULL : &page);
        free(lookup);
}

/* Asks for the entries from key on: until the one after all with this prefix, or for key alone. */
static int ask(struct registry_lookup *lookup, const struct registry_query *query)
{
        struct registry_question question = { .path = "/v3/kv/range",
                                              .watch_ms = query->wait_ms,
                                              .answer_max = ANSWER_BASE + lookup->limit * ANSWER_EACH,
                                              .called = on_range,
                                              .context = lookup };
        FERRY_CLEANUP(cleanup_free) char *from = NULL;
        FERRY_CLEANUP(cleanup_free) char *until = NULL;
        char key[REGISTRY_KEY_SIZE];

        (void)snprintf(key, sizeof(key), "%s%s", lookup->registry->prefix, query->name ?: "");
        from = ferry_base64_encode(key, strlen(key));
        key[strlen(key) - 1]++;
        until = ferry_base64_encode(key, query->name ? 0 : strlen(key));
        if (!from || !until)
                return -ENOMEM;
        /* In the order of registration, so that a page's cursor is one number. */
        if (asprintf(&question.body,
                     "{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"%zu\",\"sort_order\":\"ASCEND\","
                     "\"sort_target\":\"CREATE\",\"min_create_revision\":\"%" PRIu64 "\"}",
                     from, until, lookup->limit, query->after + 1) < 0)
                return -ENOMEM;
        if (query->wait_ms &&
            asprintf(&question.watch,
                     "{\"create_request\":{\"key\":\"%s\",\"range_end\":\"%s\",\"start_revision\":\"%" PRIu64 "\"}}",
                     from, until, query->revision + 1) < 0) {
                free(question.body);
                return -ENOMEM;
        }
        return registry_ask(lookup->registry, &question);
}

int registry_find(struct registry *registry, const struct registry_query *query, registry_found found, void *context)
{
        struct registry_lookup *lookup;
        int r = lookup_begin(registry);

        if (r)
                return r;
        lookup = calloc(1, sizeof(*lookup));
        if (!lookup)
                r = -ENOMEM;
        if (r == 0) {
                lookup->registry = registry;
                lookup->limit = query->name || query->limit < 1    ? 1
                                : query->limit > REGISTRY_PAGE_MAX ? REGISTRY_PAGE_MAX
                                                                   : query->limit;
                lookup->after = query->after;
                lookup->found = found;
                lookup->context = context;
                r = ask(lookup, query);
        }
        if (r) {
                free(lookup);
                lookup_end(registry);
        }
        return r;
}
