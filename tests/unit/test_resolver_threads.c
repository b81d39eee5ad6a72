/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "command.h"
#include "engine_internal.h"
#include "resolver.h"
#include "unit.h"

/* The tasks that resolve names, for an engine that does nothing else. */

enum { THREADS_MAX = 16, FAMILIES = 2 };

/* ---- a name server that answers when the test says so ---- */

static sem_t turn;
static atomic_uint n_asked, n_ended;
static const char *leads_to[FAMILIES]; /* addresses of every name, in this order; none: it has no address */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list);
void __wrap_freeaddrinfo(struct addrinfo *list);
void __real_freeaddrinfo(struct addrinfo *list);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list)
{
        struct addrinfo **end = ret_list;

        if (hints->ai_flags & AI_NUMERICHOST)
                return __real_getaddrinfo(host, port, hints, ret_list);
        atomic_fetch_add(&n_asked, 1);
        (void)sem_wait(&turn);
        for (size_t i = 0; i < FAMILIES && leads_to[i]; i++, end = &(*end)->ai_next)
                if (__real_getaddrinfo(leads_to[i], port, hints, end) != 0)
                        abort();
        return leads_to[0] ? 0 : EAI_NONAME;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
        struct addrinfo *next;

        for (; list; list = next) {
                next = list->ai_next;
                list->ai_next = NULL;
                __real_freeaddrinfo(list);
        }
}

/* ---- an engine that takes no commands by itself ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct resolution *resolved[2 * THREADS_MAX];
static size_t n_resolved;

int __wrap_command_post(struct engine *engine, const struct command *command);

int __wrap_command_post(struct engine *engine, const struct command *command)
{
        (void)pthread_mutex_lock(&lock);
        resolved[n_resolved++] = command->resolution;
        (void)pthread_cond_broadcast(&changed);
        (void)pthread_mutex_unlock(&lock);
        return 0;
}

/* A resolution ends with its last reference. */
int __real_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
        atomic_fetch_add(&n_ended, 1);
        return __real_pthread_mutex_destroy(mutex);
}

/* The numbers of threads that were started and let go before the end of the test. */
struct scene {
        struct engine engine;
        unsigned n_let_go;
};

static void let_go(struct scene *s)
{
        s->n_let_go++;
        (void)sem_post(&turn);
}

static void scene_free(void *context)
{
        struct scene *s = context;

        resolver_stop(&s->engine);
        while (s->n_let_go < atomic_load(&n_asked))
                let_go(s);
        WAIT_UNTIL(atomic_load(&n_ended) == atomic_load(&n_asked));
        pool_user_free(s->engine.tasks);
        (void)sem_destroy(&turn);
        free(s);
}

static struct scene *scene_new(void)
{
        assert_int_equal(sem_init(&turn, 0, 0), 0);
        atomic_store(&n_asked, 0);
        atomic_store(&n_ended, 0);
        n_resolved = 0;
        leads_to[0] = "127.0.0.1";
        leads_to[1] = NULL;
        struct scene *s = calloc(1, sizeof(*s));
        assert_int_equal(pool_user_new(NULL, NULL, &s->engine.tasks), 0);
        return test_keep(s, scene_free);
}

static int ask(struct scene *s, unsigned i, int family, struct resolved *ret_resolved)
{
        return resolver_ask(&s->engine, text_format("n%u.test:7", i), family, ret_resolved);
}

static void await_posted(size_t n)
{
        (void)pthread_mutex_lock(&lock);
        WAIT_SIGNAL(&changed, &lock, n_resolved == n);
        (void)pthread_mutex_unlock(&lock);
}

/* The next result, which whoever asks before resolution_end gets. */
static struct resolution *await_resolved(struct scene *s, size_t n)
{
        let_go(s);
        await_posted(n);
        resolution_begin(resolved[n - 1]);
        return resolved[n - 1];
}

