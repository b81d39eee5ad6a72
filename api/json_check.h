/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JSON_CHECK_H
#define API_JSON_CHECK_H

#include <stddef.h>

#include "json_values.h"

/* What is wrong with a text, and where. */
struct json_fault {
        const char *what;
        size_t line, column; /* from 1; columns count characters */
};

/*
 * Checks a text against RFC 8259: grammar, UTF-8, nesting at most FERRY_JSON_DEPTH, nothing but white space after the
 * value. Also refuses what the RFC only warns of: an object with the same key twice, lone surrogates, and NUL
 * characters (\u0000), which C strings cannot hold. Time n log n at worst, memory bounded by the text.
 * 0 with the values, which point into text; FERRY_E_INVALID_JSON with *ret_fault; -ENOMEM. values are for
 * json_values_clear or json_values_finish when it is 0.
 */
int json_check(const char *text, size_t length, struct json_values *ret_values, struct json_fault *ret_fault);

#endif
