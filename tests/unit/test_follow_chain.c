/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "faulty_transport.h"
#include "node_fixture.h"
#include "unit.h"

/*
 * Chains and trees of readables that follow reads, over transports that are faulty. Each node is an engine with the
 * operations of a worker above it; node 0 has the bytes, each other node reads them from one before it while they
 * arrive there. Whatever happens below: all ends within its limits, what is complete has the right bytes, and what an
 * ended operation leaves may be used for other things at once.
 */

enum {
        NODES = 5,
        FLIGHTS = 10, /* chains at once, each in an area of its own of every region */
        TOTAL_MAX = 700 << 10,
        GUARD = 64,
        AREA = TOTAL_MAX + 2 * GUARD,
        CONNECT_MS = SANITIZED ? 4000 : 1000, /* of UCX 1.20 100 on a busy machine */
        DELAY_US = 3000,
        LIMIT_MS = 150,
        GRACE_MS = 40,
        PATIENT_MS = 20000,
        PATIENCE_MS = 30000, /* beyond all limits: it hangs */
        GAP = 0x5a,
        SCRIBBLE = 0xee,
};

struct rules {
        bool all_complete; /* those that nobody cancels */
        bool lossy;
        bool verify; /* always */
};

/* One chain or tree. */
struct flight {
        uint64_t total, seed;
        unsigned n, parent[NODES], children[NODES];
        bool verified[NODES]; /* all the way from node 0 */
        struct operation *read[NODES], *offer[NODES];
        bool checked[NODES], scribbled[NODES];
        bool interrupted;
        unsigned victim;
        uint64_t interrupt_us; /* 0 = no more */
};

struct net {
        struct rules rules;
        struct loop *loop;
        struct node nodes[NODES];
        struct flight flights[FLIGHTS];
        uint64_t random;
        unsigned n_complete;
};

static uint64_t draw(struct net *net)
{
        net->random ^= net->random << 13;
        net->random ^= net->random >> 7;
        net->random ^= net->random << 17;
        return net->random;
}

/* ---- a chain ---- */

static uint8_t *bytes_of(struct net *net, const struct flight *f, unsigned i)
{
        return (uint8_t *)net->nodes[i].region->address + (size_t)(f - net->flights) * AREA + GUARD;
}

static uint8_t pattern(const struct flight *f, uint64_t at)
{
        return (uint8_t)((at * UINT64_C(0x9e3779b97f4a7c15) + f->seed) >> 40);
}

static struct operation_view look(struct net *net, unsigned i, struct operation *operation)
{
        struct operation_view view;

        operation_get_view(net->nodes[i].store, operation, &view);
        return view;
}

static struct operation_slice slice_of(struct net *net, const struct flight *f, unsigned i)
{
        return (struct operation_slice){ .region = net->nodes[i].region,
                                         .offset = (uint64_t)(f - net->flights) * AREA + GUARD,
                                         .size = f->total };
}

static int make(struct net *net, struct flight *f, unsigned i, struct operation_spec spec,
                struct operation **ret_operation)
{
        struct operation_slice slice = slice_of(net, f, i);
        char detail[OPERATION_DETAIL_SIZE];

        spec.slices = &slice;
        spec.n_slices = 1;
        return operation_create(net->nodes[i].store, &spec, ret_operation, detail);
}

/* false: what it was to read from has ended already. */
static bool begin(struct net *net, struct flight *f, unsigned i)
{
        const struct node *from = &net->nodes[f->parent[i]];
        struct ferry_metadata *metadata;
        char detail[OPERATION_DETAIL_SIZE];
        int r;

        if (operation_metadata(from->store, f->offer[f->parent[i]], &metadata) != 0)
                return false;
        (void)strcpy(metadata->data, engine_get_facts(from->engine)->data_address);
        r = operation_begin(net->nodes[i].store, f->read[i], metadata, false, detail);
        (void)ferry_metadata_free(metadata);
        assert_int_equal(r, 0);
        return true;
}

