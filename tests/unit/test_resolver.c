/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <ferry/error.h>

#include "base/allowlist.h"
#include "base/util.h"
#include "command.h"
#include "move/engine.h"
#include "resolver.h"
#include "unit.h"

/* ---- names lead where the test says ---- */

static const char *leads_to;
static atomic_uint n_asked, n_posted;
static const char *late_name; /* waits for its turn; NULL = none does */
static sem_t late_turn;
static bool late_has_turn; /* the engine's holder */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list)
{
        if (hints->ai_flags & AI_NUMERICHOST)
                return __real_getaddrinfo(host, port, hints, ret_list);
        atomic_fetch_add(&n_asked, 1);
        if (late_name && !strcmp(host, late_name))
                (void)sem_wait(&late_turn);
        return __real_getaddrinfo(leads_to ?: host, port, hints, ret_list);
}

/* The late name is resolved when all have been asked for the one before, and its result is still there. */
void __real_resolution_end(struct engine *engine, struct resolution *resolution);
void __wrap_resolution_end(struct engine *engine, struct resolution *resolution);

void __wrap_resolution_end(struct engine *engine, struct resolution *resolution)
{
        if (late_name && !late_has_turn) { /* once; the first one's own command may not be counted yet */
                late_has_turn = true;
                (void)sem_post(&late_turn);
                WAIT_UNTIL(atomic_load(&n_posted) == 2);
        }
        __real_resolution_end(engine, resolution);
}

int __real_command_post(struct engine *engine, const struct command *command);
int __wrap_command_post(struct engine *engine, const struct command *command);

int __wrap_command_post(struct engine *engine, const struct command *command)
{
        int r = __real_command_post(engine, command);

        if (command->type == COMMAND_RESOLVED)
                atomic_fetch_add(&n_posted, 1);
        return r;
}

/* ---- an engine that connects to itself by UCX ---- */

struct scene {
        struct allowlist *allowlist;
        struct engine *engine;
        uint64_t epoch;
        struct bell connected;
        struct engine_connection connection;
};

static int grant_nothing(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        return FERRY_E_STALE_METADATA;
}

static void scene_start(struct scene *s, const char *const *entries, size_t n)
{
        struct engine_config config = {
                .epoch = s->epoch = random_id(),
                .data_listen = "127.0.0.1:0",
                .ucx_tls = "tcp,self",
                .grace_ms = 500,
                .operations = { .claim = grant_nothing },
        };

        assert_int_equal(allowlist_new(entries, n, false, &s->allowlist), 0);
        config.allowlist = s->allowlist;
        assert_int_equal(engine_new(&config, &s->engine), 0);
        atomic_store(&n_asked, 0);
}

static void scene_stop(struct scene *s)
{
        engine_free(s->engine);
        allowlist_free(s->allowlist);
}

static void on_connected(void *context, const struct engine_connection *connection)
{
        struct scene *s = context;

        s->connection = *connection;
        bell_ring(&s->connected);
}

/* Connects to the engine's own port at host. */
static void connect_begin(struct scene *s, const char *host)
{
        const char *port = strrchr(engine_get_facts(s->engine)->data_address, ':');
        struct engine_connect spec = { .peer.epoch = s->epoch, .context = s, .connected = on_connected };
        char data[ENGINE_ADDRESS_SIZE];

        (void)snprintf(data, sizeof(data), "%s%s", host, port);
        spec.peer.data = data;
        s->connected = BELL;
        assert_int_equal(engine_connect(s->engine, &spec), 0);
}

/* To the end. */
static void connect_to(struct scene *s, const char *host)
{
        connect_begin(s, host);
        bell_await(&s->connected, 1);
}

static void assert_refused(struct scene *s)
{
        assert_int_equal(s->connection.error, FERRY_E_PEER_UNREACHABLE);
        assert_non_null(strstr(s->connection.detail, "--allow-peer does not admit the peer's network address"));
}

/* "localhost" is admitted where loopback is; but what it leads to, nobody has promised. */
TEST(what_a_name_leads_to_is_judged_before_ucx_connects)
{
        struct scene s = { 0 };

        scene_start(&s, NULL, 0);
        leads_to = "192.0.2.1";
        connect_to(&s, "localhost");
        assert_refused(&s);
        assert_int_equal(n_asked, 1);
        leads_to = "127.0.0.1";
        connect_to(&s, "localhost");
        assert_int_equal(s.connection.error, 0);
        assert_int_equal(n_asked, 2);
        scene_stop(&s);
}

/* Whoever lists a name trusts what it leads to. */
TEST(a_listed_name_may_lead_anywhere)
{
        static const char *const listed[] = { "worker.test" };
        struct scene s = { 0 };

        scene_start(&s, listed, 1);
        leads_to = "127.0.0.1";
        connect_to(&s, "worker.test");
        assert_int_equal(s.connection.error, 0);
        scene_stop(&s);
}

/* Nor does the name server hear of it. */
TEST(a_name_that_is_not_listed_is_not_even_resolved)
{
        struct scene s = { 0 };

        scene_start(&s, NULL, 0);
        leads_to = "127.0.0.1";
        FOR_EACH_TEXT (name, "worker.test", "0x7f000001", "127.1", "2130706433", "192.0.2.1", "[2001:db8::1]") {
                connect_to(&s, name);
                if (strcmp(name, "127.1") && strcmp(name, "0x7f000001") && strcmp(name, "2130706433"))
                        assert_refused(&s); /* those three getaddrinfo takes for 127.0.0.1 */
        }
        assert_int_equal(n_asked, 0);
        scene_stop(&s);
}

TEST(a_name_that_is_resolved_while_another_is_handed_out_is_not_lost)
{
        static const char *const listed[] = { "first.test", "late.test" };
        struct scene s = { 0 }, late = { 0 };

        scene_start(&s, listed, 2);
        leads_to = "127.0.0.1";
        late_name = "late.test";
        atomic_store(&n_posted, 0);
        assert_int_equal(sem_init(&late_turn, 0, 0), 0);
        late = (struct scene){ .engine = s.engine, .epoch = s.epoch };
        connect_begin(&late, late_name);
        connect_to(&s, "first.test");
        assert_int_equal(s.connection.error, 0);
        bell_await(&late.connected, 1);
        assert_int_equal(late.connection.error, 0);
        late_name = NULL;
        scene_stop(&s);
        (void)sem_destroy(&late_turn);
}

TEST(an_address_is_judged_as_it_is_written_and_as_it_is_meant)
{
        static const char *const allow[] = { "10.1.0.0/16" };
        static const struct {
                const char *text;
                bool refused;
        } rows[] = {
                { "10.1.2.3:7", false }, { "[::ffff:10.1.2.3]:7", false }, { "10.2.0.1:7", true },
                { "127.0.0.1:7", true }, { "0x0a010203:7", false },        { "0x7f000001:7", true },
                { "[::1]:7", true },     { "localhost:7", true },          { "10.1.0.0.test:7", true },
        };
        struct allowlist *allowlist;
        struct resolved resolved;
        int r;

        assert_int_equal(allowlist_new(allow, 1, false, &allowlist), 0);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                assert_int_equal(resolver_parse(allowlist, rows[i].text, AF_INET, &resolved),
                                 rows[i].refused ? -EACCES : 0);
                r = resolver_parse(NULL, rows[i].text, AF_INET, &resolved);
                assert_true(r == 0 || r == -ENOENT);
        }
        assert_int_equal(resolver_parse(allowlist, "10.1.2.3", AF_INET, &resolved), -EINVAL);
        allowlist_free(allowlist);
}
