/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "test.h"

struct kept {
        struct kept *next;
        void *object;
        void (*release)(void *object);
};
static struct kept *newest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *test_keep(void *object, void (*release)(void *object))
{
        struct kept *kept = malloc(sizeof(*kept));

        assert_non_null(object);
        assert_non_null(kept);
        (void)pthread_mutex_lock(&lock);
        *kept = (struct kept){ newest, object, release };
        newest = kept;
        (void)pthread_mutex_unlock(&lock);
        return object;
}

/* object NULL = the newest. */
static struct kept *taken_out(const void *object)
{
        struct kept **place = &newest, *kept;

        (void)pthread_mutex_lock(&lock);
        while (object && *place && (*place)->object != object)
                place = &(*place)->next;
        kept = *place;
        if (kept)
                *place = kept->next;
        (void)pthread_mutex_unlock(&lock);
        return kept;
}

static void release(struct kept *kept)
{
        kept->release(kept->object);
        free(kept);
}

void test_release(void *object)
{
        struct kept *kept = taken_out(object);

        assert_non_null(kept);
        release(kept);
}

static const char *row;

const char *test_row(const char *present)
{
        return row = present;
}

/* Of each test: in its end, or after its failure, in which case the row is still known. */
void test_over(void)
{
        if (row)
                print_error("[   ROW    ] --- %s\n", row);
        row = NULL;
        for (struct kept *kept; (kept = taken_out(NULL));)
                release(kept);
}

const char *text_keep(char *text)
{
        return test_keep(text, free);
}

const char *text_format(const char *format, ...)
{
        va_list arguments;
        char *text = NULL;
        int n;

        va_start(arguments, format);
        n = vasprintf(&text, format, arguments);
        va_end(arguments);
        assert_true(n >= 0);
        return text_keep(text);
}
