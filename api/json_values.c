/* SPDX-License-Identifier: Apache-2.0 */
#include "json_values.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>

#include "json_keys.h"

enum { ROOM_FIRST = 32 };

struct json_block {
        char *text; /* owned; NULL = they point into somebody else's */
        struct ferry_json values[];
};

size_t json_values_add(struct json_values *values, enum ferry_json_kind kind, const void *text, size_t size)
{
        if (values->n == values->room) {
                size_t room = values->room ? 2 * values->room : ROOM_FIRST, bytes;
                struct json_block *block;

                if (__builtin_mul_overflow(room, sizeof(block->values[0]), &bytes) ||
                    __builtin_add_overflow(bytes, sizeof(*block), &bytes))
                        return SIZE_MAX;
                block = realloc(values->block, bytes);
                if (!block)
                        return SIZE_MAX;
                block->text = NULL;
                values->block = block;
                values->room = room;
        }
        values->block->values[values->n] =
                (struct ferry_json){ .text = text, .size = (uint32_t)size, .span = 1, .kind = kind };
        return values->n++;
}

struct ferry_json *json_values_at(const struct json_values *values, size_t i)
{
        return &values->block->values[i];
}

struct ferry_json *json_values_finish(struct json_values *values, const char *text, size_t length)
{
        struct json_block *block = values->block;
        char *own = malloc(length);

        if (!own) {
                json_values_clear(values);
                return NULL;
        }
        memcpy(own, text, length);
        for (size_t i = 0; i < values->n; i++) {
                struct ferry_json *value = &block->values[i];
                char *start;

                if (!value->text)
                        continue;
                start = own + (value->text - text);
                value->text = start;
                if (value->kind != FERRY_JSON_TEXT)
                        continue;
                if (memchr(start, '\\', value->size))
                        value->size = (uint32_t)json_unescape((unsigned char *)start,
                                                              (unsigned char *)start + value->size, start);
                start[value->size] = '\0'; /* in place of the closing quote at the latest */
        }
        block->text = own;
        *values = (struct json_values){ 0 };
        return block->values;
}

void json_values_clear(struct json_values *values)
{
        free(values->block);
        *values = (struct json_values){ 0 };
}

struct ferry_json *ferry_json_free(struct ferry_json *json)
{
        struct json_block *block;

        if (!json)
                return NULL;
        block = (struct json_block *)(void *)((char *)json - offsetof(struct json_block, values));
        free(block->text);
        free(block);
        return NULL;
}

const struct ferry_json *ferry_json_member(const struct ferry_json *object, const char *key)
{
        const struct ferry_json *at;

        if (!object || object->kind != FERRY_JSON_MEMBERS)
                return NULL;
        at = object + 1;
        for (uint32_t i = 0; i < object->size; i++, at += 1 + at[1].span)
                if (strcmp(at->text, key) == 0)
                        return at + 1;
        return NULL;
}

bool ferry_json_get_uint(const struct ferry_json *value, uint64_t *ret_number)
{
        bool negative = value->kind == FERRY_JSON_INTEGER && value->text[0] == '-';
        uint64_t number = 0;

        if (value->kind != FERRY_JSON_INTEGER)
                return false;
        for (uint32_t i = negative; i < value->size; i++)
                if (__builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, (uint64_t)(value->text[i] - '0'), &number)) {
                        number = UINT64_MAX;
                        break;
                }
        if (negative && number)
                return false;
        *ret_number = number;
        return true;
}

/* Recursion is bounded by FERRY_JSON_DEPTH. */
void ferry_json_put_value(struct ferry_json_writer *writer, const struct ferry_json *value)
{
        static const char *const words[] = {
                [FERRY_JSON_NULL] = "null", [FERRY_JSON_FALSE] = "false", [FERRY_JSON_TRUE] = "true"
        };
        const struct ferry_json *at = value + 1;

        switch (value->kind) {
        case FERRY_JSON_NULL:
        case FERRY_JSON_FALSE:
        case FERRY_JSON_TRUE:
                ferry_json_put_text(writer, words[value->kind], strlen(words[value->kind]));
                break;
        case FERRY_JSON_INTEGER:
        case FERRY_JSON_NUMBER:
                ferry_json_put_text(writer, value->text, value->size);
                break;
        case FERRY_JSON_TEXT:
                ferry_json_put_string(writer, value->text);
                break;
        case FERRY_JSON_LIST:
                ferry_json_begin_array(writer);
                for (uint32_t i = 0; i < value->size; i++, at += at->span)
                        ferry_json_put_value(writer, at);
                ferry_json_end_array(writer);
                break;
        case FERRY_JSON_MEMBERS:
                ferry_json_begin_object(writer);
                for (uint32_t i = 0; i < value->size; i++, at += 1 + at[1].span) {
                        ferry_json_put_string(writer, at->text);
                        ferry_json_put_colon(writer);
                        ferry_json_put_value(writer, at + 1);
                }
                ferry_json_end_object(writer);
                break;
        }
}