static void flight_prepare(struct net *net, struct flight *f)
{
        static const uint64_t limits[] = { 5000, 100 << 10, TOTAL_MAX, TOTAL_MAX };

        *f = (struct flight){ .seed = draw(net), .n = 3 + (unsigned)(draw(net) % 3) };
        f->total = 1 + draw(net) % limits[draw(net) % FERRY_ARRAY_SIZE(limits)];
        f->verified[0] = true;
        for (unsigned i = 1; i < f->n; i++) {
                f->parent[i] = draw(net) % 4 ? i - 1 : (unsigned)(draw(net) % i);
                f->children[f->parent[i]]++;
        }
        for (uint64_t at = 0; at < f->total; at++)
                bytes_of(net, f, 0)[at] = pattern(f, at);
        f->interrupted = draw(net) % 3 == 0;
        f->victim = (unsigned)(draw(net) % f->n);
        f->interrupt_us = f->interrupted ? clock_now_us() + draw(net) % 5000 : 0;
}

/* The read of a node, and what follows it. */
static void node_begin(struct net *net, struct flight *f, unsigned i)
{
        const bool verify = net->rules.verify || draw(net) % 2, late = draw(net) % 2;
        struct operation_spec spec = { .kind = FERRY_READ, .verify = verify };
        bool begins;
        int r = 0;

        f->verified[i] = verify && f->verified[f->parent[i]];
        assert_int_equal(make(net, f, i, spec, &f->read[i]), 0);
        begins = late || begin(net, f, i);
        spec = (struct operation_spec){ .kind = FERRY_READABLE, .uses = f->children[i], .follow = f->read[i] };
        if (f->children[i])
                r = make(net, f, i, spec, &f->offer[i]);
        assert_true(r == 0 || r == FERRY_E_GONE);
        if (late) /* it is followed before it has begun */
                begins = begin(net, f, i);
        if (!begins)
                operation_fail(net->nodes[i].store, f->read[i], FERRY_E_STALE_METADATA, "");
}

static void flight_begin(struct net *net, struct flight *f)
{
        const struct operation_spec spec = { .kind = FERRY_READABLE, .uses = f->children[0] };

        assert_int_equal(make(net, f, 0, spec, &f->offer[0]), 0);
        for (unsigned i = 1; i < f->n; i++)
                if (f->offer[f->parent[i]]) /* else its parent has failed at once */
                        node_begin(net, f, i);
}

static void flight_interrupt(struct net *net, struct flight *f)
{
        struct operation_store *store = net->nodes[f->victim].store;
        struct operation *victim = f->victim && draw(net) % 2 ? f->read[f->victim] : f->offer[f->victim];

        f->interrupt_us = 0;
        if (victim)
                operation_cancel(store, victim);
}

/* ---- what must hold ---- */

static void check_bytes(struct net *net, const struct flight *f, unsigned i)
{
        const uint8_t *bytes = bytes_of(net, f, i);

        for (uint64_t at = 0; at < f->total; at++)
                if (bytes[at] != pattern(f, at))
                        fail_msg("byte %llu of %llu at node %u of %u, which reads from %u, is %02x, not %02x",
                                 (unsigned long long)at, (unsigned long long)f->total, i, f->n, f->parent[i], bytes[at],
                                 pattern(f, at));
}

static bool is_done(struct net *net, unsigned i, struct operation *operation)
{
        return !operation || look(net, i, operation).done;
}

/* An end of a read: its bytes are as they stay, and right where it is complete. */
static void check_read(struct net *net, struct flight *f, unsigned i)
{
        struct operation_view view;

        f->checked[i] = true;
        if (!f->read[i])
                return;
        view = look(net, i, f->read[i]);
        if (view.status == FERRY_COMPLETE) {
                net->n_complete++;
                if (f->verified[i] || !net->rules.verify)
                        check_bytes(net, f, i);
        } else if (net->rules.all_complete && !f->interrupted) {
                fail_msg("node %u of %u, which reads from %u: %s: %s", i, f->n, f->parent[i],
                         ferry_error_code(view.error), view.detail);
        }
}

