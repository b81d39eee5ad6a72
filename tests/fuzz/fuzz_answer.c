/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>

#include "answer.h"
#include "fuzz_text.h"

/*
 * An HTTP answer to the client. Its outcome depends on the bytes alone, not on the pieces in which they come. The first
 * byte of an input chooses the request (bit 0: HEAD) and the size of the pieces (the rest).
 */

struct outcome {
        struct answer answer;
        int error;
        size_t used;
        struct fuzz_buffer told, body;
};

/* ---- the answer's functions ---- */

static void tell_size(struct outcome *o, size_t size)
{
        fuzz_append(&o->told, &size, sizeof(size));
}

static void on_status(void *context, int status)
{
        struct outcome *o = context;
        FUZZ_CHECK(status >= 100 && status <= 999 && status == o->answer.status);
        tell_size(o, (size_t)status);
}

static void on_header(void *context, const char *name, size_t name_size, const char *value, size_t value_size)
{
        struct outcome *o = context;
        FUZZ_CHECK(o->answer.state == ANSWER_HEADERS && !memchr(name, ':', name_size));
        FUZZ_CHECK(value_size == 0 || !strchr(" \t", value[0]) || !value[0]);
        tell_size(o, name_size);
        fuzz_append(&o->told, name, name_size);
        tell_size(o, value_size);
        fuzz_append(&o->told, value, value_size);
}

static int on_body(void *context, const char *data, size_t size)
{
        struct outcome *o = context;
        FUZZ_CHECK(size > 0 && !o->answer.to_head);
        fuzz_append(&o->body, data, size);
        return 0;
}

static const struct answer_ops ops = { on_status, on_header, on_body };

/* ---- taking ---- */

/* In a block without a byte to spare. Returns how many bytes were used. */
static size_t take_piece(struct outcome *o, const uint8_t *data, size_t size)
{
        char *piece = malloc(size ? size : 1);
        size_t used = SIZE_MAX;

        FUZZ_CHECK(piece);
        if (size)
                memcpy(piece, data, size);
        o->error = answer_take(&o->answer, piece, size, &used);
        free(piece);
        FUZZ_CHECK(o->error == 0 || o->error == -EPROTO);
        FUZZ_CHECK(used <= size);
        FUZZ_CHECK(used == size || o->error != 0 || o->answer.state == ANSWER_WHOLE);
        return used;
}

/* In pieces of 1 to piece_max bytes. */
static struct outcome *take(const uint8_t *data, size_t size, bool to_head, size_t piece_max)
{
        struct outcome *o = calloc(1, sizeof(*o));
        uint32_t draw = 1;

        FUZZ_CHECK(o);
        o->answer = (struct answer){ .ops = &ops, .context = o, .to_head = to_head };
        while (o->error == 0 && o->used < size && o->answer.state != ANSWER_WHOLE) {
                size_t rest = size - o->used, n = piece_max;
                if (n < size) {
                        draw = draw * 1664525 + 1013904223;
                        n = 1 + (draw >> 16) % piece_max;
                }
                o->used += take_piece(o, data + o->used, n < rest ? n : rest);
        }
        return o;
}

/* The connection ends; only a whole answer outlives that. */
static void check_end(struct outcome *o)
{
        enum answer_state state = o->answer.state;
        int r;

        if (o->error != 0)
                return;
        if (state == ANSWER_WHOLE) {
                FUZZ_CHECK(o->answer.status >= 200);
                FUZZ_CHECK(take_piece(o, (const uint8_t *)"HTTP/1.1 200\n", 13) == 0 && o->error == 0);
        }
        r = answer_end(&o->answer);
        FUZZ_CHECK(r == (state == ANSWER_WHOLE || state == ANSWER_REST ? 0 : -ECONNRESET));
        FUZZ_CHECK((r == 0) == (o->answer.state == ANSWER_WHOLE) && !o->answer.keeps);
}

static void check_same_bytes(const struct fuzz_buffer *a, const struct fuzz_buffer *b)
{
        FUZZ_CHECK(a->size == b->size && (a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0));
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
        FUZZ_CHECK(a->error == b->error);
        FUZZ_CHECK(a->answer.status == b->answer.status);
        FUZZ_CHECK(a->answer.keeps == b->answer.keeps);
        check_same_bytes(&a->told, &b->told);
        check_same_bytes(&a->body, &b->body);
        if (a->error == 0) /* an error may come before the end of a line */
                FUZZ_CHECK(a->used == b->used && a->answer.state == b->answer.state);
}

static void outcome_free(struct outcome *o)
{
        answer_clear(&o->answer);
        free(o->told.bytes);
        free(o->body.bytes);
        free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 2)
                return 0;
        struct outcome *whole = take(data + 1, size - 1, data[0] % 2, size);
        struct outcome *pieces = take(data + 1, size - 1, data[0] % 2, 1 + data[0] / 2);

        check_same(whole, pieces);
        check_end(whole);
        check_end(pieces);
        outcome_free(pieces);
        outcome_free(whole);
        return 0;
}
