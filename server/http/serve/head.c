/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

/*
 * Heads, checked before libmicrohttpd sees them; serve_internal.h says why. The sums are those of libmicrohttpd's
 * memory for a connection (HEAD_MEMORY): a head that passes gets an answer. Pure; any thread.
 */

/* Goes when libmicrohttpd 1.0.0, which checks heads itself, is the oldest supported: find_end is left to the gate. */

enum {
        ITEM_MEMORY = 80,      /* a header, query parameter or cookie in libmicrohttpd, as allocated */
        ANSWER_MEMORY = 2048,  /* an answer's head, and what rounding takes */
        LENGTH_TEXT_SIZE = 24, /* a longer Content-Length is no valid number */
        TLS_HEADER_SIZE = 5,
        TLS_RECORD_MAX = HEAD_MAX - TLS_HEADER_SIZE,
        TLS_HANDSHAKE = 22,
        LINE_END = 2, /* CR LF */
};

/* What libmicrohttpd needs memory for, and what it must not see. */
struct sum {
        size_t items;
        size_t cookies; /* bytes; it copies them */
        bool length;    /* a Content-Length came */
        bool encoding;  /* a Transfer-Encoding came, which can only be chunked */
        bool host;
        const char *fault;
};

/* The end of the head at bytes, after its empty line. NULL: it has not come yet. */
static const char *find_end(const char *bytes, const char *end)
{
        const char *line = bytes;

        while ((line = memchr(line, '\n', (size_t)(end - line)))) {
                line++;
                if (line < end && *line == '\r')
                        line++;
                if (line < end && *line == '\n')
                        return line + 1;
        }
        return NULL;
}

/* Whether a line before end ends otherwise than by CR LF: some take a CR or LF alone for a line's end, others do not.
 */
static bool has_bare_end(const char *text, const char *end)
{
        for (const char *at = text; at < end; at++)
                if ((*at == '\n' && (at == text || at[-1] != '\r')) || (*at == '\r' && at + 1 < end && at[1] != '\n'))
                        return true;
        return false;
}

/* How often a character occurs. */
static size_t count(const char *text, size_t n, char c)
{
        const char *end = text + n;
        size_t found = 0;

        while ((text = memchr(text, c, (size_t)(end - text)))) {
                found++;
                text++;
        }
        return found;
}

/* Whether the value of a Content-Length is a number. */
static bool length_valid(const char *value, size_t n)
{
        char text[LENGTH_TEXT_SIZE];
        uint64_t length;

        while (n && (*value == ' ' || *value == '\t')) {
                value++;
                n--;
        }
        if (n && value[n - 1] == '\r')
                n--;
        if (n >= sizeof(text))
                return false;
        memcpy(text, value, n);
        text[n] = '\0';
        return headers_parse_length(text, &length);
}

/* Checks METHOD TARGET VERSION, end at the line feed. NULL = well formed; *ret_host: whether a Host must follow. */
static const char *request_line_fault(const char *line, const char *end, bool *ret_host)
{
        static const char malformed[] = "The request line is not METHOD TARGET HTTP/1.1", one[] = "HTTP/1.";
        const char *target, *version;

        if (end > line && end[-1] == '\r')
                end--;
        target = memchr(line, ' ', (size_t)(end - line));
        if (!target || target == line)
                return malformed;
        while (target < end && *target == ' ')
                target++;
        version = memchr(target, ' ', (size_t)(end - target));
        version = version ? version + 1 : end;
        if (end - version < 5 || memcmp(version, one, 5) != 0)
                return malformed;
        if (end - version != sizeof(one) || memcmp(version, one, sizeof(one) - 1) != 0 ||
            !isdigit((unsigned char)end[-1]))
                return "The worker speaks HTTP/1.0 and HTTP/1.1";
        *ret_host = end[-1] != '0';
        return NULL;
}

/* Adds a header to the sum, or says what is wrong with it. */
static void add_line(struct sum *sum, const char *line, size_t n)
{
        static const char cookie[] = "Cookie:", length[] = "Content-Length:", host[] = "Host:",
                          encoding[] = "Transfer-Encoding:";

        const bool empty = n == (n && line[n - 1] == '\r');
        const size_t name = headers_token_length(line); /* the line feed ends it at the latest */

        sum->items++;
        sum->host |= n >= strlen(host) && !strncasecmp(line, host, strlen(host));
        sum->encoding |= n >= strlen(encoding) && !strncasecmp(line, encoding, strlen(encoding));
        if (*line == ' ' || *line == '\t')
                sum->fault = "A header is folded";
        else if (!empty && (!name || line[name] != ':'))
                sum->fault = "A header is not a token, a colon and a value";
        if (n >= strlen(cookie) && !strncasecmp(line, cookie, strlen(cookie))) {
                sum->cookies += n;
                sum->items += count(line, n, ';') + count(line, n, ',') + 1;
        } else if (n >= strlen(length) && !strncasecmp(line, length, strlen(length))) {
                if (sum->length)
                        sum->fault = "Content-Length is given twice";
                else if (!length_valid(line + strlen(length), n - strlen(length)))
                        sum->fault = "Content-Length is not a number";
                sum->length = true;
        }
}