/* Whoever was to read from it has ended: its offer would wait for another. */
static void drop_offer(struct net *net, struct flight *f, unsigned i)
{
        for (unsigned j = i + 1; j < f->n; j++)
                if (f->parent[j] == i && !is_done(net, j, f->read[j]))
                        return;
        if (!is_done(net, i, f->offer[i]))
                operation_cancel(net->nodes[i].store, f->offer[i]);
}

/* true: all of the flight has ended. Nobody may see what the memory of ended operations becomes. */
static bool flight_look(struct net *net, struct flight *f, uint64_t now_us)
{
        bool over = true;

        if (f->interrupt_us && now_us >= f->interrupt_us)
                flight_interrupt(net, f);
        for (unsigned i = 0; i < f->n; i++) {
                bool read_done = is_done(net, i, f->read[i]);

                if (read_done && !f->checked[i])
                        check_read(net, f, i);
                if (read_done)
                        drop_offer(net, f, i);
                if (!read_done || !is_done(net, i, f->offer[i])) {
                        over = false;
                } else if (!f->scribbled[i]) {
                        f->scribbled[i] = true;
                        memset(bytes_of(net, f, i), SCRIBBLE, f->total);
                }
        }
        return over;
}

static void flight_free(struct net *net, struct flight *f)
{
        for (unsigned i = 0; i < f->n; i++) {
                const uint8_t *bytes = bytes_of(net, f, i);

                for (uint64_t at = 0; at < f->total; at++)
                        assert_int_equal(bytes[at], SCRIBBLE);
                for (size_t at = 0; at < GUARD; at++) {
                        assert_int_equal((bytes - GUARD)[at], GAP);
                        assert_int_equal(bytes[f->total + at], GAP);
                }
                (void)operation_unref(f->read[i]);
                (void)operation_unref(f->offer[i]);
        }
}

/* ---- many of them ---- */

static void net_run(struct net *net)
{
        const uint64_t limit_us =
                clock_now_us() + PATIENCE_MS * UINT64_C(1000) * (getenv("FERRY_FAULTS_ROUNDS") ? 4 : 1);
        const struct timespec moment = { .tv_nsec = 1000000 };
        unsigned over;

        for (unsigned i = 0; i < FLIGHTS; i++) {
                flight_prepare(net, &net->flights[i]);
                flight_begin(net, &net->flights[i]);
        }
        do {
                uint64_t now_us = clock_now_us();

                over = 0;
                for (unsigned i = 0; i < FLIGHTS; i++)
                        over += flight_look(net, &net->flights[i], now_us);
                assert_true(now_us < limit_us);
                if (over < FLIGHTS)
                        (void)nanosleep(&moment, NULL); /* the interruptions and the checks come at any time */
        } while (over < FLIGHTS);
}

static struct net *net_open(const struct faulty_plan *plan, struct rules rules, bool network)
{
        const struct node_limits limits = { .size = (uint64_t)FLIGHTS * AREA,
                                            .grace_ms = rules.lossy ? GRACE_MS : PATIENT_MS,
                                            .connect_ms = rules.all_complete ? PATIENT_MS : CONNECT_MS,
                                            .stall_ms = rules.lossy ? LIMIT_MS : PATIENT_MS,
                                            .ttl_ms = PATIENT_MS };
        struct net *net = calloc(1, sizeof(*net));

        assert_non_null(net);
        net->random = plan->seed * 2 + 1;
        net->rules = rules;
        faulty_set_plan(plan);
        assert_int_equal(loop_new("test", &net->loop), 0);
        for (unsigned i = 0; i < NODES; i++) {
                node_open(&net->nodes[i], net->loop, network, &limits);
                memset(net->nodes[i].region->address, GAP, limits.size);
        }
        return net;
}

