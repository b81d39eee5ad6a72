/* SPDX-License-Identifier: Apache-2.0 */
#include "json_keys.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

bool json_keys_push(struct json_keys *keys, const unsigned char *quote, const unsigned char *end)
{
        struct json_key *list = ferry_reserve(keys->keys, &keys->room, keys->n + 1, sizeof(*list));

        if (!list)
                return false;
        keys->keys = list;
        list[keys->n++] = (struct json_key){ .text = quote + 1, .length = (size_t)(end - quote - 2) };
        return true;
}

/* Each with each. false: they are too many for that, or have escapes. */
static bool compare_few(const struct json_key *keys, size_t n, const unsigned char **ret_twice)
{
        enum { FEW = 32 };

        if (n > FEW)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (memchr(keys[i].text, '\\', keys[i].length))
                        return false;
                for (size_t j = 0; j < i && !*ret_twice; j++)
                        if (keys[i].length == keys[j].length && memcmp(keys[i].text, keys[j].text, keys[i].length) == 0)
                                *ret_twice = keys[i].text - 1;
        }
        return true;
}

/* The key as json-c reads it, escapes and all; NULL when memory is short. */
static struct json_object *read_key(struct json_tokener *tokener, const struct json_key *key)
{
        if (!memchr(key->text, '\\', key->length))
                return json_object_new_string_len((const char *)key->text, (int)key->length);
        json_tokener_reset(tokener);
        return json_tokener_parse_ex(tokener, (const char *)key->text - 1, (int)key->length + 2);
}

/* Adds a key to the members of seen. 1 when it is one of them; 0; -ENOMEM. */
static int see_key(struct json_object *seen, struct json_tokener *tokener, const struct json_key *key)
{
        struct json_object *name = read_key(tokener, key);
        int r = -ENOMEM;

        if (name)
                r = json_object_object_get_ex(seen, json_object_get_string(name), NULL)     ? 1
                    : json_object_object_add(seen, json_object_get_string(name), NULL) == 0 ? 0
                                                                                            : -ENOMEM;
        json_object_put(name);
        return r;
}

static bool compare_by_hash(const struct json_key *keys, size_t n, const unsigned char **ret_twice)
{
        struct json_object *seen = json_object_new_object();
        struct json_tokener *tokener = json_tokener_new_ex(1);
        int r = seen && tokener ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < n; i++) {
                r = see_key(seen, tokener, &keys[i]);
                if (r > 0)
                        *ret_twice = keys[i].text - 1;
        }
        if (tokener)
                json_tokener_free(tokener);
        json_object_put(seen);
        return r >= 0;
}

bool json_keys_pop(struct json_keys *keys, size_t mark, const unsigned char **ret_twice)
{
        const unsigned char *twice = NULL;

        if (keys->n > mark && !compare_few(keys->keys + mark, keys->n - mark, &twice)) {
                twice = NULL;
                if (!compare_by_hash(keys->keys + mark, keys->n - mark, &twice))
                        return false;
        }
        keys->n = mark;
        *ret_twice = twice;
        return true;
}

void json_keys_clear(struct json_keys *keys)
{
        free(keys->keys);
        *keys = (struct json_keys){ 0 };
}
