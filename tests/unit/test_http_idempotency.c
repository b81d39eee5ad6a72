/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"
#include "unit.h"

static struct idempotency *cache;

static int setup(void **state)
{
        return idempotency_new(3, &cache);
}

static int teardown(void **state)
{
        cache = idempotency_free(cache);
        return 0;
}

/* What is reserved, by the first letter of its key. */
static struct idempotency_entry *reserved[128];

static enum idempotency_verdict begin_some(const char *key, uint64_t hash, uint64_t now, uint64_t *ids, size_t n)
{
        struct idempotency_entry *entry;
        enum idempotency_verdict verdict = idempotency_begin(cache, key, hash, now, ids, n, &entry);

        assert_int_equal(entry != NULL, verdict == IDEMPOTENCY_NEW || verdict == IDEMPOTENCY_RETRY);
        if (entry)
                reserved[(unsigned char)*key] = entry;
        return verdict;
}

static enum idempotency_verdict begin(const char *key, uint64_t hash, uint64_t now, uint64_t *id)
{
        return begin_some(key, hash, now, id, 1);
}

static void commit(const char *key, uint64_t id)
{
        idempotency_commit(cache, reserved[(unsigned char)*key], &id);
}

/* A client that knows how the hash is made can find two such requests. */
TEST_WITH(a_request_of_the_same_hash_for_fewer_resources_is_a_conflict, setup, teardown)
{
        uint64_t ids[2] = { 41, 42 }, again[2] = { 7, 8 };

        assert_int_equal(begin_some("k", 1, 0, ids, 2), IDEMPOTENCY_NEW);
        idempotency_commit(cache, reserved['k'], ids);
        assert_int_equal(begin_some("k", 1, 0, again, 1), IDEMPOTENCY_CONFLICT);
        assert_int_equal(again[1], 8); /* there is room for one id */
}

TEST_WITH(keys_are_forgotten_after_their_time, setup, teardown)
{
        uint64_t id;

        assert_int_equal(begin("k", 1, 5, &id), IDEMPOTENCY_NEW);
        commit("k", 42);
        assert_int_equal(begin("k", 1, 4 + IDEMPOTENCY_KEEP_US, &id), IDEMPOTENCY_REPLAY);
        assert_int_equal(begin("k", 2, 5 + IDEMPOTENCY_KEEP_US, &id), IDEMPOTENCY_NEW);
}

TEST_WITH(the_oldest_makes_room, setup, teardown)
{
        static const char *const keys[] = { "a", "b", "c", "d" };
        uint64_t id;

        for (uint64_t i = 0; i < 4; i++) {
                assert_int_equal(begin(keys[i], 1, i, &id), IDEMPOTENCY_NEW);
                commit(keys[i], i + 1);
        }
        assert_int_equal(begin("b", 1, 9, &id), IDEMPOTENCY_REPLAY);
        assert_int_equal(begin("d", 1, 9, &id), IDEMPOTENCY_REPLAY);
        assert_int_equal(begin("a", 1, 9, &id), IDEMPOTENCY_NEW);
}

TEST_WITH(what_is_in_the_making_is_not_forgotten, setup, teardown)
{
        uint64_t id;

        assert_int_equal(begin("a", 1, 0, &id), IDEMPOTENCY_NEW);
        assert_int_equal(begin("b", 1, 0, &id), IDEMPOTENCY_NEW);
        assert_int_equal(begin("c", 1, 0, &id), IDEMPOTENCY_NEW);
        assert_int_equal(begin("d", 1, 0, &id), IDEMPOTENCY_FULL);
        assert_int_equal(begin("d", 1, 2 * (uint64_t)IDEMPOTENCY_KEEP_US, &id), IDEMPOTENCY_FULL);
        commit("b", 7);
        assert_int_equal(begin("d", 1, 1, &id), IDEMPOTENCY_NEW);
        assert_int_equal(begin("a", 1, 1, &id), IDEMPOTENCY_BUSY);
}

TEST_WITH(what_was_not_made_is_made_by_one_retry, setup, teardown)
{
        uint64_t ids[3] = { 7, 0, 9 };

        assert_int_equal(begin_some("k", 1, 0, ids, 3), IDEMPOTENCY_NEW);
        idempotency_commit(cache, reserved['k'], ids);
        memset(ids, 1, sizeof(ids));
        assert_int_equal(begin_some("k", 1, 1, ids, 3), IDEMPOTENCY_RETRY);
        assert_int_equal(ids[0], 7);
        assert_int_equal(ids[1], 0);
        assert_int_equal(ids[2], 9);
        assert_int_equal(begin_some("k", 1, 1, ids, 3), IDEMPOTENCY_BUSY);
        idempotency_abort(cache, reserved['k']);
        assert_int_equal(begin_some("k", 1, 1, ids, 3), IDEMPOTENCY_RETRY);
        ids[1] = 8;
        idempotency_commit(cache, reserved['k'], ids);
        assert_int_equal(begin_some("k", 1, 1, ids, 3), IDEMPOTENCY_REPLAY);
        assert_int_equal(ids[1], 8);
}

/* A batch of which nothing was made: neither then nor by the retry. */
TEST_WITH(a_retry_that_fails_as_the_first_did_leaves_its_key_free, setup, teardown)
{
        uint64_t ids[2] = { 0, 0 };

        assert_int_equal(begin_some("k", 1, 0, ids, 2), IDEMPOTENCY_NEW);
        idempotency_commit(cache, reserved['k'], ids);
        assert_int_equal(begin_some("k", 1, 1, ids, 2), IDEMPOTENCY_RETRY);
        assert_int_equal(begin_some("k", 2, 1, ids, 2), IDEMPOTENCY_CONFLICT);
        idempotency_abort(cache, reserved['k']);
        assert_int_equal(begin_some("k", 2, 1, ids, 2), IDEMPOTENCY_NEW);
}
