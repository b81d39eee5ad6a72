/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_JSON_WRITE_H
#define FERRY_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * JSON encoding, straight to text: a tree of objects takes 1.2 times as long for small documents, twice as long for
 * lists of descriptors, and four times the memory. The writer adds the commas. One writer belongs to one thread at a
 * time.
 */

struct ferry_json_writer {
        char *text; /* owned; not terminated before ferry_json_take */
        size_t size, room;
        bool failed; /* memory was short: all that follows does nothing, and ferry_json_take gives NULL */
};

void ferry_json_begin_object(struct ferry_json_writer *writer);
void ferry_json_end_object(struct ferry_json_writer *writer);
void ferry_json_begin_array(struct ferry_json_writer *writer);
void ferry_json_end_array(struct ferry_json_writer *writer);

/* The key of a member, whose value comes next. A literal without characters that need an escape. */
void ferry_json_key(struct ferry_json_writer *writer, const char *key);

/* Values. Text is UTF-8. */
void ferry_json_put_string(struct ferry_json_writer *writer, const char *text);
/* n bytes of text of which none needs an escape. */
void ferry_json_put_plain(struct ferry_json_writer *writer, const char *text, size_t n);
void ferry_json_put_uint(struct ferry_json_writer *writer, uint64_t number);
void ferry_json_put_bool(struct ferry_json_writer *writer, bool value);
/* One whole value, as it stands. */
void ferry_json_put_text(struct ferry_json_writer *writer, const char *json, size_t size);

/* A key with its value. */
void ferry_json_add_string(struct ferry_json_writer *writer, const char *key, const char *text);
void ferry_json_add_uint(struct ferry_json_writer *writer, const char *key, uint64_t number);
void ferry_json_add_bool(struct ferry_json_writer *writer, const char *key, bool value);
/* prefix + 16 hexadecimal digits, as ferry_id_format. */
void ferry_json_add_id(struct ferry_json_writer *writer, const char *key, const char *prefix, uint64_t id);
/* A key with an object or array, which the caller ends. */
void ferry_json_open_object(struct ferry_json_writer *writer, const char *key);
void ferry_json_open_array(struct ferry_json_writer *writer, const char *key);

/* The text, terminated, for free(), and its length without the NUL (may be NULL); the writer is empty again. NULL when
 * memory was short. */
char *ferry_json_take(struct ferry_json_writer *writer, size_t *ret_size);

/* Drops the text. */
void ferry_json_writer_clear(struct ferry_json_writer *writer);

#endif
