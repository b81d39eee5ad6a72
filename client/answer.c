/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include <ferry/util.h>

enum { ANSWER_HEAD_MAX = 256 * 1024 }; /* bytes of all lines; libcurl allows 300 KB */

struct text {
        const char *data;
        size_t size;
};

static bool text_is(struct text text, const char *other)
{
        return text.size == strlen(other) && strncasecmp(text.data, other, text.size) == 0;
}

/* As far as it goes. */
static bool text_begins(struct text text, const char *start)
{
        size_t size = strlen(start);
        return memcmp(text.data, start, text.size < size ? text.size : size) == 0;
}

static struct text text_trim(struct text text)
{
        while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
                text.data++;
                text.size--;
        }
        while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
                text.size--;
        return text;
}

static unsigned text_digit(char c)
{
        if (c >= '0' && c <= '9')
                return (unsigned)(c - '0');
        if (c >= 'a' && c <= 'f')
                return (unsigned)(c - 'a') + 10;
        return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : UINT_MAX;
}

/* How many digits a text begins with; 0 also where the number exceeds what a file may have. */
static size_t text_number(struct text text, unsigned base, uint64_t *ret_number)
{
        uint64_t number = 0, digit;
        size_t n = 0;
        for (; n < text.size && (digit = text_digit(text.data[n])) < base; n++) {
                if (number > ((uint64_t)INT64_MAX - digit) / base)
                        return 0;
                number = number * base + digit;
        }
        *ret_number = number;
        return n;
}

/* ---- lines ---- */

/* "HTTP/1.1 200 OK"; the last part may be missing. */
static int answer_status_line(struct answer *a, struct text line)
{
        uint64_t status;
        if (line.size < 12 || text_digit(line.data[7]) > 9 || line.data[8] != ' ' ||
            (line.size > 12 && line.data[12] != ' ') ||
            text_number((struct text){ line.data + 9, 3 }, 10, &status) != 3 || status < 100)
                return -EPROTO;
        a->status = (int)status;
        a->keeps = line.data[7] != '0';
        a->chunked = a->has_length = a->closes = false;
        a->state = ANSWER_HEADERS;
        a->ops->status(a->context, a->status);
        return 0;
}

static int answer_set_length(struct answer *a, struct text value)
{
        uint64_t length;
        size_t n = text_number(value, 10, &length);
        if (n == 0 || n != value.size || (a->has_length && a->left != length))
                return -EPROTO;
        a->has_length = true;
        a->left = length;
        return 0;
}

static void answer_set_connection(struct answer *a, struct text value)
{
        while (value.size > 0) {
                const char *comma = memchr(value.data, ',', value.size);
                size_t size = comma ? (size_t)(comma - value.data) : value.size;
                struct text one = text_trim((struct text){ value.data, size });
                if (text_is(one, "close"))
                        a->closes = true;
                else if (text_is(one, "keep-alive"))
                        a->keeps = true;
                size += comma != NULL;
                value.data += size;
                value.size -= size;
        }
}

static int answer_header_line(struct answer *a, struct text line)
{
        const char *colon = memchr(line.data, ':', line.size);
        int r = 0;
        if (!colon || line.data[0] == ' ' || line.data[0] == '\t') /* the latter continues the header before */
                return 0;
        struct text name = { line.data, (size_t)(colon - line.data) };
        struct text value = text_trim((struct text){ colon + 1, line.size - name.size - 1 });
        if (text_is(name, "content-length")) {
                r = answer_set_length(a, value);
        } else if (text_is(name, "transfer-encoding")) {
                r = text_is(value, "chunked") ? 0 : -EPROTO;
                a->chunked = true;
        } else if (text_is(name, "connection")) {
                answer_set_connection(a, value);
        }
        if (r == 0)
                a->ops->header(a->context, name.data, name.size, value.data, value.size);
        return r;
}

