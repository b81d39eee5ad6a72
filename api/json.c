/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json.h>

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

/*
 * JSON texts into json-c's trees. json-c is lax, in ways that change with its version, and takes much memory for some
 * short texts: what it must not see is found here first, by the bytes. Any thread; the tree is the caller's.
 */

/*
 * Bytes of memory that json-c takes, at most, with glibc on 64 bits: for each byte of a text (keys and strings, while
 * they are copied), each object with its first member, each array with its first element, and each comma, which has
 * another member or element behind it.
 */
enum { ROOM_BYTE = 4, ROOM_OBJECT = 896, ROOM_ARRAY = 448, ROOM_COMMA = 256 };

/* Keeps what there is room for, cut neither within a character nor within an escape of a pointer. */
static void keep(char *kept, size_t size, const char *text)
{
        size_t n = ferry_utf8_cut(text, size - 1);

        n -= n > 0 && text[n] && text[n - 1] == '~';
        memcpy(kept, text, n);
        kept[n] = '\0';
}

void ferry_json_complain(struct ferry_json_errors *errors, int error, const char *pointer, const char *format, ...)
{
        char detail[FERRY_JSON_DETAIL_SIZE + 4];
        struct ferry_json_complaint *item;
        va_list arguments;

        if (errors->error == 0)
                errors->error = error;
        if (errors->n == FERRY_JSON_ERRORS)
                return;
        item = &errors->items[errors->n++];
        va_start(arguments, format);
        (void)vsnprintf(detail, sizeof(detail), format, arguments);
        va_end(arguments);
        keep(item->pointer, sizeof(item->pointer), pointer);
        keep(item->detail, sizeof(item->detail), detail);
}

enum { BLOCK = 32 };

/* Whether a block of bytes needs no closer look; the compiler makes a few vector instructions of it. */
static bool is_plain(const char block[BLOCK])
{
        unsigned char odd = 0;

        for (size_t i = 0; i < BLOCK; i++)
                odd |= (unsigned char)((unsigned char)block[i] < ' ') |
                       (unsigned char)((unsigned char)block[i] > 0x7f) | (unsigned char)(block[i] == '\\');
        return !odd;
}

/* Bytes that no JSON text has, and NULs, which C strings cannot hold: json-c takes them. NULL: none; *ret_at: where. */
static const char *find_fault(const char *text, size_t length, size_t *ret_at)
{
        static const bool plain[256] = {
                ['\t'] = true, ['\n'] = true, ['\r'] = true, [' ' ... '['] = true, [']' ... 0x7f] = true
        };
        uint32_t character;
        size_t n;

        for (size_t at = 0; at < length; at += n) {
                n = BLOCK;
                if (length - at >= BLOCK && is_plain(text + at))
                        continue;
                n = 1;
                if (plain[(unsigned char)text[at]])
                        continue;
                *ret_at = at;
                if (text[at] == '\\') {
                        if (length - at > 5 && memcmp(text + at + 1, "u0000", 5) == 0)
                                return "\\u0000 is not accepted";
                        n += length - at > 1 && text[at + 1] == '\\';
                } else if ((unsigned char)text[at] < ' ') {
                        return "a control character must be escaped";
                } else {
                        n = ferry_utf8_length(text + at, length - at, &character);
                        if (!n)
                                return "not UTF-8";
                }
        }
        return NULL;
}

/* Complains about the text as a whole. at: the byte, counted from 0. Returns FERRY_E_INVALID_JSON. */
static int complain_of_text(struct ferry_json_errors *errors, size_t at, const char *what)
{
        ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "byte %zu: %s", at + 1, what);
        return FERRY_E_INVALID_JSON;
}

/* Before 0.18, json-c has no error for a lack of memory. */
static bool is_short_of_memory(enum json_tokener_error error)
{
#if JSON_C_VERSION_NUM >= (18 << 8)
        return error == json_tokener_error_memory;
#else
        return false;
#endif
}

/*
 * What a parser that has ended before the end of the text came upon: something behind the value, or, before json-c
 * 0.17, which then tells of no error, a lack of memory within the value.
 */
static int classify_rest(const char *text, size_t at, struct ferry_json_errors *errors)
{
        struct ferry_json_errors unused = { 0 };
        struct json_object *value;

        if (ferry_json_parse(text, at, &value, &unused) != 0)
                return -ENOMEM;
        json_object_put(value);
        return complain_of_text(errors, at, "something follows the value");
}

int ferry_json_parse(const char *text, size_t length, struct json_object **ret_root, struct ferry_json_errors *errors)
{
        struct json_tokener *tokener;
        struct json_object *root;
        enum json_tokener_error error;
        const char *fault;
        size_t at;

        if (length > INT_MAX)
                return complain_of_text(errors, INT_MAX, "the text is too long");
        if (ferry_json_room(text, length) > FERRY_JSON_ROOM_MAX) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", FERRY_JSON_TOO_MANY);
                return FERRY_E_INVALID_JSON;
        }
        fault = find_fault(text, length, &at);
        if (fault)
                return complain_of_text(errors, at, fault);
        /* json-c counts what is within the innermost brackets as a level. */
        tokener = json_tokener_new_ex(FERRY_JSON_DEPTH + 1);
        if (!tokener)
                return -ENOMEM;
        root = json_tokener_parse_ex(tokener, text, (int)length);
        at = json_tokener_get_parse_end(tokener);
        if (json_tokener_get_error(tokener) == json_tokener_continue)
                root = json_tokener_parse_ex(tokener, " ", 1); /* a number that is the root ends there */
        error = json_tokener_get_error(tokener);
        json_tokener_free(tokener);
        if (error == json_tokener_success && at == length) {
                *ret_root = root;
                return 0;
        }
        json_object_put(root);
        if (error == json_tokener_success)
                return classify_rest(text, at, errors);
        if (is_short_of_memory(error))
                return -ENOMEM;
        return complain_of_text(errors, at, at == length ? "the text ends too early" : json_tokener_error_desc(error));
}

size_t ferry_json_room(const char *text, size_t length)
{
        size_t objects = 0, arrays = 0, commas = 0;

        for (size_t i = 0; i < length; i++) {
                objects += text[i] == '{';
                arrays += text[i] == '[';
                commas += text[i] == ',';
        }
        return ROOM_BYTE * length + ROOM_OBJECT * objects + ROOM_ARRAY * arrays + ROOM_COMMA * commas;
}
