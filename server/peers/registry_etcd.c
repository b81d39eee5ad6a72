/* SPDX-License-Identifier: Apache-2.0 */
#include "registry_etcd.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "field.h"

/* ---- bodies ---- */

/* etcd writes 64-bit integers as strings. */
static void add_number(struct ferry_json_writer *writer, const char *name, uint64_t number)
{
        char text[FERRY_UINT_TEXT_SIZE];

        ferry_uint_format(number, text);
        ferry_json_add_string(writer, name, text);
}

static void add_bytes(struct ferry_json_writer *writer, const char *name, const char *bytes)
{
        FERRY_CLEANUP(cleanup_free) char *text = ferry_base64_encode(bytes, strlen(bytes));

        if (text)
                ferry_json_add_string(writer, name, text);
        else
                writer->failed = true;
}

/* The first key after all keys with that prefix. */
static void add_prefix(struct ferry_json_writer *writer, const char *prefix)
{
        char end[REGISTRY_KEY_SIZE];

        (void)snprintf(end, sizeof(end), "%s", prefix);
        end[strlen(end) - 1]++;
        add_bytes(writer, "key", prefix);
        add_bytes(writer, "range_end", end);
}

void etcd_key(const char *prefix, const char *name, char key[REGISTRY_KEY_SIZE])
{
        (void)snprintf(key, REGISTRY_KEY_SIZE, "%s%s", prefix, name);
}

char *etcd_lease_grant(uint64_t ttl_s)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        add_number(&writer, "TTL", ttl_s);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

char *etcd_lease_name(uint64_t lease)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        add_number(&writer, "ID", lease);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

static void begin_only(struct ferry_json_writer *writer, const char *list)
{
        ferry_json_open_array(writer, list);
        ferry_json_begin_object(writer);
}

static void end_only(struct ferry_json_writer *writer)
{
        ferry_json_end_object(writer);
        ferry_json_end_array(writer);
}

char *etcd_put_if_absent(const char *key, const char *value, uint64_t lease)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        begin_only(&writer, "compare");
        add_bytes(&writer, "key", key);
        ferry_json_add_string(&writer, "target", "CREATE");
        add_number(&writer, "create_revision", 0);
        end_only(&writer);
        begin_only(&writer, "success");
        ferry_json_open_object(&writer, "request_put");
        add_bytes(&writer, "key", key);
        add_bytes(&writer, "value", value);
        add_number(&writer, "lease", lease);
        ferry_json_end_object(&writer);
        end_only(&writer);
        begin_only(&writer, "failure");
        ferry_json_open_object(&writer, "request_range");
        add_bytes(&writer, "key", key);
        ferry_json_end_object(&writer);
        end_only(&writer);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

char *etcd_get(const char *key)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        add_bytes(&writer, "key", key);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

char *etcd_list(const char *prefix, uint64_t after, size_t limit)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        add_prefix(&writer, prefix);
        add_number(&writer, "limit", limit);
        /* In the order of registration, so that a page's cursor is one number. */
        ferry_json_add_string(&writer, "sort_order", "ASCEND");
        ferry_json_add_string(&writer, "sort_target", "CREATE");
        if (after)
                add_number(&writer, "min_create_revision", after + 1);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

char *etcd_watch(const char *prefix, uint64_t revision)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_open_object(&writer, "create_request");
        add_prefix(&writer, prefix);
        add_number(&writer, "start_revision", revision);
        ferry_json_end_object(&writer);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

/* ---- answers ---- */

static struct json_object *member(struct json_object *object, const char *name)
{
        struct json_object *value = NULL;

        (void)(json_object_is_type(object, json_type_object) && json_object_object_get_ex(object, name, &value));
        return value;
}

/* A missing number is 0: the gateway omits zeros. */
static bool read_number(struct json_object *object, const char *name, int64_t *ret_number)
{
        struct json_object *value = member(object, name);
        const char *text;
        char *end;

        *ret_number = 0;
        if (!value)
                return true;
        if (!json_object_is_type(value, json_type_string) && !json_object_is_type(value, json_type_int))
                return false;
        text = json_object_get_string(value);
        if (!*text || strspn(text, "-0123456789") != strlen(text))
                return false;
        errno = 0;
        *ret_number = strtoll(text, &end, 10);
        return !errno && !*end;
}

static bool read_positive(struct json_object *object, const char *name, uint64_t *ret_number)
{
        int64_t number;

        if (!read_number(object, name, &number) || number < 0)
                return false;
        *ret_number = (uint64_t)number;
        return true;
}

/* A streaming call wraps its answer in "result". */
static struct json_object *unwrap(struct json_object *answer)
{
        return member(answer, "result") ?: answer;
}

bool etcd_read_lease(struct json_object *answer, uint64_t *ret_lease, int64_t *ret_ttl_s)
{
        uint64_t lease;
        int64_t ttl_s;

        answer = unwrap(answer);
        if (!read_positive(answer, "ID", &lease) || lease == 0 || !read_number(answer, "TTL", &ttl_s) ||
            ttl_s > ETCD_TTL_MAX_S)
                return false;
        *ret_lease = lease;
        *ret_ttl_s = ttl_s;
        return true;
}

static int read_bytes(struct json_object *object, const char *name, char **ret_bytes, size_t *ret_size)
{
        struct json_object *value = member(object, name);
        void *bytes;
        int r;

        if (!json_object_is_type(value, json_type_string))
                return -EINVAL;
        r = ferry_base64_decode(json_object_get_string(value), (size_t)json_object_get_string_len(value), &bytes,
                                ret_size);
        if (r == 0)
                *ret_bytes = bytes;
        return r;
}

