/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

/* A worker that was killed and comes back: nothing of the dead one is left, nothing of others is lost. */

enum { SIZE = 1 << 20 };

struct scene {
        struct worker dead, other, again;
};

#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(the_next_start_removes_the_socket_of_a_dead_worker_only)
{
        worker_start(&s->dead, "dead", NULL);
        worker_start(&s->other, "other", NULL);
        (void)region_make(&s->dead, SIZE, 1);
        const char *other_region = region_make(&s->other, SIZE, 2);
        assert_int_equal(worker_files(&s->dead), 1);
        worker_kill(&s->dead);
        assert_int_equal(worker_files(&s->dead), 1);

        worker_start(&s->again, "again", NULL);
        assert_int_equal(worker_files(&s->dead), 0);
        assert_int_equal(worker_files(&s->other), 1);
        assert_int_equal(worker_files(&s->again), 1);
        region_assert_pattern(&s->other, other_region, 2, 0, SIZE);
        pair_assert_serving(&(struct pair){ .a = s->other, .b = s->again });
}

WITH_SCENE(a_peer_that_finds_nobody_listening_removes_the_socket)
{
        OPERATION offer, read;

        worker_start(&s->dead, "dead", NULL);
        worker_start(&s->other, "other", NULL);
        worker_expect(&s->other, "error=peer-unreachable");
        const char *dead_region = region_make(&s->dead, SIZE, 1);
        const char *other_region = region_make(&s->other, SIZE, 2);
        offer_make(&s->dead, FERRY_READABLE, dead_region, &offer);
        worker_kill(&s->dead);
        assert_int_equal(worker_files(&s->dead), 1);

        begin_make(&s->other, FERRY_READ, other_region, offer.metadata, &read);
        operation_assert_error(&s->other, read.id, FERRY_ERRORED, FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(worker_files(&s->dead), 0);
        assert_int_equal(worker_files(&s->other), 1);
        region_assert_pattern(&s->other, other_region, 2, 0, SIZE);
}

WITH_SCENE(a_worker_that_comes_back_has_its_addresses_and_another_epoch)
{
        static const char *const network[] = { "--data-listen", "127.0.0.1:0", "--local", "off", NULL };
        const char *http = address_hold(), *data = address_hold();
        const char *const at[] = { "--listen", http, "--data-listen", data, "--local", "off", NULL };
        char old_epoch[sizeof(((struct worker *)0)->epoch)];
        OPERATION offer, read;

        worker_start_plain(&s->dead, "w", at);
        worker_connect(&s->dead, NULL, NULL);
        worker_start(&s->other, "other", network);
        worker_expect(&s->other, "error=stale-metadata");
        const char *region = region_make(&s->dead, SIZE, 1);
        const char *target = region_make(&s->other, SIZE, 0);
        offer_make(&s->dead, FERRY_READABLE, region, &offer);
        pair_assert_serving(&(struct pair){ .a = s->dead, .b = s->other });
        (void)snprintf(old_epoch, sizeof(old_epoch), "%s", s->dead.epoch);
        worker_kill(&s->dead);

        worker_start_plain(&s->again, "w", at);
        worker_connect(&s->again, NULL, NULL);
        assert_string_equal(s->again.url + strlen("http://"), http);
        assert_string_equal(s->again.data, data);
        assert_string_not_equal(s->again.epoch, old_epoch);
        assert_problem(&s->again, "GET", "/v1/operations/op_0000000000000001", NULL, 404, "not-found", NULL);

        /* What the dead one offered is not what the new one has. */
        begin_make(&s->other, FERRY_READ, target, offer.metadata, &read);
        operation_assert_error(&s->other, read.id, FERRY_ERRORED, FERRY_E_STALE_METADATA);
        region_assert_pattern(&s->other, target, 0, 0, SIZE);
        pair_assert_serving(&(struct pair){ .a = s->again, .b = s->other });
}

/* Files that look like a worker's socket, but are somebody's own. */
WITH_SCENE(what_is_no_workers_socket_is_never_removed)
{
        static const char *const names[] = { "0123456789abcdef.sock", "0123456789abcdeg.sock", "0123456789abcde.sock",
                                             "0123456789abcdef.sock.x" };
        enum { N = sizeof(names) / sizeof(names[0]) };
        char paths[N][256];
        struct stat status;

        (void)mkdir(worker_directory(), 0700);
        for (size_t i = 0; i < N; i++) {
                FILE *f;

                (void)snprintf(paths[i], sizeof(paths[i]), "%s/%s", worker_directory(), names[i]);
                f = fopen(paths[i], "wxe");
                assert_non_null(f);
                (void)fclose(f);
        }
        worker_start(&s->again, "w", NULL);
        worker_stop(&s->again);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(stat(paths[i], &status), 0);
                assert_int_equal(unlink(paths[i]), 0);
        }
}
