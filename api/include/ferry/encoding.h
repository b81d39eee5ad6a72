/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_ENCODING_H
#define FERRY_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text forms of binary things. All functions are pure and may be called from any thread. */

enum {
        FERRY_KEY_SIZE = 32,       /* bytes of a notification key */
        FERRY_KEY_TEXT_SIZE = 44,  /* its base64url text without padding, and the final NUL */
        FERRY_ID_TEXT_SIZE = 24,   /* "op_" or "rgn_", 16 hexadecimal digits, and the final NUL */
        FERRY_UINT_TEXT_SIZE = 21, /* 20 digits and the final NUL */
};

/* Writes a number in decimal; returns the number of digits. Ten times as fast as printf. */
size_t ferry_uint_format(uint64_t number, char text[FERRY_UINT_TEXT_SIZE]);

/*
 * Reads the decimal digits at the start of text. Returns where they end; NULL without a digit. A larger number than
 * UINT64_MAX saturates.
 */
const char *ferry_uint_read(const char *text, uint64_t *ret_number);

/* Reads a text of digits alone. false: another character, no digit, or a number above max. */
bool ferry_uint_parse(const char *text, uint64_t max, uint64_t *ret_number);

/* Begins the name of the memfd that a region is; the region's id follows. */
#define FERRY_REGION_FILE "ferry-region:"

/* "op_" / "rgn_" + 16 lower case hexadecimal digits into text[FERRY_ID_TEXT_SIZE]. */
void ferry_id_format(const char *prefix, uint64_t id, char *text);

/* The reverse. false when text is not prefix + exactly 16 lower case digits, or the id is 0. */
bool ferry_id_parse(const char *prefix, const char *text, uint64_t *ret_id);

/* Key to base64url without padding, 43 characters and a NUL. */
void ferry_key_format(const uint8_t key[FERRY_KEY_SIZE], char text[FERRY_KEY_TEXT_SIZE]);

/* The reverse; only the canonical form is accepted (length 43, unused low bits zero). */
bool ferry_key_parse(const char *text, uint8_t ret_key[FERRY_KEY_SIZE]);

/* The value of a hexadecimal digit in either case; -1 for any other character. */
int ferry_hex_digit(char c);

/*
 * The length of the UTF-8 sequence (RFC 3629) at the start of text, of which size bytes may be read, and its character;
 * 0 when it is not well formed.
 */
size_t ferry_utf8_length(const char *text, size_t size, uint32_t *ret_character);

/* Whether text consists of such sequences. */
bool ferry_utf8_valid(const char *text);

/* How many bytes of a UTF-8 text, at most max, end between two characters. */
size_t ferry_utf8_cut(const char *text, size_t max);

/* Compares two keys in time that does not depend on their content. */
bool ferry_key_equal(const uint8_t a[FERRY_KEY_SIZE], const uint8_t b[FERRY_KEY_SIZE]);

/* Compares two strings in time that depends on their lengths alone. */
bool ferry_secret_equal(const char *given, const char *secret);

enum { FERRY_DIGEST_TEXT_SIZE = 24 }; /* "xxh3=:" 12 characters ":" and the NUL */

/* An XXH3-64 as a Content-Digest header has it (RFC 9530): "xxh3=:BASE64:", most significant byte first. */
void ferry_digest_format(uint64_t digest, char text[FERRY_DIGEST_TEXT_SIZE]);

/* Finds the XXH3-64 among the digests of a Content-Digest value of size bytes. false: no valid one. */
bool ferry_digest_parse(const char *value, size_t size, uint64_t *ret_digest);

/* Standard base64 with padding. Returns a string for free(), or NULL when memory is short. */
char *ferry_base64_encode(const void *data, size_t size);

/*
 * The reverse; only the canonical form is accepted (padding, unused low bits zero, no white space).
 * 0 with *ret_data for free(); -EINVAL; -ENOMEM.
 */
int ferry_base64_decode(const char *text, size_t length, void **ret_data, size_t *ret_size);

#endif