/* false: the pair is not a worker's. */
static bool read_pair(struct json_object *pair, const char *prefix, struct registry_entry *ret_entry)
{
        FERRY_CLEANUP(cleanup_free) char *key = NULL;
        FERRY_CLEANUP(cleanup_free) char *value = NULL;
        char name[REGISTRY_NAME_SIZE];
        size_t key_size, value_size, length = strlen(prefix);

        if (read_bytes(pair, "key", &key, &key_size) != 0 || read_bytes(pair, "value", &value, &value_size) != 0 ||
            key_size <= length || key_size - length >= sizeof(name) || memcmp(key, prefix, length) != 0)
                return false;
        memcpy(name, key + length, key_size - length);
        name[key_size - length] = '\0';
        return strlen(name) == key_size - length && registry_entry_decode(value, value_size, name, ret_entry) == 0;
}

bool etcd_read_range(struct json_object *answer, const char *prefix, struct registry_entry *entries, size_t max,
                     struct etcd_range *ret_range)
{
        struct json_object *pairs = member(answer, "kvs"), *pair;
        struct ferry_json_elements elements;
        struct etcd_range range = { 0 };
        uint64_t created = 0;
        int more = 0;

        if (!read_positive(member(answer, "header"), "revision", &range.revision) || range.revision == 0)
                return false;
        if (pairs && !json_object_is_type(pairs, json_type_array))
                return false;
        if (pairs) {
                elements = ferry_json_elements(pairs);
                while (range.n < max && (more = ferry_json_next(&elements, &pair)) > 0) {
                        bool good = read_positive(pair, "create_revision", &created);

                        if (good && read_pair(pair, prefix, &entries[range.n]))
                                range.n++;
                        else
                                range.n_skipped++;
                }
                ferry_json_elements_clear(&elements);
        }
        if (more < 0)
                return false;
        if (json_object_get_boolean(member(answer, "more")))
                range.cursor = created;
        *ret_range = range;
        return true;
}

/* The element of a list that has no other; NULL = the list has none, or more, or memory is short. */
static struct json_object *only(struct json_object *list, struct ferry_json_elements *elements)
{
        struct json_object *one;

        if (!json_object_is_type(list, json_type_array) || ferry_json_count(list) != 1)
                return NULL;
        *elements = ferry_json_elements(list);
        return ferry_json_next(elements, &one) > 0 ? one : NULL;
}

/* Reads who holds the name, from the answer to the range that stands in place of the put. */
static bool read_holder(struct json_object *answer, const char *prefix, struct etcd_put *put)
{
        FERRY_CLEANUP(ferry_json_elements_clear) struct ferry_json_elements responses = { 0 };
        FERRY_CLEANUP(ferry_json_elements_clear) struct ferry_json_elements pairs = { 0 };
        struct json_object *range = member(only(member(answer, "responses"), &responses), "response_range");
        struct json_object *pair = only(member(range, "kvs"), &pairs);

        if (!pair || !read_positive(pair, "lease", &put->lease))
                return false;
        if (!read_pair(pair, prefix, &put->holder))
                put->holder = (struct registry_entry){ 0 };
        return true;
}

bool etcd_read_put(struct json_object *answer, const char *prefix, struct etcd_put *ret_put)
{
        struct etcd_put put = { 0 };

        put.put = json_object_get_boolean(member(answer, "succeeded"));
        if (!member(answer, "header") || (!put.put && !read_holder(answer, prefix, &put)))
                return false;
        *ret_put = put;
        return true;
}

bool etcd_read_watch(struct json_object *line, bool *ret_changed)
{
        struct json_object *result = member(line, "result");

        if (!json_object_is_type(result, json_type_object))
                return false;
        *ret_changed = member(result, "events") || member(result, "canceled") || member(result, "compact_revision");
        return true;
}

/* ---- values ---- */

static void add_text(struct ferry_json_writer *writer, const char *name, const char *text)
{
        if (*text)
                ferry_json_add_string(writer, name, text);
}

char *registry_entry_encode(const struct registry_entry *entry)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        add_text(&writer, "name", entry->name);
        ferry_json_add_id(&writer, "epoch", "", entry->epoch);
        add_text(&writer, "version", entry->version);
        add_text(&writer, "http", entry->http);
        add_text(&writer, "data", entry->data);
        add_text(&writer, "started_at", entry->started_at);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

/* A text that may be absent. */
static bool take_text(struct json_object *object, const char *name, char *text, size_t size)
{
        const char *value;

        if (!member(object, name))
                return true;
        value = field_text(object, name, size);
        if (!value)
                return false;
        memcpy(text, value, strlen(value) + 1);
        return true;
}

int registry_entry_decode(const char *text, size_t size, const char *name, struct registry_entry *ret_entry)
{
        struct ferry_json_errors errors = { 0 };
        struct registry_entry entry = { 0 };
        struct ferry_json *json = NULL;
        struct json_object *root;
        int r = ferry_json_parse(text, size, NULL, &json, &errors);

        if (r)
                return r < 0 ? r : FERRY_E_INVALID_METADATA;
        root = ferry_json_root(json);
        if (!json_object_is_type(root, json_type_object) || !take_text(root, "name", entry.name, sizeof(entry.name)) ||
            strcmp(entry.name, name) != 0 || !field_epoch(root, &entry.epoch) ||
            !take_text(root, "version", entry.version, sizeof(entry.version)) ||
            !take_text(root, "http", entry.http, sizeof(entry.http)) ||
            !take_text(root, "data", entry.data, sizeof(entry.data)) ||
            !take_text(root, "started_at", entry.started_at, sizeof(entry.started_at)))
                r = FERRY_E_INVALID_METADATA;
        (void)ferry_json_free(json);
        if (r == 0)
                *ret_entry = entry;
        return r;
}