/* ---- heads that libmicrohttpd has cut up ---- */

bool head_parts_needed(const char *library_version)
{
        return !strncmp(library_version, "0.", 2);
}

void head_parts_begin(struct head_parts *parts, const char *target_end, const char *version)
{
        *parts = (struct head_parts){ .at = version + strlen(version), .broken = version - target_end != 1 };
}

void head_parts_add(struct head_parts *parts, const char *name, const char *value)
{
        parts->broken |= name - parts->at != LINE_END || value <= name + strlen(name);
        parts->at = value + strlen(value);
}

bool head_parts_end(const struct head_parts *parts, const char *end)
{
        return !parts->broken && end - parts->at == 2 * LINE_END; /* the last line's, and an empty one's */
}

/* Adds up a head, which is whole and ends at end. fault is the first thing that is wrong with it. */
static struct sum add_up(const char *head, const char *end)
{
        struct sum sum = { 0 };
        const char *line = memchr(head, '\n', (size_t)(end - head));
        bool needs_host = false;

        /* The query of the request line takes memory, too. */
        const char *query = memchr(head, '?', (size_t)(line - head));
        if (query)
                sum.items += count(query, (size_t)(line - query), '&') + 1;
        sum.fault = memchr(head, '\0', (size_t)(end - head)) ? "The head holds a NUL"
                    : has_bare_end(head, end)                ? "A line of the head does not end with CR LF"
                                                             : request_line_fault(head, line, &needs_host);
        for (line++; line < end && !sum.fault;) {
                const char *next = memchr(line, '\n', (size_t)(end - line));
                add_line(&sum, line, (size_t)(next - line));
                line = next + 1;
        }
        if (!sum.fault && needs_host && !sum.host)
                sum.fault = "The request has no Host";
        return sum;
}

/*
 * Whether any of the lines of chunks and trailers that have come behind the head ends otherwise than by CR LF. What
 * else may be wrong with them is libmicrohttpd's to find.
 */
static bool has_broken_chunks(const char *at, const char *end)
{
        const char *line;
        bool last = false; /* the last chunk has come: trailers follow, and an empty line */

        while ((line = memchr(at, '\n', (size_t)(end - at)))) {
                uint64_t size = 0;

                if (has_bare_end(at, line + 1))
                        return true;
                if (last && line - at == 1)
                        return false;
                for (int digit; !last && size < HEAD_MAX && (digit = ferry_hex_digit(*at)) >= 0; at++)
                        size = size * 16 + (uint64_t)digit;
                last = !size;
                at = line + 1;
                if (last)
                        continue;
                if (size + 2 > (uint64_t)(end - at))
                        return false;
                if (has_bare_end(at + size, at + size + 2))
                        return true;
                at += size + 2;
        }
        return has_bare_end(at, end);
}

enum head_verdict head_classify(const char *bytes, size_t n, int *ret_error, const char **ret_detail)
{
        const char *end = bytes + n, *head = bytes;

        while (end - head >= 2 && head[0] == '\r' && head[1] == '\n')
                head += 2;
        const char *behind = find_end(head, end);
        if (!behind) {
                if (n < HEAD_MAX)
                        return HEAD_PARTIAL;
                *ret_error = FERRY_E_HEAD_TOO_LARGE;
                *ret_detail = "The head of a request may have at most 16 KiB";
                return HEAD_REFUSED;
        }
        struct sum sum = add_up(head, behind);
        if (!sum.fault && sum.encoding && has_broken_chunks(behind, end))
                sum.fault = "A line of the chunks does not end with CR LF";
        if (sum.fault) {
                *ret_error = FERRY_E_INVALID_PARAMETER;
                *ret_detail = sum.fault;
                return HEAD_REFUSED;
        }
        if ((size_t)(behind - bytes) + sum.cookies + sum.items * ITEM_MEMORY + ANSWER_MEMORY > HEAD_MEMORY) {
                *ret_error = FERRY_E_HEAD_TOO_LARGE;
                *ret_detail = "The target, the headers and the cookies of a request are too many or too long";
                return HEAD_REFUSED;
        }
        return HEAD_WHOLE;
}

enum head_verdict head_classify_tls(const char *bytes, size_t n)
{
        const unsigned char *record = (const unsigned char *)bytes;

        if (n && record[0] != TLS_HANDSHAKE)
                return HEAD_FOREIGN;
        if (n > 1 && record[1] != 3)
                return HEAD_FOREIGN;
        if (n < TLS_HEADER_SIZE)
                return HEAD_PARTIAL;
        size_t size = (size_t)record[3] << 8 | record[4];
        if (!size || size > TLS_RECORD_MAX)
                return HEAD_FOREIGN;
        return n < TLS_HEADER_SIZE + size ? HEAD_PARTIAL : HEAD_WHOLE;
}
