/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli.h"

/*
 * Text on a terminal: what must not reach it, and how many columns it takes. Needs a locale of UTF-8, which main sets:
 * in any other one, each byte beyond ASCII counts as a character.
 */

enum { TEXT_REPLACEMENT = 0xfffd /* of Unicode, for what is no character */ };

/* The length in bytes of the character at text, 0 at the end. A byte that begins none is the character of that number.
 */
static size_t text_next(const char *text, wchar_t *ret_c)
{
        mbstate_t state = { 0 };
        size_t n = mbrtowc(ret_c, text, strnlen(text, MB_LEN_MAX), &state);
        if (!*text || n <= MB_LEN_MAX)
                return *text ? n : 0;
        *ret_c = (unsigned char)*text;
        return 1;
}

/* Controls of ASCII and Latin-1, ends of lines, and what turns the direction of the text that follows. */
static bool text_controls(wchar_t c)
{
        static const struct {
                wchar_t first, last;
        } controls[] = { { 0, 0x1f },        { 0x7f, 0x9f },     { 0x61c, 0x61c },
                         { 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(controls); i++)
                if (c >= controls[i].first && c <= controls[i].last)
                        return true;
        return false;
}

void cli_mask_controls(char *text)
{
        char *to = text;
        wchar_t c;
        for (size_t n; (n = text_next(text, &c)); text += n) {
                memmove(to, text, n);
                if (text_controls(c))
                        *to = '?';
                to += text_controls(c) ? 1 : n;
        }
        *to = '\0';
}

char *cli_text_escape(const char *text, size_t size, mbstate_t *state)
{
        const size_t invalid = (size_t)-1, unfinished = (size_t)-2; /* as mbrtowc(3) has them */
        char *escaped = malloc((size + 1) * sizeof("\\u202e")), *to = escaped;
        while (escaped && size) {
                bool begun = !mbsinit(state);
                wchar_t c = L'\0';
                size_t n = mbrtowc(&c, text, size, state);
                if (n == unfinished)
                        break;
                if (n == invalid) {
                        *state = (mbstate_t){ 0 };
                        c = TEXT_REPLACEMENT;
                        n = begun ? 0 : 1; /* what ended the character is read anew */
                } else if (n == 0) {
                        n = 1; /* a NUL */
                }
                if (text_controls(c) && c != '\n' && c != '\t')
                        to += sprintf(to, "\\u%04x", (unsigned)c);
                else
                        to += wcrtomb(to, c, &(mbstate_t){ 0 });
                text += n;
                size -= n;
        }
        if (escaped)
                *to = '\0';
        return escaped;
}

static size_t text_columns(wchar_t c)
{
        int width = wcwidth(c);
        return width < 0 ? 1 : (size_t)width;
}

size_t cli_text_width(const char *text)
{
        size_t width = 0;
        wchar_t c;
        for (size_t n; (n = text_next(text, &c)); text += n)
                width += text_columns(c);
        return width;
}

void cli_text_cut(char *text, size_t size, size_t columns)
{
        static const char more[] = "…";
        size_t at = 0, width = 0;
        wchar_t c;
        if (cli_text_width(text) <= columns)
                return;
        for (size_t n; (n = text_next(text + at, &c)) && width + text_columns(c) < columns; at += n)
                width += text_columns(c);
        snprintf(text + at, size - at, "%s", columns > 0 && at + sizeof(more) <= size ? more : "");
}

void cli_bytes_format(char *text, size_t size, double bytes)
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
        size_t unit = 0;
        while (bytes >= 1024 && unit + 1 < FERRY_ARRAY_SIZE(units)) {
                bytes /= 1024;
                unit++;
        }
        snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}
