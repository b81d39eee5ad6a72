/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

/* cmocka's header needs those before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * Tests register themselves; main.c runs them in the order of their file. A program takes patterns of names (* and ?)
 * and runs those tests alone; --list prints the names.
 */

/* TEST(what_it_shows) { … } */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* The same between setup and teardown (cmocka's: int (void **state); NULL = none). */
#define TEST_WITH(name, setup, teardown)                                                                               \
        static void name(void);                                                                                        \
        static void name##_test(void **state)                                                                          \
        {                                                                                                              \
                name();                                                                                                \
        }                                                                                                              \
        TEST_REGISTER(name, #name, name##_test, setup, teardown)                                                       \
        static void name(void)

/*
 * The same with what setup left in *state as its parameter. A file or a header gives it a name:
 * #define WITH_SCENE(name) TEST_OF(struct scene *s, name, setup, teardown)
 */
#define TEST_OF(parameter, name, setup, teardown)                                                                      \
        static void name(parameter);                                                                                   \
        static void name##_test(void **state)                                                                          \
        {                                                                                                              \
                name(*state);                                                                                          \
        }                                                                                                              \
        TEST_REGISTER(name, #name, name##_test, setup, teardown)                                                       \
        static void name(parameter)

/* A test above once more, as name_variant, with another setup. */
#define TEST_AGAIN(name, variant, setup, teardown)                                                                     \
        TEST_REGISTER(name##_##variant, #name "_" #variant, name##_test, setup, teardown)

/* At most once in a program: what runs before the first test and after the last. */
#define TEST_GROUP(setup, teardown)                                                                                    \
        __attribute__((constructor)) static void test_group_of_file(void)                                              \
        {                                                                                                              \
                test_group(setup, teardown);                                                                           \
        }

struct test {
        struct CMUnitTest unit;
        const char *file;
        int line;
        struct test *next;
};
void test_register(struct test *test);
void test_group(CMFixtureFunction setup, CMFixtureFunction teardown);

#define TEST_REGISTER(id, text, function, setup, teardown)                                                             \
        __attribute__((constructor)) static void id##_register(void)                                                   \
        {                                                                                                              \
                static struct test test = { { text, function, setup, teardown, NULL }, __FILE__, __LINE__, NULL };     \
                                                                                                                       \
                test_register(&test);                                                                                  \
        }

#endif
