/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_JSON_H
#define FERRY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

/*
 * Strict JSON decoding, by tables. Our own check enforces RFC 8259 to the letter, which json-c does not; json-c reads
 * the values. A tree of 65,536 descriptors would take 80 MB: a long list is therefore an empty array in json-c's tree,
 * and its elements are read in small batches on demand. All functions: any thread; one text and its values belong to
 * one thread at a time.
 */

enum {
        FERRY_JSON_DEPTH = 8,     /* deepest nesting accepted */
        FERRY_JSON_VALUES = 2048, /* most values at once, in one batch of a long list twice: 8 MiB of them take 2 GB */
        FERRY_JSON_ERRORS = 16,   /* most complaints collected for one body */
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

/* The check of ferry_json_parse alone, for callers that need no values. The same results. */
int ferry_json_check(const char *text, size_t length, struct ferry_json_errors *errors);

/* A parsed text. */
struct ferry_json;

/*
 * Parses one JSON text, which must stay as it is until ferry_json_free(): RFC 8259 to the letter, UTF-8, no duplicate
 * key in any object, nesting at most FERRY_JSON_DEPTH, at most FERRY_JSON_VALUES values (each element of a long list
 * has as many for itself), no NUL in a string, nothing but white space after it. kept, when not NULL, names a member of
 * the root that is only passed on: where its value is an object, json-c's tree has an empty array in its place, which
 * is for ferry_json_text() alone.
 * 0 with *ret_json for ferry_json_free(); FERRY_E_INVALID_JSON with a complaint that gives line and column; -ENOMEM.
 */
int ferry_json_parse(const char *text, size_t length, const char *kept, struct ferry_json **ret_json,
                     struct ferry_json_errors *errors);

/* Takes NULL; returns NULL. */
struct ferry_json *ferry_json_free(struct ferry_json *json);

/*
 * The root value, for json-c's functions; NULL = null. Borrowed. Integers saturate at the 64-bit limits. json-c sees a
 * long list as an empty array: read the elements of every array with the functions below.
 */
struct json_object *ferry_json_root(const struct ferry_json *json);

/* A value as text, not NUL-terminated: the original text of a kept value or a long list, json-c's text of any other.
 * Borrowed; NULL when memory is short. */
const char *ferry_json_text(struct json_object *value, size_t *ret_size);

/* How many elements an array has. Only for arrays of a parsed text. */
size_t ferry_json_count(struct json_object *array);

/* The elements of one array, from the first on. */
struct ferry_json_elements {
        size_t left;
        struct json_object *array; /* has the next ones; NULL = none are made yet */
        size_t next;               /* in the array */
        const char *at, *end;      /* what is left of the list's text; NULL = all are in the array */
        struct ferry_json *batch; /* owned: what the array belongs to if they are made from the text; NULL = none yet */
};

/* Starts at the first element. For ferry_json_elements_clear; the array, of a parsed text, must outlive it. */
struct ferry_json_elements ferry_json_elements(struct json_object *array);

/* 1 with the next element, borrowed until the next call; 0 after the last; -ENOMEM. */
int ferry_json_next(struct ferry_json_elements *elements, struct json_object **ret_element);

void ferry_json_elements_clear(struct ferry_json_elements *elements);

/*
 * The text of an array's next element. *at: where the array's text begins, then what the call before left there. The
 * text has been checked. false: there is none.
 */
bool ferry_json_next_text(const char **at, const char **ret_text, size_t *ret_size);

/*
 * The elements of an array of integers, each 0 to FERRY_JSON_INTEGER_MAX, into numbers, which has room for all. *ret_n:
 * how many there are before the first that is something else. 0 or -ENOMEM.
 */
int ferry_json_get_uints(struct json_object *array, uint64_t numbers[], size_t *ret_n);

/* An integer that is not negative; one beyond 64 bits is UINT64_MAX. false when it is anything else. */
bool ferry_json_get_uint(const struct json_object *value, uint64_t *ret_number);

enum ferry_json_type {
        FERRY_JSON_STRING, /* const char *, owned by its object */
        FERRY_JSON_UINT,   /* uint64_t, min <= value <= max */
        FERRY_JSON_BOOL,   /* bool */
        FERRY_JSON_KEPT,   /* struct json_object *, borrowed: an object that was kept, for ferry_json_text() */
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

/* The same for the i-th element of the list at prefix: pointers begin with prefix + "/i". */
bool ferry_json_decode_element(struct json_object *object, const struct ferry_json_field *fields, size_t n,
                               void *target, const char *prefix, size_t i, struct ferry_json_errors *errors);

#endif
