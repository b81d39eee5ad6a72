/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/encoding.h>

/*
 * JSON straight to text. Whether a comma is due shows in the byte before; the writer keeps no stack, and trusts its
 * caller to end what was begun. Once memory was short, all functions do nothing. One writer belongs to one thread at a
 * time.
 */

enum { ROOM_FIRST = 512 };

/* Makes room for n bytes more, and one. false: memory is short, and the writer has failed for good. */
static bool grow(struct ferry_json_writer *writer, size_t n)
{
        size_t wanted;
        char *text = NULL;

        if (!__builtin_add_overflow(writer->size, n, &wanted) && wanted < SIZE_MAX)
                text = ferry_reserve(writer->text, &writer->room, wanted < ROOM_FIRST ? ROOM_FIRST : wanted + 1, 1);
        writer->failed = !text;
        if (text)
                writer->text = text;
        return text;
}

/* Where the next n bytes go, and one more for a NUL or a newline; NULL when memory is short. */
static inline char *reserve(struct ferry_json_writer *writer, size_t n)
{
        if (writer->failed || (writer->room - writer->size <= n && !grow(writer, n)))
                return NULL;
        return writer->text + writer->size;
}

/* Adds bytes that need no comma before them. */
static void append(struct ferry_json_writer *writer, const char *bytes, size_t n)
{
        char *at = reserve(writer, n);

        if (!at)
                return;
        memcpy(at, bytes, n);
        writer->size += n;
}

/*
 * Where the n bytes of a key or a value go: after a comma, unless it is the first of its list or the value of a key;
 * what was written last says so. Whoever writes them tells end_at how far.
 */
static inline char *begin_at(struct ferry_json_writer *writer, size_t n)
{
        char *at, last;

        at = reserve(writer, n + 1);
        if (!at)
                return NULL;
        last = writer->size ? at[-1] : '[';
        if (last != '{' && last != '[' && last != ':')
                *at++ = ',';
        return at;
}

static inline void end_at(struct ferry_json_writer *writer, const char *end)
{
        writer->size = (size_t)(end - writer->text);
}

static void put_bytes(struct ferry_json_writer *writer, const char *bytes, size_t n)
{
        char *at = begin_at(writer, n);

        if (!at)
                return;
        memcpy(at, bytes, n);
        end_at(writer, at + n);
}

void ferry_json_begin_object(struct ferry_json_writer *writer)
{
        put_bytes(writer, "{", 1);
}

void ferry_json_end_object(struct ferry_json_writer *writer)
{
        append(writer, "}", 1);
}

void ferry_json_begin_array(struct ferry_json_writer *writer)
{
        put_bytes(writer, "[", 1);
}

void ferry_json_end_array(struct ferry_json_writer *writer)
{
        append(writer, "]", 1);
}

void ferry_json_key(struct ferry_json_writer *writer, const char *key)
{
        size_t n = strlen(key);
        char *at = begin_at(writer, n + strlen("\"\":"));

        if (!at)
                return;
        *at++ = '"';
        memcpy(at, key, n);
        memcpy(at + n, "\":", 2);
        end_at(writer, at + n + 2);
}

void ferry_json_open_object(struct ferry_json_writer *writer, const char *key)
{
        ferry_json_key(writer, key);
        ferry_json_begin_object(writer);
}

void ferry_json_open_array(struct ferry_json_writer *writer, const char *key)
{
        ferry_json_key(writer, key);
        ferry_json_begin_array(writer);
}

void ferry_json_put_plain(struct ferry_json_writer *writer, const char *text, size_t n)
{
        char *at = begin_at(writer, n + strlen("\"\""));

        if (!at)
                return;
        *at++ = '"';
        memcpy(at, text, n);
        at[n] = '"';
        end_at(writer, at + n + 1);
}

static void append_escape(struct ferry_json_writer *writer, unsigned char c)
{
        static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt", digits[] = "0123456789abcdef";
        const char *found = memchr(plain, c, sizeof(plain) - 1);
        const char escape[] = { '\\', found ? letters[found - plain] : 'u', '0', '0', digits[c >> 4], digits[c & 15] };

        append(writer, escape, found ? 2 : 6);
}

/* How many bytes stand before the first that needs an escape, or the end. */
static size_t span_plain(const char *text)
{
        static const bool plain[256] = { [0x20 ... 0x21] = true, [0x23 ... 0x5b] = true, [0x5d ... 0xff] = true };
        size_t n = 0;

        while (plain[(unsigned char)text[n]])
                n++;
        return n;
}

void ferry_json_put_string(struct ferry_json_writer *writer, const char *text)
{
        size_t n = span_plain(text);

        if (!text[n]) {
                ferry_json_put_plain(writer, text, n);
                return;
        }
        put_bytes(writer, "\"", 1);
        for (; *text; text += n) {
                n = span_plain(text);
                append(writer, text, n);
                if (text[n])
                        append_escape(writer, (unsigned char)text[n++]);
        }
        append(writer, "\"", 1);
}

void ferry_json_put_uint(struct ferry_json_writer *writer, uint64_t number)
{
        char *at = begin_at(writer, FERRY_UINT_TEXT_SIZE);

        if (at)
                end_at(writer, at + ferry_uint_format(number, at));
}

void ferry_json_put_bool(struct ferry_json_writer *writer, bool value)
{
        put_bytes(writer, value ? "true" : "false", value ? 4 : 5);
}

void ferry_json_put_text(struct ferry_json_writer *writer, const char *json, size_t size)
{
        put_bytes(writer, json, size);
}

void ferry_json_add_string(struct ferry_json_writer *writer, const char *key, const char *text)
{
        ferry_json_key(writer, key);
        ferry_json_put_string(writer, text);
}

void ferry_json_add_uint(struct ferry_json_writer *writer, const char *key, uint64_t number)
{
        ferry_json_key(writer, key);
        ferry_json_put_uint(writer, number);
}

void ferry_json_add_bool(struct ferry_json_writer *writer, const char *key, bool value)
{
        ferry_json_key(writer, key);
        ferry_json_put_bool(writer, value);
}

void ferry_json_add_id(struct ferry_json_writer *writer, const char *key, const char *prefix, uint64_t id)
{
        char text[FERRY_ID_TEXT_SIZE];

        ferry_id_format(prefix, id, text);
        ferry_json_key(writer, key);
        ferry_json_put_plain(writer, text, strlen(text));
}

char *ferry_json_take(struct ferry_json_writer *writer, size_t *ret_size)
{
        char *text = NULL, *end = reserve(writer, 0);

        if (end) {
                *end = '\0';
                text = writer->text;
                writer->text = NULL;
                if (ret_size)
                        *ret_size = writer->size;
        }
        ferry_json_writer_clear(writer);
        return text;
}

void ferry_json_writer_clear(struct ferry_json_writer *writer)
{
        free(writer->text);
        *writer = (struct ferry_json_writer){ 0 };
}
