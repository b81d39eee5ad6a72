/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/util.h>

/*
 * Text forms of numbers, ids, keys and digests, and UTF-8. The parsers of ids, keys and base64 take one form of each
 * value, so that two different texts never name the same thing. Pure; any thread.
 */

enum { ID_DIGITS = 16 };

size_t ferry_uint_format(uint64_t number, char text[FERRY_UINT_TEXT_SIZE])
{
        char digits[FERRY_UINT_TEXT_SIZE], *end = digits + sizeof(digits), *first = end;

        *--first = '\0';
        do
                *--first = (char)('0' + number % 10);
        while (number /= 10);
        memcpy(text, first, (size_t)(end - first));
        return (size_t)(end - first) - 1;
}

const char *ferry_uint_read(const char *text, uint64_t *ret_number)
{
        const char *c = text;
        uint64_t number = 0;

        for (; *c >= '0' && *c <= '9'; c++)
                if (__builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number))
                        number = UINT64_MAX;
        if (c == text)
                return NULL;
        *ret_number = number;
        return c;
}

bool ferry_uint_parse(const char *text, uint64_t max, uint64_t *ret_number)
{
        uint64_t number;
        const char *end = ferry_uint_read(text, &number);

        if (!end || *end || number > max)
                return false;
        *ret_number = number;
        return true;
}

void ferry_id_format(const char *prefix, uint64_t id, char *text)
{
        size_t n = 0;

        for (; prefix[n] && n < FERRY_ID_TEXT_SIZE - 1 - ID_DIGITS; n++)
                text[n] = prefix[n];
        for (unsigned i = ID_DIGITS; i-- > 0; id >>= 4)
                text[n + i] = "0123456789abcdef"[id & 15];
        text[n + ID_DIGITS] = '\0';
}

