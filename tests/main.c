/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "test.h"

/* The main of every program of cmocka's: runs what has registered itself before main. */

static struct test *first;
static CMFixtureFunction group_setup, group_teardown;

static bool stands_before(const struct test *a, const struct test *b)
{
        int order = strcmp(a->file, b->file);

        return order ? order < 0 : a->line < b->line;
}

void test_register(struct test *test)
{
        struct test **place = &first;

        while (*place && stands_before(*place, test))
                place = &(*place)->next;
        test->next = *place;
        *place = test;
}

void test_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
        group_setup = setup;
        group_teardown = teardown;
}

static bool is_wanted(const char *name, char *const *patterns)
{
        bool wanted = !*patterns;

        for (; *patterns && !wanted; patterns++)
                wanted = fnmatch(*patterns, name, 0) == 0;
        return wanted;
}

static const struct test *present;

static int set_up(void **state)
{
        present = *state;
        *state = NULL;
        return present->unit.setup_func ? present->unit.setup_func(state) : 0;
}

static int tear_down(void **state)
{
        test_over();
        return present->unit.teardown_func ? present->unit.teardown_func(state) : 0;
}

int main(int argc, char **argv)
{
        static struct CMUnitTest tests[512];
        size_t n = 0;
        bool list = argc > 1 && strcmp(argv[1], "--list") == 0;

        for (struct test *test = first; test; test = test->next) {
                if (list)
                        (void)puts(test->unit.name);
                if (!is_wanted(test->unit.name, argv + 1))
                        continue;
                if (n == sizeof(tests) / sizeof(tests[0]))
                        abort();
                tests[n++] = (struct CMUnitTest){ test->unit.name, test->unit.test_func, set_up, tear_down, test };
        }
        if (list)
                return 0;
        if (n == 0) {
                (void)fprintf(stderr, "%s: no test has such a name\n", program_invocation_short_name);
                return 2;
        }
        return _cmocka_run_group_tests(program_invocation_short_name, tests, n, group_setup, group_teardown);
}
