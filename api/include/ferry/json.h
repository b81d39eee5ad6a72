/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_JSON_H
#define FERRY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

/*
 * Strict JSON in, by tables. json-c alone accepts single-quoted keys, NaN, Infinity and duplicate keys, and saturates
 * integers; this module checks the text against RFC 8259 before json-c sees it. All functions: any thread.
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

/*
 * Parses one JSON text: RFC 8259 to the letter, UTF-8, no duplicate key in any object, nesting at most
 * FERRY_JSON_DEPTH, no NUL in a string, nothing but white space after it. An integer of any size is JSON; one of 2^53
 * or more in magnitude may come out saturated, and ferry_json_decode() finds it out of range.
 * 0 with *ret_object for json_object_put(); FERRY_E_INVALID_JSON with a complaint that gives line and column; -ENOMEM.
 */
int ferry_json_parse(const char *text, size_t length, struct json_object **ret_object,
                     struct ferry_json_errors *errors);

enum ferry_json_type {
        FERRY_JSON_STRING, /* const char *, owned by the json_object */
        FERRY_JSON_UINT,   /* uint64_t, min <= value <= max */
        FERRY_JSON_BOOL,   /* bool */
        FERRY_JSON_OBJECT, /* struct json_object *, borrowed */
        FERRY_JSON_ARRAY,  /* struct json_object *, borrowed; min <= elements <= max */
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
bool ferry_json_decode(struct json_object *object, const struct ferry_json_field *fields, size_t n, void *target,
                       const char *prefix, struct ferry_json_errors *errors);

#endif