TEST(no_more_names_are_resolved_at_once_than_threads_may_be)
{
        struct scene *s = scene_new();
        struct resolved address;

        for (unsigned i = 0; i < THREADS_MAX; i++)
                assert_int_equal(ask(s, i, AF_INET, &address), -EINPROGRESS);
        assert_int_equal(ask(s, THREADS_MAX, AF_INET, &address), -EAGAIN);
        assert_int_equal(ask(s, 0, AF_INET, &address), -EINPROGRESS); /* needs no other thread */
        WAIT_UNTIL(atomic_load(&n_asked) == THREADS_MAX);
        resolution_end(&s->engine, await_resolved(s, 1));
        assert_int_equal(ask(s, THREADS_MAX, AF_INET, &address), -EINPROGRESS);
        WAIT_UNTIL(atomic_load(&n_asked) == THREADS_MAX + 1);
}

TEST(a_name_that_is_resolved_after_the_engine_has_ended_is_told_to_nobody)
{
        struct scene *s = scene_new();
        struct resolved address;

        assert_int_equal(ask(s, 0, AF_INET, &address), -EINPROGRESS);
        WAIT_UNTIL(atomic_load(&n_asked) == 1);
        resolver_stop(&s->engine);
        assert_null(s->engine.resolutions);
        assert_int_equal(atomic_load(&n_ended), 0); /* the thread has it */
        let_go(s);
        WAIT_UNTIL(atomic_load(&n_ended) == 1);
        assert_int_equal(n_resolved, 0);
}

TEST(a_result_lives_until_both_the_engine_and_the_thread_have_let_go_of_it)
{
        struct scene *s = scene_new();
        struct resolved address;
        struct resolution *resolution;

        assert_int_equal(ask(s, 0, AF_INET, &address), -EINPROGRESS);
        resolution = await_resolved(s, 1);
        assert_int_equal(ask(s, 0, AF_INET, &address), 0);
        assert_int_equal(atomic_load(&n_ended), 0);
        resolution_end(&s->engine, resolution);
        WAIT_UNTIL(atomic_load(&n_ended) == 1);
}

TEST(a_result_that_the_engine_has_not_taken_is_freed_once)
{
        struct scene *s = scene_new();
        struct resolved address;

        assert_int_equal(ask(s, 0, AF_INET, &address), -EINPROGRESS);
        let_go(s);
        await_posted(1);
        pool_user_free(s->engine.tasks); /* POOL_NAME outlives it: its reference may go later */
        s->engine.tasks = NULL;
        resolver_stop(&s->engine);
        WAIT_UNTIL(atomic_load(&n_ended) == 1);
}

TEST(of_several_addresses_the_preferred_family_is_taken)
{
        static const struct {
                const char *leads_to[FAMILIES];
                int family, taken;
        } rows[] = {
                { { "::1", "127.0.0.1" }, AF_INET, AF_INET },   { { "::1", "127.0.0.1" }, AF_INET6, AF_INET6 },
                { { "127.0.0.1", "::1" }, AF_INET6, AF_INET6 }, { { "::1" }, AF_INET, AF_INET6 },
                { { "127.0.0.1" }, AF_INET6, AF_INET },
        };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct scene *s = scene_new();
                struct resolved address = { 0 };

                memcpy(leads_to, rows[i].leads_to, sizeof(leads_to));
                assert_int_equal(ask(s, 0, rows[i].family, &address), -EINPROGRESS);
                struct resolution *resolution = await_resolved(s, 1);
                assert_int_equal(ask(s, 0, rows[i].family, &address), 0);
                assert_int_equal(address.address.ss_family, rows[i].taken);
                resolution_end(&s->engine, resolution);
                test_release(s);
        }
}

TEST(a_name_without_an_address_is_not_resolved)
{
        struct scene *s = scene_new();
        struct resolved address;

        leads_to[0] = NULL;
        assert_int_equal(ask(s, 0, AF_INET, &address), -EINPROGRESS);
        struct resolution *resolution = await_resolved(s, 1);
        assert_int_equal(ask(s, 0, AF_INET, &address), -ENOENT);
        resolution_end(&s->engine, resolution);
}
