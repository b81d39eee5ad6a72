/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "steps.h"

/*
 * Bulk between two workers of one host: the active side (b) copies by itself, under a lease. Whoever ends the transfer,
 * and whatever the other one is doing, no byte changes after the operation of the target is terminal.
 */

enum { MIB = 1 << 20, SIZE = 512 * MIB, TRIES = 20, SEED = 7 };

struct scene {
        struct pair pair;
        enum ferry_kind kind; /* of the offer */
        const char *local, *offered;
        struct ferry_operation passive, active;
        uint8_t *memory; /* the offered region, mapped */
        uint8_t *copy;   /* of it when its operation was terminal: then nothing changes it */
};

static void scene_start(struct scene *s, enum ferry_kind kind)
{
        s->kind = kind;
        pair_start_with(&s->pair, false, STRINGS("--drain-timeout", "300ms", "--grace", "300ms"));
        pair_expect_failures(&s->pair);
        s->offered = region_make(&s->pair.a, SIZE, kind == FERRY_READABLE ? SEED : 0);
        s->local = region_make(&s->pair.b, SIZE, kind == FERRY_READABLE ? 0 : SEED);
        s->memory = region_map(&s->pair.a, s->offered);
        s->copy = test_keep(malloc(SIZE), free);
}

static void operations_clear(struct scene *s)
{
        ferry_operation_clear(&s->passive);
        ferry_operation_clear(&s->active);
}

static void scene_stop(struct scene *s)
{
        operations_clear(s);
        (void)munmap(s->memory, SIZE);
        region_drop(&s->pair.a, s->offered);
        if (s->pair.b.pid)
                region_drop(&s->pair.b, s->local);
        pair_clean(&s->pair);
}

/* Begins until bytes have moved, and acts at once; then again until act says that it came before the end. */
static void in_the_middle(struct scene *s, bool (*act)(struct scene *s))
{
        for (int i = 0; i < TRIES; i++) {
                offer_make(&s->pair.a, s->kind, s->offered, &s->passive);
                begin_make(&s->pair.b, kind_of_peer(s->kind), s->local, s->passive.metadata, &s->active);
                (void)operation_await_middle(&s->pair.b, s->active.id);
                if (act(s))
                        return;
                if (s->pair.b.pid && kill(s->pair.b.pid, SIGCONT) == 0)
                        operation_assert_end(&s->pair.b, s->active.id, FERRY_COMPLETE, NULL);
                operation_assert_end(&s->pair.a, s->passive.id, FERRY_COMPLETE, NULL);
                operations_clear(s);
        }
        fail_msg("no transfer was caught in its middle");
}

/* Only the end tells whether it came too late. */
static bool cancel(struct worker *w, const char *id)
{
        OPERATION end;

        assert_int_equal(ferry_cancel_operation(w->client, id, NULL), 0);
        assert_int_equal(ferry_wait_operation(w->client, id, WAIT_MS, &end), 0);
        assert_true(end.done);
        return end.status != FERRY_COMPLETE;
}

static bool cancel_passive(struct scene *s)
{
        return cancel(&s->pair.a, s->passive.id);
}

static bool cancel_active(struct scene *s)
{
        return cancel(&s->pair.b, s->active.id);
}

/* The offer may wait for its end until the active worker goes on. */
static bool stop_active_and_cancel(struct scene *s)
{
        OPERATION now;

        worker_pause(&s->pair.b);
        assert_int_equal(ferry_cancel_operation(s->pair.a.client, s->passive.id, NULL), 0);
        assert_int_equal(ferry_get_operation(s->pair.a.client, s->passive.id, 0, 0, &now), 0);
        return now.status != FERRY_COMPLETE;
}

/* ---- messages ---- */

static uint64_t messages_of(struct pair *p)
{
        const char *sent = "ferry_local_messages_total{direction=\"sent\"}";

        return worker_metric(&p->a, sent) + worker_metric(&p->b, sent);
}