static void net_close(struct net *net)
{
        for (unsigned i = 0; i < NODES; i++)
                engine_stop(net->nodes[i].engine);
        for (unsigned i = 0; i < FLIGHTS; i++)
                flight_free(net, &net->flights[i]);
        for (unsigned i = 0; i < NODES; i++)
                node_close(&net->nodes[i]);
        net->loop = loop_free(net->loop);
        for (unsigned i = 0; i < NODES; i++)
                node_free(&net->nodes[i]);
        free(net);
}

static void run(struct faulty_plan plan, struct rules rules)
{
        const char *text = getenv("FERRY_FAULTS_ROUNDS");
        int rounds = text && atoi(text) > 0 ? atoi(text) : 1;
        unsigned n_complete = 0;

        plan.delay_us = DELAY_US;
        for (int round = 0; round < 2 * rounds; round++) {
                struct net *net;

                plan.seed = (uint64_t)round + 1;
                net = net_open(&plan, rules, round % 2);
                net_run(net);
                n_complete += net->n_complete;
                net_close(net);
        }
        assert_true(n_complete > 0);
}

static const struct {
        const char *what;
        unsigned per_mille[FAULTS];
        struct rules rules;
} storms[] = {
        { "nothing: all is complete", { 0 }, { .all_complete = true } },
        { "late messages change nothing", { [FAULT_DELAY] = 300 }, { .all_complete = true } },
        { "links that end end what follows", { [FAULT_END] = 3, [FAULT_DELAY] = 200 }, { 0 } },
        { "lost and repeated messages hang nothing",
          { [FAULT_SWALLOW] = 3, [FAULT_DROP] = 3, [FAULT_REPEAT] = 50, [FAULT_REORDER] = 50 },
          { .lossy = true } },
        { "other bytes are never complete with verify",
          { [FAULT_FLIP] = 10, [FAULT_TRUNCATE] = 3 },
          { .lossy = true, .verify = true } },
        { "all at once", { 0, 2, 2, 2, 10, 50, 30, 5, 5, 3, 1 }, { .lossy = true, .verify = true } },
};

TEST(chains_hold_whatever_becomes_of_their_messages)
{
        for (size_t i = 0; i < UNIT_COUNT(storms); i++) {
                struct faulty_plan plan = { 0 };

                test_row(storms[i].what);
                memcpy(plan.per_mille, storms[i].per_mille, sizeof(plan.per_mille));
                run(plan, storms[i].rules);
        }
        test_row(NULL);
}

/* Its requests are held for longer than connecting may take, and over a link that they have opened. */
TEST(a_held_request_says_that_the_link_is_up)
{
        const struct operation_spec readable = { .kind = FERRY_READABLE }, read = { .kind = FERRY_READ };
        struct net *net = net_open(&(struct faulty_plan){ .seed = 1 }, (struct rules){ 0 }, true);
        struct flight *f = &net->flights[0];
        struct operation_spec follower = readable;

        *f = (struct flight){ .n = 3, .total = 5000, .parent = { 0, 0, 1 }, .verified = { true } };
        for (uint64_t at = 0; at < f->total; at++)
                bytes_of(net, f, 0)[at] = pattern(f, at);
        assert_int_equal(make(net, f, 0, readable, &f->offer[0]), 0);
        assert_int_equal(make(net, f, 1, read, &f->read[1]), 0);
        assert_int_equal(make(net, f, 2, read, &f->read[2]), 0);
        follower.follow = f->read[1];
        assert_int_equal(make(net, f, 1, follower, &f->offer[1]), 0);
        assert_true(begin(net, f, 2));
        (void)usleep(1500 * CONNECT_MS); /* half as long again */
        assert_int_equal(look(net, 2, f->read[2]).status, FERRY_IN_PROGRESS);
        assert_true(begin(net, f, 1));
        while (!flight_look(net, f, clock_now_us()))
                (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        assert_int_equal(net->n_complete, 2);
        net_close(net);
}

static int log_errors(void **state)
{
        log_setup(LOG_ERROR, LOG_LOGFMT);
        return 0;
}

TEST_GROUP(log_errors, NULL)
