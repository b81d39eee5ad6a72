/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct ferry_json_errors;

/* What libFuzzer, or replay.c, calls with each input. Any failure aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                          \
                        abort();                                                                                       \
                }                                                                                                      \
        } while (0)

/* There is a complaint, and all of them can stand in a JSON answer. */
void fuzz_check_errors(const struct ferry_json_errors *errors);

/* Decodes a document; what is accepted must be JSON and come out of the encoder as it was. */
void fuzz_decode_metadata(const char *text, size_t size);

#endif