/* How many messages a transfer takes of all of an offer, or of its pieces in another order. */
static uint64_t messages_of_transfer(struct pair *p, enum ferry_kind kind, uint64_t size, size_t pieces, bool verify)
{
        const bool readable = kind == FERRY_READABLE;
        const char *offered = region_make(&p->a, size, readable ? SEED : 0);
        const char *local = region_make(&p->b, size, readable ? 0 : SEED);
        const struct ferry_descriptor descriptor = { .region = local };
        struct ferry_range *remote = calloc(pieces, sizeof(*remote));
        struct ferry_operation_spec spec = { .kind = kind_of_peer(kind),
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .verify = verify,
                                             .remote = remote,
                                             .n_remote = pieces };
        uint64_t before = messages_of(p);
        OPERATION passive, active;

        for (size_t i = 0; i < pieces; i++)
                remote[i] = (struct ferry_range){ .offset = i * 7 % pieces * (size / pieces), .size = size / pieces };
        offer_make(&p->a, kind, offered, &passive);
        spec.remote_metadata = passive.metadata;
        assert_int_equal(ferry_create_operation(p->b.client, &spec, &active), 0);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        before = messages_of(p) - before;
        if (!pieces)
                region_assert_pattern(readable ? &p->b : &p->a, readable ? local : offered, SEED, 0, size);
        region_drop(&p->a, offered); /* nothing of the peer holds them any more */
        region_drop(&p->b, local);
        free(remote);
        return before;
}