int ferry_hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t ferry_utf8_length(const char *text, size_t size, uint32_t *ret_character)
{
        static const struct {
                unsigned char mask, lead;
                uint32_t least;
        } forms[] = { { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };
        const unsigned char *at = (const unsigned char *)text;

        for (size_t n = 1; n <= FERRY_ARRAY_SIZE(forms) && n <= size; n++) {
                if ((at[0] & forms[n - 1].mask) != forms[n - 1].lead)
                        continue;
                uint32_t c = at[0] & (unsigned char)~forms[n - 1].mask;
                for (size_t i = 1; i < n; i++) {
                        if ((at[i] & 0xc0) != 0x80)
                                return 0;
                        c = c << 6 | (at[i] & 0x3f);
                }
                if (c < forms[n - 1].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                        return 0;
                *ret_character = c;
                return n;
        }
        return 0;
}

bool ferry_utf8_valid(const char *text)
{
        size_t size = strlen(text), n;
        uint32_t character;

        for (size_t at = 0; at < size; at += n) {
                n = ferry_utf8_length(text + at, size - at, &character);
                if (!n)
                        return false;
        }
        return true;
}

size_t ferry_utf8_cut(const char *text, size_t max)
{
        size_t n = strnlen(text, max);

        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
                n--;
        return n;
}

bool ferry_id_parse(const char *prefix, const char *text, uint64_t *ret_id)
{
        size_t n = strlen(prefix);
        uint64_t id = 0;

        if (strncmp(text, prefix, n) != 0 || strlen(text + n) != ID_DIGITS)
                return false;
        for (const char *c = text + n; *c; c++) {
                int digit = ferry_hex_digit(*c);

                if (digit < 0 || (*c >= 'A' && *c <= 'F'))
                        return false;
                id = id << 4 | (uint64_t)digit;
        }
        if (id == 0)
                return false;
        *ret_id = id;
        return true;
}

/* ---- base64: one codec for both alphabets ---- */

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Writes the characters of size bytes without padding; returns how many. */
static size_t encode(const char *alphabet, const uint8_t *data, size_t size, char *text)
{
        size_t n = 0, i = 0;

        for (; size - i >= 3; i += 3) {
                uint32_t bits = (uint32_t)data[i] << 16 | (uint32_t)data[i + 1] << 8 | data[i + 2];

                text[n++] = alphabet[bits >> 18];
                text[n++] = alphabet[bits >> 12 & 63];
                text[n++] = alphabet[bits >> 6 & 63];
                text[n++] = alphabet[bits & 63];
        }
        if (i < size) {
                uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < size ? (uint32_t)data[i + 1] << 8 : 0);

                text[n++] = alphabet[bits >> 18];
                text[n++] = alphabet[bits >> 12 & 63];
                if (i + 1 < size)
                        text[n++] = alphabet[bits >> 6 & 63];
        }
        return n;
}

/* A character's place in both alphabets, from 1; 0 = not one of those that they share, which are all but the last two.
 */
static const uint8_t shared[256] = {
        ['A'] = 1, 2,  3,  4,  5,  6,          7,  8,  9,  10, 11,         12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22,        23, 24, 25, 26, ['a'] = 27, 28, 29, 30, 31, 32,         33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
        43,        44, 45, 46, 47, 48,         49, 50, 51, 52, ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,
};

/* The value of a character, 0 to 63; below 0: it is not in the alphabet. */
static int value_of(const char *alphabet, char c)
{
        if (c == alphabet[62] || c == alphabet[63])
                return c == alphabet[62] ? 62 : 63;
        return shared[(unsigned char)c] - 1;
}

/* The bits of n <= 4 characters, left in 24; false for foreign ones. */
static bool gather(const char *alphabet, const char *text, size_t n, uint32_t *ret_bits)
{
        *ret_bits = 0;
        for (size_t i = 0; i < 4; i++) {
                int value = i < n ? value_of(alphabet, text[i]) : 0;

                if (value < 0)
                        return false;
                *ret_bits = *ret_bits << 6 | (uint32_t)value;
        }
        return true;
}

/* Reads n characters without padding; false for foreign characters, impossible lengths and unused bits that are not 0.
 */
static bool decode(const char *alphabet, const char *text, size_t n, uint8_t *data, size_t *ret_size)
{
        size_t size = 0, i = 0;
        uint32_t bits;

        for (; n - i >= 4; i += 4) {
                if (!gather(alphabet, text + i, 4, &bits))
                        return false;
                data[size++] = (uint8_t)(bits >> 16);
                data[size++] = (uint8_t)(bits >> 8);
                data[size++] = (uint8_t)bits;
        }
        if (n - i == 1 || !gather(alphabet, text + i, n - i, &bits))
                return false;
        for (; n - i >= 2; i++) {
                data[size++] = (uint8_t)(bits >> 16);
                bits = bits << 8 & 0xffffff;
        }
        if (bits != 0)
                return false;
        *ret_size = size;
        return true;
}

void ferry_key_format(const uint8_t key[FERRY_KEY_SIZE], char text[FERRY_KEY_TEXT_SIZE])
{
        text[encode(url_safe, key, FERRY_KEY_SIZE, text)] = '\0';
}

bool ferry_key_parse(const char *text, uint8_t ret_key[FERRY_KEY_SIZE])
{
        uint8_t key[FERRY_KEY_SIZE];
        size_t size;
        bool good =
                strlen(text) == FERRY_KEY_TEXT_SIZE - 1 && decode(url_safe, text, FERRY_KEY_TEXT_SIZE - 1, key, &size);

        if (good)
                memcpy(ret_key, key, sizeof(key));
        explicit_bzero(key, sizeof(key));
        return good;
}

bool ferry_key_equal(const uint8_t a[FERRY_KEY_SIZE], const uint8_t b[FERRY_KEY_SIZE])
{
        volatile uint8_t difference = 0;

        for (size_t i = 0; i < FERRY_KEY_SIZE; i++)
                difference |= a[i] ^ b[i];
        return difference == 0;
}

bool ferry_secret_equal(const char *given, const char *secret)
{
        size_t n = strlen(given), m = strlen(secret);
        volatile size_t difference = n ^ m;

        /* Reads past no end: beyond the secret its final NUL is compared, which no byte of given equals. */
        for (size_t i = 0; i < n; i++)
                difference |= (unsigned char)(given[i] ^ secret[i < m ? i : m]);
        return difference == 0;
}

char *ferry_base64_encode(const void *data, size_t size)
{
        char *text = size / 3 < SIZE_MAX / 4 - 2 ? malloc((size + 2) / 3 * 4 + 1) : NULL;
        size_t n;

        if (!text)
                return NULL;
        n = encode(standard, data, size, text);
        while (n % 4 != 0)
                text[n++] = '=';
        text[n] = '\0';
        return text;
}

int ferry_base64_decode(const char *text, size_t length, void **ret_data, size_t *ret_size)
{
        size_t n = length;
        uint8_t *data;

        if (length % 4 != 0)
                return -EINVAL;
        for (int i = 0; i < 2 && n > 0 && text[n - 1] == '='; i++)
                n--;
        data = malloc(length / 4 * 3 + 1);
        if (!data)
                return -ENOMEM;
        if (!decode(standard, text, n, data, ret_size)) {
                free(data);
                return -EINVAL;
        }
        *ret_data = data;
        return 0;
}

void ferry_digest_format(uint64_t digest, char text[FERRY_DIGEST_TEXT_SIZE])
{
        const uint64_t bytes = htobe64(digest);
        char *to = stpcpy(text, "xxh3=:");

        to += encode(standard, (const uint8_t *)&bytes, sizeof(bytes), to);
        (void)stpcpy(to, "=:");
}

bool ferry_digest_parse(const char *value, size_t size, uint64_t *ret_digest)
{
        static const char name[] = "xxh3=:";
        const char *start = memmem(value, size, name, strlen(name));
        const char *end;
        uint64_t digest;
        void *data;
        size_t n;

        if (!start)
                return false;
        start += strlen(name);
        end = memchr(start, ':', size - (size_t)(start - value));
        if (!end || ferry_base64_decode(start, (size_t)(end - start), &data, &n))
                return false;
        if (n == sizeof(digest)) {
                memcpy(&digest, data, sizeof(digest));
                *ret_digest = be64toh(digest);
        }
        free(data);
        return n == sizeof(digest);
}
