/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "test.h"

struct text {
        struct text *next;
        char *text;
};
static struct text *texts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *text_keep(char *text)
{
        struct text *kept = malloc(sizeof(*kept));

        assert_non_null(text);
        assert_non_null(kept);
        (void)pthread_mutex_lock(&lock);
        *kept = (struct text){ .next = texts, .text = text };
        texts = kept;
        (void)pthread_mutex_unlock(&lock);
        return text;
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

void test_over(void)
{
        while (texts) {
                struct text *kept = texts;

                texts = kept->next;
                free(kept->text);
                free(kept);
        }
}