/* A lease is for all of the transfer, not for a chunk. */
ON_PAIR(a_transfer_takes_few_messages_however_long_it_is)
{
        enum { LARGE = 256 * MIB, FEW = 8 };

        pair_assert_serving(p); /* they are connected */
        for (int how = 0; how < 8; how++) {
                enum ferry_kind kind = how & 1 ? FERRY_READABLE : FERRY_WRITABLE;

                assert_in_range(messages_of_transfer(p, kind, LARGE, how & 2 ? 64 : 0, how & 4), 2, FEW);
        }
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(a_cancel_of_the_offer_ends_both_and_is_quiet)
{
        for (int readable = 0; readable < 2; readable++) {
                scene_start(s, readable ? FERRY_READABLE : FERRY_WRITABLE);
                in_the_middle(s, cancel_passive);
                operation_assert_error(&s->pair.a, s->passive.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
                memcpy(s->copy, s->memory, SIZE);
                operation_assert_error(&s->pair.b, s->active.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
                assert_memory_equal(s->copy, s->memory, SIZE);
                pair_assert_serving(&s->pair);
                scene_stop(s);
        }
}

/* Stores into each page of the source until the active operation has ended. */
static void scribble_until_the_end(struct scene *s, uint8_t *source)
{
        enum { PAGE = 4096 };

        for (bool done = false; !done;) {
                OPERATION now;

                for (size_t at = 0; at < SIZE; at += PAGE)
                        source[at]++;
                assert_int_equal(ferry_get_operation(s->pair.b.client, s->active.id, 0, 0, &now), 0);
                done = now.done;
        }
}

WITH_SCENE(bytes_that_change_under_a_verified_transfer_end_both)
{
        for (int readable = 0; readable < 2; readable++) {
                OPERATION end = { 0 };

                scene_start(s, readable ? FERRY_READABLE : FERRY_WRITABLE);
                uint8_t *source = readable ? s->memory : region_map(&s->pair.b, s->local);
                for (int i = 0; i < TRIES && end.error != FERRY_E_CHECKSUM_MISMATCH; i++) {
                        operations_clear(s);
                        ferry_operation_clear(&end);
                        offer_make(&s->pair.a, s->kind, s->offered, &s->passive);
                        begin_verified(&s->pair.b, kind_of_peer(s->kind), s->local, s->passive.metadata, &s->active);
                        scribble_until_the_end(s, source);
                        assert_int_equal(ferry_get_operation(s->pair.b.client, s->active.id, 0, 0, &end), 0);
                }
                operation_assert_error(&s->pair.b, s->active.id, FERRY_ERRORED, FERRY_E_CHECKSUM_MISMATCH);
                operation_assert_error(&s->pair.a, s->passive.id, FERRY_ERRORED, FERRY_E_CHECKSUM_MISMATCH);
                if (!readable)
                        (void)munmap(source, SIZE);
                pair_assert_serving(&s->pair);
                scene_stop(s);
        }
}

WITH_SCENE(a_cancel_of_the_active_worker_ends_both)
{
        for (int readable = 0; readable < 2; readable++) {
                scene_start(s, readable ? FERRY_READABLE : FERRY_WRITABLE);
                in_the_middle(s, cancel_active);
                operation_assert_error(&s->pair.b, s->active.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
                operation_assert_error(&s->pair.a, s->passive.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
                pair_assert_serving(&s->pair);
                scene_stop(s);
        }
}

/*
 * The offer may end before the active worker goes on only if that was between two pieces. It often is in one: then the
 * offer has to wait, and says so.
 */
WITH_SCENE(an_active_worker_that_stands_still_changes_nothing_after_the_end)
{
        OPERATION now;

        scene_start(s, FERRY_WRITABLE);
        in_the_middle(s, stop_active_and_cancel);
        pass_time(300);
        assert_int_equal(ferry_get_operation(s->pair.a.client, s->passive.id, 0, 0, &now), 0);
        assert_true(now.done || now.cancel_requested);
        print_message("the active worker stood %s a piece\n", now.done ? "between two pieces, not in" : "in");
        if (now.done)
                memcpy(s->copy, s->memory, SIZE);
        worker_resume(&s->pair.b);
        if (!now.done) {
                operation_assert_error(&s->pair.a, s->passive.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
                memcpy(s->copy, s->memory, SIZE);
        }
        operation_assert_error(&s->pair.b, s->active.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        assert_memory_equal(s->copy, s->memory, SIZE);
        pair_assert_serving(&s->pair);
        scene_stop(s);
}

WITH_SCENE(an_active_worker_that_stands_still_and_is_killed_lets_the_offer_end)
{
        scene_start(s, FERRY_READABLE);
        in_the_middle(s, stop_active_and_cancel);
        worker_kill(&s->pair.b);
        operation_assert_error(&s->pair.a, s->passive.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
        worker_start(&s->pair.b, "next", NULL);
        pair_assert_serving(&s->pair);
        s->local = region_make(&s->pair.b, 1, 0);
        scene_stop(s);
}

/* A worker that has ended its part goes; it need not wait for an active worker that stands still. */
WITH_SCENE(a_worker_can_leave_while_the_active_one_stands_still)
{
        scene_start(s, FERRY_READABLE);
        worker_expect(&s->pair.a, "drain timeout");
        worker_expect(&s->pair.a, "did not end in time");
        in_the_middle(s, stop_active_and_cancel);
        worker_stop(&s->pair.a);
        worker_resume(&s->pair.b);
        operation_assert_left(&s->pair.b, s->active.id);
        worker_start(&s->pair.a, "next", NULL);
        pair_assert_serving(&s->pair);
        s->offered = region_make(&s->pair.a, 1, 0);
        scene_stop(s);
}

/* ---- what stays ---- */

static bool maps_a_deleted_file(void *context)
{
        const struct worker *w = context;
        char line[512];
        bool found = false;
        FILE *maps;

        maps = fopen(text_format("/proc/%d/maps", (int)w->pid), "re");
        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps))
                found |= strstr(line, "-rgn_") && strstr(line, "(deleted)");
        (void)fclose(maps);
        return found;
}

WITH_SCENE(a_deleted_region_does_not_live_on_in_the_peer)
{
        struct pair *p = &s->pair;
        OPERATION passive, active;

        pair_start(p, false);
        const char *offered = region_make(&p->a, 4 * MIB, 1);
        const char *local = region_make(&p->b, 4 * MIB, 0);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        worker_await_metric(&p->b, "ferry_mapped_memories", 1);
        region_drop(&p->a, offered);
        WAIT_UNTIL(!maps_a_deleted_file(&p->b));
        worker_await_metric(&p->b, "ferry_mapped_memories", 0);
}

/* ---- helpers ---- */

/* Threads of the pool that may help: those that make regions have another name. */
static size_t count_helpers(const struct worker *w)
{
        const char *tasks = text_format("/proc/%d/task", (int)w->pid);
        DIR *d = opendir(tasks);
        size_t n = 0;

        assert_non_null(d);
        for (struct dirent *e; (e = readdir(d));) {
                char name[32] = "";
                FILE *f = fopen(text_format("%s/%s/comm", tasks, e->d_name), "re");

                if (f && fgets(name, sizeof(name), f))
                        n += strcmp(name, "ferry-pool\n") == 0;
                if (f)
                        (void)fclose(f);
        }
        (void)closedir(d);
        return n;
}

/* A container may have less time than processors. */
static bool has_quota(void)
{
        static const char *const paths[] = { "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us" };
        bool found = false;

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                FILE *f = fopen(paths[i], "re");

                found |= f && fgetc(f) != (i == 0 ? 'm' : '-');
                if (f)
                        (void)fclose(f);
        }
        return found;
}

static size_t helpers_of_a_large_read(const char *const *flags)
{
        struct pair p;
        OPERATION offer, read, end, offer_end;
        const char *offered, *local;
        size_t n;

        pair_start_with(&p, false, flags);
        offered = region_make(&p.a, 64 * MIB, SEED);
        local = region_make(&p.b, 64 * MIB, 0);
        offer_make(&p.a, FERRY_READABLE, offered, &offer);
        begin_make(&p.b, FERRY_READ, local, offer.metadata, &read);
        operation_assert_end(&p.b, read.id, FERRY_COMPLETE, &end);
        region_assert_pattern(&p.b, local, SEED, 0, 64 * MIB);
        n = count_helpers(&p.b);
        operation_assert_end(&p.a, offer.id, FERRY_COMPLETE, &offer_end);
        region_drop(&p.a, offered);
        region_drop(&p.b, local);
        pair_clean(&p);
        return n;
}

TEST(other_processors_help_with_large_copies_unless_told_not_to)
{
        cpu_set_t allowed, one;

        assert_int_equal(helpers_of_a_large_read(STRINGS("--copy-threads", "0")), 0);
        assert_int_equal(helpers_of_a_large_read(STRINGS("--copy-threads", "1")), 1);
        assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
        CPU_ZERO(&one);
        for (int i = 0; CPU_COUNT(&one) == 0; i++)
                if (CPU_ISSET(i, &allowed))
                        CPU_SET(i, &one);
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0); /* of the workers, too */
        assert_int_equal(helpers_of_a_large_read(STRINGS()), 0);
        assert_int_equal(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
        if (CPU_COUNT(&allowed) > 1 && !has_quota())
                assert_true(helpers_of_a_large_read(STRINGS()) > 0);
}

/* Under RLIMIT_AS a peer's region may not fit into the address space, though the transfer needs a part of it only. */
WITH_PAIR(memory_that_finds_no_room_is_read_unmapped)
{
        enum { PART = 24 * MIB, ROOM = 384 * MIB }; /* also for the stacks and heaps of threads that start later */
        const char *offered, *body;
        struct rlimit limit;

        if (SANITIZED) /* which map terabytes; before the pair starts, whose clients would count as leaks */
                skip();
        pair_start(p, false);
        offered = region_make(&p->a, SIZE, SEED);
        limit.rlim_cur = limit.rlim_max = (worker_status_kb(&p->b, "VmSize") << 10) + ROOM;
        assert_int_equal(prlimit(p->b.pid, RLIMIT_AS, &limit, NULL), 0);
        body = text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"size\":%d}]}", offered, PART);
        for (int verify = 0; verify < 2; verify++) {
                struct json_object *offer = call_json(&p->a, 201, "POST", "/v1/operations?include=metadata", body);
                const char *metadata = json_object_to_json_string(json_member(offer, "metadata"));
                const char *local = region_make(&p->b, PART, 0);
                OPERATION active, end;

                if (verify)
                        begin_verified(&p->b, FERRY_READ, local, metadata, &active);
                else
                        begin_make(&p->b, FERRY_READ, local, metadata, &active);
                operation_assert_end(&p->b, active.id, FERRY_COMPLETE, &end);
                assert_string_equal(end.transport, "shm");
                region_assert_pattern(&p->b, local, SEED, 0, PART);
                region_drop(&p->b, local);
        }
        region_drop(&p->a, offered); /* nothing of b holds it any more */
}
