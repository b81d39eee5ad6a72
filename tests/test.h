/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

/* cmocka's header needs those before it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#undef stop /* of cmocka 2 */

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
                test_row(NULL);                                                                                        \
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
                test_row(NULL);                                                                                        \
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

/* Time limits that a test sets and asserts are longer in a build with a sanitizer, those of workers ten times. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, SLOWNESS = 10 }; /* freed memory is kept, too: the size of a worker says little */
#define LIMIT_MS(ms) #ms "0ms"
#else
enum { SANITIZED = 0, SLOWNESS = 1 };
#define LIMIT_MS(ms) #ms "ms"
#endif

enum { WAIT_MS = 30000 };
uint64_t now_ms(void);

/*
 * Waits for what another thread or process does and signals nobody; the test fails by the condition's name when it does
 * not come within WAIT_MS. Looks every millisecond.
 */
#define WAIT_UNTIL(condition) WAIT_UNTIL_OR(condition, "%d s passed without: %s", WAIT_MS / 1000, #condition)

/* The same; what the failure says is as for printf. */
#define WAIT_UNTIL_OR(condition, ...)                                                                                  \
        do {                                                                                                           \
                for (uint64_t began_ms_ = now_ms(); !(condition);)                                                     \
                        if (!wait_more(began_ms_))                                                                     \
                                fail_msg(__VA_ARGS__);                                                                 \
        } while (0)

/* The same for what is signalled: called with lock held, which a failure gives back. */
#define WAIT_SIGNAL(changed, lock, condition)                                                                          \
        do {                                                                                                           \
                for (uint64_t began_ms_ = now_ms(); !(condition);)                                                     \
                        if (!wait_signal(changed, lock, began_ms_))                                                    \
                                fail_msg("%d s passed without: %s", WAIT_MS / 1000, #condition);                       \
        } while (0)

/* How often something has happened, told by any thread. What a thread wrote before it rings, whoever awaits it sees. */
struct bell {
        pthread_mutex_t lock;
        pthread_cond_t rung;
        unsigned times;
};

#define BELL                                                                                                           \
        (struct bell)                                                                                                  \
        {                                                                                                              \
                PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                                 \
        }

void bell_ring(struct bell *bell);
/* Waits, at most WAIT_MS, until it has been rung so often in all. */
void bell_await(struct bell *bell, unsigned times);

bool wait_more(uint64_t began_ms);
bool wait_signal(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t began_ms);

/* Names the row of a table that the test looks at: a failure prints it. NULL = none. Returns row; it is borrowed. */
const char *test_row(const char *row);

/*
 * Calls release(object) in the end of the test, before the test's teardown, of the latest first; returns object. Any
 * thread, as the next.
 */
void *test_keep(void *object, void (*release)(void *object));
/* Releases now what was kept for the end. */
void test_release(void *object);
/* Makes keep_NAME(object), which keeps a TYPE * for a test and releases it by function. */
#define TEST_KEEPS(name, type, function)                                                                               \
        static inline void keep_##name##_release(void *object)                                                         \
        {                                                                                                              \
                (void)function(object);                                                                                \
        }                                                                                                              \
        static inline type *keep_##name(type *object)                                                                  \
        {                                                                                                              \
                return test_keep(object, keep_##name##_release);                                                       \
        }

/* printf into memory that goes with the test: nobody frees it. */
const char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Gives a string to the test, which frees it in its end. */
const char *text_keep(char *text);

struct test {
        struct CMUnitTest unit;
        const char *file;
        int line;
        struct test *next;
};
void test_over(void);
void test_register(struct test *test);
void test_group(CMFixtureFunction setup, CMFixtureFunction teardown);

#define TEST_REGISTER(id, text, function, setup, teardown)                                                             \
        __attribute__((constructor)) static void id##_register(void)                                                   \
        {                                                                                                              \
                static struct test test = { { text, function, setup, teardown, NULL }, __FILE__, __LINE__, NULL };     \
                                                                                                                       \
                test_register(&test);                                                                                  \
        }

/* A failure names the text: FOR_EACH_TEXT(text, "a", "b") assert_true(is_taken(text)); */
#define FOR_EACH_TEXT(text, ...)                                                                                       \
        for (const char *const *text##_ = (const char *const[]){ __VA_ARGS__, NULL }, *text;                           \
             (text = test_row(*text##_)); text##_++)

#endif
