/* SPDX-License-Identifier: Apache-2.0 */
#include "json_document.h"

#include <errno.h>
#include <json-c/json.h>
#include <json-c/printbuf.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

struct ferry_json *json_document_new(void)
{
        struct ferry_json *json = calloc(1, sizeof(*json));

        if (!json)
                return NULL;
        /*
         * json-c counts the values within the innermost brackets as one level more. Not strict: beyond what the check
         * refuses, that would refuse integers above 64 bits (from 0.17 on), which are the decoder's to complain of.
         */
        json->tokener = json_tokener_new_ex(FERRY_JSON_DEPTH + 2);
        return json->tokener ? json : ferry_json_free(json);
}

struct ferry_json *ferry_json_free(struct ferry_json *json)
{
        if (!json)
                return NULL;
        json_object_put(json->root);
        if (json->tokener)
                json_tokener_free(json->tokener);
        json_outline_clear(&json->outline);
        free(json->joined);
        free(json);
        return NULL;
}

struct json_object *ferry_json_root(const struct ferry_json *json)
{
        return json->root;
}

/* json-c's serializer of a long list: its original text. */
static int write_list(struct json_object *array, struct printbuf *buffer, int level, int flags)
{
        const struct json_list *list = json_object_get_userdata(array);

        return printbuf_memappend(buffer, list->text, (int)list->size);
}

/* The lists of an outline that are not yet in the tree. */
struct untied {
        struct json_list *next;
        size_t n;
};

/* Gives the arrays that stand for lists theirs: the empty ones outside of other lists, whose order is the same. Returns
 * the number of values that are not null. */
static size_t tie(struct json_object *value, bool within_list, struct untied *lists)
{
        size_t n = value != NULL;

        if (json_object_is_type(value, json_type_array)) {
                size_t n_elements = json_object_array_length(value);

                if (!within_list && !n_elements && lists->n) {
                        json_object_set_serializer(value, write_list, lists->next++, NULL);
                        lists->n--;
                }
                for (size_t i = 0; i < n_elements; i++)
                        n += tie(json_object_array_get_idx(value, i), true, lists);
        } else if (json_object_is_type(value, json_type_object)) {
                json_object_object_foreach (value, key, member) {
                        (void)key;
                        n += tie(member, within_list, lists);
                }
        }
        return n;
}

static char *put(char *to, const char *text, size_t n)
{
        memcpy(to, text, n);
        return to + n;
}

/*
 * Parses a text that has been checked, with "[]" for each list of its outline, between before and after: in one piece,
 * because each call of json-c's parser makes a locale. NULL when memory is short.
 */
static struct json_object *parse_outlined(struct ferry_json *json, const char *before, const char *text,
                                          const char *after)
{
        const struct json_outline *outline = &json->outline;
        size_t n_before = strlen(before), n_after = strlen(after);
        size_t most = n_before + (size_t)(outline->end - text) + 2 * outline->n_lists + n_after;
        char *joined = ferry_reserve(json->joined, &json->joined_room, most, 1), *at;

        if (!joined)
                return NULL;
        json->joined = joined;
        at = put(joined, before, n_before);
        for (size_t i = 0; i < outline->n_lists; i++) {
                const struct json_list *list = &outline->lists[i];

                at = put(at, text, (size_t)(list->text - text));
                at = put(at, "[]", 2);
                text = list->text + list->size;
        }
        at = put(at, text, (size_t)(outline->end - text));
        at = put(at, after, n_after);
        return json_tokener_parse_ex(json->tokener, joined, (int)(at - joined));
}

int json_document_read(struct ferry_json *json, const char *text, size_t length, struct json_fault *ret_fault)
{
        struct untied lists;
        int r = json_check(text, length, &json->outline, ret_fault);

        if (r)
                return r;
        /* The space ends a root that is a number: json-c would wait for more digits. */
        json->root = parse_outlined(json, "", text, " ");
        lists = (struct untied){ json->outline.lists, json->outline.n_lists };
        /* json-c can only have run out of memory. It may then return part of a tree without an error. */
        return tie(json->root, false, &lists) == json->outline.n_values ? 0 : -ENOMEM;
}

int json_document_read_elements(struct ferry_json *json, const char *text, size_t length)
{
        struct untied lists;
        size_t n, n_values = 0;
        int r = json_check_elements(text, length, &json->outline, &n);

        json_object_put(json->root);
        json->root = NULL;
        if (r)
                return r;
        json_tokener_reset(json->tokener);
        json->root = parse_outlined(json, "[", text, "]");
        if (!json->root || json_object_array_length(json->root) != n)
                return -ENOMEM;
        lists = (struct untied){ json->outline.lists, json->outline.n_lists };
        for (size_t i = 0; i < n; i++)
                n_values += tie(json_object_array_get_idx(json->root, i), false, &lists);
        return n_values == json->outline.n_values ? 0 : -ENOMEM;
}
