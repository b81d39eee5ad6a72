/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_DECODE_H
#define CLIENT_DECODE_H

#include <stdbool.h>
#include <stddef.h>

struct json_object;

/* Answers into structs, by tables. Unknown fields are skipped, so that newer workers can be understood. Pure. */

enum decode_type {
        DECODE_TEXT,   /* char[]: a string without NUL; one that does not fit is an error */
        DECODE_LABEL,  /* the same, and a number is taken as its text */
        DECODE_PROSE,  /* char[]: a string; what does not fit is cut off, between characters */
        DECODE_UINT,   /* uint64_t */
        DECODE_BOOL,   /* bool */
        DECODE_KIND,   /* int: enum ferry_kind, or -1 */
        DECODE_STATUS, /* int: enum ferry_status, or -1 */
        DECODE_LAYOUT, /* int: enum ferry_layout, or -1 */
        DECODE_VALUE,  /* struct json_object *, borrowed: of any type */
};

enum { DECODE_FIELDS_MAX = 48 }; /* most in one table */

struct decode_field {
        const char *name;
        enum decode_type type;
        bool required;
        size_t offset, size; /* in the target */
};

#define DECODE_FIELD(name, type, required, target, field)                                                              \
        {                                                                                                              \
                name, type, required, offsetof(target, field), sizeof(((target *)0)->field)                            \
        }

/*
 * 0; -EPROTO with *ret_field naming what is wrong, the first in the order of the table. Absent fields (and null) leave
 * the target untouched. Fastest where the members stand in that order.
 */
int decode_object(struct json_object *json, const struct decode_field *fields, size_t n, void *target,
                  const char **ret_field);

/* {"code":…,"detail":…}, why something failed. json NULL leaves it untouched. As decode_object. */
struct decode_error {
        int number; /* FERRY_E_*, FERRY_E_OTHER; 0 = nothing failed */
        char code[64], detail[512];
};
int decode_error(struct json_object *json, struct decode_error *error, const char **ret_field);

/* One page: {"<key>":[…],"next":"…"}. */
struct decode_list {
        const char *key;
        size_t item_size;
        int (*decode)(struct json_object *json, void *item, const char **ret_field);
        void (*clear)(void *item); /* NULL = items own nothing */
};

/* What ferry_region_list and ferry_operation_list have in common. */
struct decode_page {
        void *items;
        size_t n;
        char *next;
};

/* 0; -EPROTO; -ENOMEM. */
int decode_page(struct json_object *json, const struct decode_list *list, struct decode_page *ret_page,
                const char **ret_field);

/* call_decoders; see client_internal.h */
int region_decode(struct json_object *json, void *region, const char **ret_field);
int region_page_decode(struct json_object *json, void *list, const char **ret_field);
int operation_decode(struct json_object *json, void *operation, const char **ret_field);
int operation_page_decode(struct json_object *json, void *list, const char **ret_field);

#endif
