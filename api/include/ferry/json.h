/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_JSON_H
#define FERRY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

/*
 * JSON decoding: json-c reads a text into a tree, which is then decoded by tables that check each value. All functions:
 * any thread; one tree belongs to one thread at a time.
 */

enum {
        FERRY_JSON_DEPTH = 8,   /* deepest nesting accepted; an empty object or array may stand one level deeper */
        FERRY_JSON_ERRORS = 16, /* most complaints collected for one body */
        FERRY_JSON_DETAIL_SIZE = 160,
        FERRY_JSON_POINTER_SIZE = 96,
};

#define FERRY_JSON_ROOM_MAX ((size_t)512 << 20) /* bytes of memory that one text may need, by ferry_json_room() */
#define FERRY_JSON_TOO_MANY "more values than any document has"
#define FERRY_JSON_INTEGER_MAX ((UINT64_C(1) << 53) - 1) /* what JavaScript and jq keep exact */

/* One complaint about a body: where (RFC 6901 pointer, "" = the whole) and what. */
struct ferry_json_complaint {
        char pointer[FERRY_JSON_POINTER_SIZE];
        char detail[FERRY_JSON_DETAIL_SIZE];
};

/*
 * The complaints about one body. error is the FERRY_E_* of the first; later ones do not change it. lenient: the body is
 * an answer, whose writer may be newer: unknown fields are skipped, and null counts as absent.
 */
struct ferry_json_errors {
        bool lenient; /* set before */
        int error;
        size_t n;
        struct ferry_json_complaint items[FERRY_JSON_ERRORS];
};

/* Adds a complaint; drops it silently when the list is full. format as printf. */
void ferry_json_complain(struct ferry_json_errors *errors, int error, const char *pointer, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/*
 * Parses one JSON text. json-c takes more than RFC 8259 has: single quotes, NaN, comments, a comma too many; the last
 * of several members of one name counts. Not in its strict mode, which is another one in each version: that of 0.18
 * refuses whatever is not ASCII. Refused besides are texts that may need more memory than FERRY_JSON_ROOM_MAX, texts
 * that are not UTF-8, control characters, and NUL, also as \u0000. Integers saturate at the 64-bit limits. 0 with
 * *ret_root for json_object_put(), NULL = null; FERRY_E_INVALID_JSON with a complaint; -ENOMEM.
 */
int ferry_json_parse(const char *text, size_t length, struct json_object **ret_root, struct ferry_json_errors *errors);

/* The most bytes of memory that ferry_json_parse() takes for a text, whatever is in it: up to 400 times its length. */
size_t ferry_json_room(const char *text, size_t length);

/*
 * The elements of an array of integers, each 0 to FERRY_JSON_INTEGER_MAX, into numbers, which has room for all. Returns
 * how many there are before the first that is something else.
 */
size_t ferry_json_get_uints(const struct json_object *array, uint64_t numbers[]);

/* An integer that is not negative; one beyond 64 bits is UINT64_MAX. false when it is anything else. */
bool ferry_json_get_uint(const struct json_object *value, uint64_t *ret_number);

/* ---- members of documents that describe a worker ---- */

/*
 * The text of a member, borrowed: not empty, shorter than size, printable ASCII without blanks, quotes and backslashes,
 * as in metadata. NULL: it is missing or something else.
 */
const char *ferry_json_get_text(struct json_object *object, const char *name, size_t size);

/* The member "epoch": 16 lower case hexadecimal digits, not 0. */
bool ferry_json_get_epoch(struct json_object *object, uint64_t *ret_epoch);

enum ferry_json_type {
        FERRY_JSON_STRING, /* const char *, owned by its object */
        FERRY_JSON_UINT,   /* uint64_t, min <= value <= max */
        FERRY_JSON_BOOL,   /* bool */
        FERRY_JSON_OBJECT, /* struct json_object *, borrowed */
        FERRY_JSON_ARRAY,  /* struct json_object *, borrowed; min <= elements <= max */
        FERRY_JSON_TEXT,   /* char[max + 1] */
        FERRY_JSON_PROSE,  /* the same; what does not fit is cut off, between characters */
};

/*
 * One field of an object. The value is stored at offset in the target; an absent field leaves the target untouched, so
 * defaults are set before. For strings, min and max bound the length in bytes (max 0 = FERRY_JSON_INTEGER_MAX for all
 * types). names, when not NULL, is the closed list of strings accepted, ended by NULL; of an integer one
 * that may stand in its place, as UINT64_MAX.
 */
struct ferry_json_field {
        const char *name;
        enum ferry_json_type type;
        bool required;
        size_t offset;
        uint64_t min, max;
        const char *const *names;
};

/* Lists of names for such a field: those of the enums of status.h, by value. */
extern const char *const ferry_kind_names[], *const ferry_status_names[], *const ferry_layout_names[];

/* A row without bounds, but for the size of text, for a member of a struct. */
#define FERRY_JSON_FIELD(name, type, required, object, member)                                                         \
        {                                                                                                              \
                name, FERRY_JSON_##type, required, offsetof(object, member), 0,                                        \
                        FERRY_JSON_##type >= FERRY_JSON_TEXT ? sizeof(((object *)0)->member) - 1 : 0, NULL             \
        }

/*
 * Decodes an object by a table of n fields, at most 64. It is fastest where the members stand in the order of the
 * table. Each problem (wrong type, out of range, missing, unknown key, not an object) is one complaint whose pointer is
 * prefix + "/name". "prefix" is "" for the whole body. Returns true when there was no complaint from this call. null
 * counts as a wrong type, except in a lenient call.
 */
bool ferry_json_decode(struct json_object *object, const struct ferry_json_field *fields, size_t n, void *target,
                       const char *prefix, struct ferry_json_errors *errors);

/* The same for the i-th element of the list at prefix: pointers begin with prefix + "/i". */
bool ferry_json_decode_element(struct json_object *object, const struct ferry_json_field *fields, size_t n,
                               void *target, const char *prefix, size_t i, struct ferry_json_errors *errors);

#endif
