/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_CHECK_H
#define API_JSON_CHECK_H

#include <stddef.h>

/* What is wrong with a text, and where. */
struct json_fault {
        const char *what;
        size_t line, column; /* from 1 */
};

/*
 * Checks a text against RFC 8259: grammar, UTF-8, nesting at most FERRY_JSON_DEPTH, nothing but white space after the
 * value. Also refuses NUL characters (\u0000), which C strings cannot hold, and lone surrogates. Linear time, no
 * memory. 0 with *ret_keys, the number of keys in all objects; -1 with *ret_fault.
 */
int json_check(const char *text, size_t length, size_t *ret_keys, struct json_fault *ret_fault);

#endif
