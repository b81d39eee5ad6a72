/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/json.h>

#include "cli.h"

struct unit {
        const char *name;
        double factor;
};

static bool value_parse(const char *text, const struct unit *units, size_t n, double most, uint64_t *ret_value)
{
        char *end;
        if (!*text || !strchr("0123456789.", *text) || strpbrk(text, "xX"))
                return false;
        double number = strtod(text, &end);
        for (size_t i = 0; end != text && i < n; i++) {
                if (strcmp(units[i].name, end) != 0)
                        continue;
                double value = number * units[i].factor;
                if (!(value >= 0 && value < most))
                        return false;
                *ret_value = (uint64_t)value;
                return true;
        }
        return false;
}

static bool value_time(const char *text, uint64_t *ret_ms)
{
        static const struct unit units[] = { { "", 1e3 }, { "s", 1e3 }, { "ms", 1 }, { "m", 60e3 }, { "h", 3600e3 } };
        return value_parse(text, units, FERRY_ARRAY_SIZE(units), 1e15, ret_ms);
}

static bool value_number(const char *text, uint64_t *ret_number)
{
        return ferry_uint_parse(text, FERRY_JSON_INTEGER_MAX, ret_number) && *ret_number > 0;
}

static bool value_size(const char *text, uint64_t *ret_bytes)
{
        static const struct unit units[] = {
                { "", 1 },          { "B", 1 },          { "K", 1024 },         { "KiB", 1024 }, { "M", 1048576 },
                { "MiB", 1048576 }, { "G", 1073741824 }, { "GiB", 1073741824 }, { "T", 0x1p40 }, { "TiB", 0x1p40 },
        };
        return value_parse(text, units, FERRY_ARRAY_SIZE(units), 0x1p62, ret_bytes) && *ret_bytes;
}

static bool value_text(const char *text, uint64_t *ret_length)
{
        *ret_length = strlen(text);
        return ferry_utf8_valid(text);
}

static bool value_file(const char *text, uint64_t *ret_length)
{
        *ret_length = strlen(text);
        return *text;
}

const char *cli_value_wants(const char *kind, const char *value)
{
        static const struct {
                const char *kind, *wanted;
                bool (*parse)(const char *text, uint64_t *ret_value);
        } kinds[] = {
                { "TIME", "a time such as 500ms, 30s, 2m or 1h", value_time },
                { "SIZE", "a size such as 4096, 64K or 1.5GiB", value_size },
                { "N", "a number, 1 or more", value_number },
                { "FILE", "the name of a file", value_file },
                { "NAME", "UTF-8", value_text },
                { "LABEL", "UTF-8", value_text },
        };
        uint64_t number;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(kinds); i++) {
                if (strcmp(kinds[i].kind, kind) == 0 && !kinds[i].parse(value, &number))
                        return kinds[i].wanted;
        }
        return NULL;
}

uint64_t cli_time(const char *value, uint64_t none)
{
        uint64_t ms;
        return value && value_time(value, &ms) ? ms : none;
}

uint64_t cli_size(const char *value, uint64_t none)
{
        uint64_t bytes;
        return value && value_size(value, &bytes) ? bytes : none;
}

uint64_t cli_number(const char *value, uint64_t none)
{
        uint64_t number;
        return value && value_number(value, &number) ? number : none;
}

bool cli_host_port(const char *text, char *host, size_t host_size, char *port, size_t port_size)
{
        const char *scheme = strstr(text, "://"), *start = scheme ? scheme + 3 : text;
        const char *end = start + strcspn(start, "/"), *colon = memrchr(start, ':', (size_t)(end - start));
        if (strncmp(text, "unix:", 5) == 0 || (!scheme && !colon))
                return false;
        if (colon && memchr(colon, ']', (size_t)(end - colon)))
                colon = NULL; /* within an IPv6 address */
        if (colon)
                snprintf(port, port_size, "%.*s", (int)(end - colon - 1), colon + 1);
        else
                snprintf(port, port_size, "%s", strncasecmp(text, "https", 5) == 0 ? "443" : "80");
        snprintf(host, host_size, "%.*s", (int)((colon ? colon : end) - start), start);
        return true;
}
