/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_JSON_H
#define FERRY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ferry_json_writer;

/*
 * Strict JSON in, by tables: the text is checked against RFC 8259 and, in the same pass, becomes a flat list of its
 * values. Lists of 65,536 descriptors come in here; a tree of allocated objects took ten times as long and as much
 * memory. All functions: any thread.
 */

enum {
        FERRY_JSON_DEPTH = 8,   /* deepest nesting accepted */
        FERRY_JSON_ERRORS = 16, /* most complaints collected for one body */
        FERRY_JSON_DETAIL_SIZE = 160,
        FERRY_JSON_POINTER_SIZE = 96,
};

#define FERRY_JSON_INTEGER_MAX ((UINT64_C(1) << 53) - 1) /* what JavaScript and jq keep exact */

/* One complaint about a body: where (RFC 6901 pointer, "" = the whole) and what. */
struct ferry_json_complaint {
        char pointer[FERRY_JSON_POINTER_SIZE];
        char detail[FERRY_JSON_DETAIL_SIZE];
};

/* The complaints about one body. error is the FERRY_E_* of the first; later ones do not change it. */
struct ferry_json_errors {
        int error;
        size_t n;
        struct ferry_json_complaint items[FERRY_JSON_ERRORS];
};

/* Adds a complaint; drops it silently when the list is full. format as printf. */
void ferry_json_complain(struct ferry_json_errors *errors, int error, const char *pointer, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

enum ferry_json_kind {
        FERRY_JSON_NULL,
        FERRY_JSON_FALSE,
        FERRY_JSON_TRUE,
        FERRY_JSON_INTEGER, /* digits only, perhaps after a minus; of any size */
        FERRY_JSON_NUMBER,  /* with a fraction or an exponent */
        FERRY_JSON_TEXT,
        FERRY_JSON_LIST,
        FERRY_JSON_MEMBERS, /* an object */
};

/*
 * A value of a parsed text. What is within it follows it: the elements of a list; key (a text), value, key, value of an
 * object. Each takes span places, itself included, so that the next one is at value + value->span.
 */
struct ferry_json {
        const char *text; /* of a text: its characters, then a NUL; of a number: as it stood, without a NUL */
        uint32_t size;    /* bytes of text; or elements of a list, members of an object */
        uint32_t span;
        enum ferry_json_kind kind;
};

/*
 * Parses one JSON text: RFC 8259 to the letter, UTF-8, no duplicate key in any object, nesting at most
 * FERRY_JSON_DEPTH, no NUL in a string, nothing but white space after it.
 * 0 with *ret_json for ferry_json_free(); FERRY_E_INVALID_JSON with a complaint that gives line and column; -ENOMEM.
 */
int ferry_json_parse(const char *text, size_t length, struct ferry_json **ret_json, struct ferry_json_errors *errors);

/* Only what ferry_json_parse gave. Takes NULL; returns NULL. */
struct ferry_json *ferry_json_free(struct ferry_json *json);

/* The value of a key; NULL when there is none, or when this is no object (NULL is none either). */
const struct ferry_json *ferry_json_member(const struct ferry_json *object, const char *key);

/* An integer that is not negative; one beyond 64 bits is UINT64_MAX. false when it is anything else. */
bool ferry_json_get_uint(const struct ferry_json *value, uint64_t *ret_number);

/* The value as text again, without white space. */
void ferry_json_put_value(struct ferry_json_writer *writer, const struct ferry_json *value);

enum ferry_json_type {
        FERRY_JSON_STRING, /* const char *, owned by the parsed text */
        FERRY_JSON_UINT,   /* uint64_t, min <= value <= max */
        FERRY_JSON_BOOL,   /* bool */
        FERRY_JSON_OBJECT, /* const struct ferry_json *, borrowed */
        FERRY_JSON_ARRAY,  /* const struct ferry_json *, borrowed; min <= elements <= max */
};

/*
 * One field of an object. The value is stored at offset in the target; an absent field leaves the target untouched, so
 * defaults are set before. For strings, min and max bound the length in bytes (max 0 = FERRY_JSON_INTEGER_MAX for all
 * types). names, when not NULL, is the closed list of strings accepted, ended by NULL.
 */
struct ferry_json_field {
        const char *name;
        enum ferry_json_type type;
        bool required;
        size_t offset;
        uint64_t min, max;
        const char *const *names;
};

/*
 * Decodes an object by a table of n fields. Each problem (wrong type, out of range, missing, unknown key, not an
 * object) is one complaint whose pointer is prefix + "/name". "prefix" is "" for the whole body.
 * Returns true when there was no complaint from this call. null counts as a wrong type.
 */
bool ferry_json_decode(const struct ferry_json *object, const struct ferry_json_field *fields, size_t n, void *target,
                       const char *prefix, struct ferry_json_errors *errors);

/* The same for the i-th element of the list at prefix: pointers begin with prefix + "/i". */
bool ferry_json_decode_element(const struct ferry_json *object, const struct ferry_json_field *fields, size_t n,
                               void *target, const char *prefix, size_t i, struct ferry_json_errors *errors);

#endif