static int answer_headers_end(struct answer *a)
{
        if (a->status / 100 == 1) {
                a->state = ANSWER_STATUS;
                return a->status == 101 ? -EPROTO : 0; /* nobody asked for another protocol */
        }
        if (a->closes || (a->chunked && a->has_length)) /* somebody on the way may read the latter otherwise */
                a->keeps = false;
        if (a->to_head || a->status == 204 || a->status == 304)
                a->state = ANSWER_WHOLE;
        else if (a->chunked)
                a->state = ANSWER_SIZE;
        else if (a->has_length)
                a->state = a->left ? ANSWER_BODY : ANSWER_WHOLE;
        else
                a->state = ANSWER_REST;
        return 0;
}

/* A chunk's size; what stands behind it, after a semicolon, means nothing here. */
static int answer_size_line(struct answer *a, struct text line)
{
        size_t n = text_number(line, 16, &a->left);
        if (n == 0 || (n < line.size && !memchr("; \t", line.data[n], 3)))
                return -EPROTO;
        a->state = a->left ? ANSWER_CHUNK : ANSWER_TRAILERS;
        return 0;
}

static int answer_line(struct answer *a, struct text line)
{
        switch (a->state) {
        case ANSWER_STATUS:
                return answer_status_line(a, line);
        case ANSWER_HEADERS:
                return line.size ? answer_header_line(a, line) : answer_headers_end(a);
        case ANSWER_SIZE:
                return answer_size_line(a, line);
        case ANSWER_BOUNDARY:
                a->state = ANSWER_SIZE;
                return line.size ? -EPROTO : 0;
        default:
                if (!line.size)
                        a->state = ANSWER_WHOLE;
                return 0;
        }
}

/* Takes the rest of a line, or a part of it. */
static int answer_take_line(struct answer *a, const char *data, size_t size, size_t *ret_used)
{
        const char *end = memchr(data, '\n', size);
        struct text line = { data, end ? (size_t)(end - data) : size };
        int r = 0;
        *ret_used = line.size + (end != NULL);
        if (a->state != ANSWER_SIZE && a->state != ANSWER_BOUNDARY)
                a->head_size += *ret_used;
        if (a->head_size > ANSWER_HEAD_MAX || line.size > ANSWER_HEAD_MAX)
                return -EPROTO;
        if (!end || a->begun.size) {
                r = ferry_buffer_append(&a->begun, line.data, line.size, ANSWER_HEAD_MAX);
                line = (struct text){ a->begun.data, a->begun.size };
        }
        if (r < 0)
                return r == -EMSGSIZE ? -EPROTO : r;
        if (a->state == ANSWER_STATUS && !text_begins(line, "HTTP/1.")) /* it may have no line end */
                return -EPROTO;
        if (!end)
                return 0;
        if (line.size > 0 && line.data[line.size - 1] == '\r')
                line.size--;
        r = answer_line(a, line);
        a->begun.size = 0;
        return r;
}

/* ---- bodies ---- */

static int answer_take_body(struct answer *a, const char *data, size_t size, size_t *ret_used)
{
        if (a->state != ANSWER_REST && size > a->left)
                size = (size_t)a->left;
        int r = a->ops->body(a->context, data, size);
        *ret_used = size;
        if (a->state == ANSWER_REST)
                return r;
        a->left -= size;
        if (!a->left)
                a->state = a->state == ANSWER_CHUNK ? ANSWER_BOUNDARY : ANSWER_WHOLE;
        return r;
}

int answer_take(struct answer *a, const char *data, size_t size, size_t *ret_used)
{
        size_t used = 0;
        int r = 0;
        while (r == 0 && used < size && a->state != ANSWER_WHOLE) {
                bool in_body = a->state == ANSWER_BODY || a->state == ANSWER_REST || a->state == ANSWER_CHUNK;
                size_t n;
                r = (in_body ? answer_take_body : answer_take_line)(a, data + used, size - used, &n);
                used += n;
        }
        *ret_used = used;
        return r;
}

int answer_end(struct answer *a)
{
        a->keeps = false;
        if (a->state == ANSWER_REST)
                a->state = ANSWER_WHOLE;
        return a->state == ANSWER_WHOLE ? 0 : -ECONNRESET;
}

void answer_clear(struct answer *a)
{
        ferry_buffer_clear(&a->begun, false);
}
