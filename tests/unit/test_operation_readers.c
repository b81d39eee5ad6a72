/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

WITH_STORE(it_completes_when_every_reader_has)
{
        struct operation *operation = make_readers(f, 3, 0);
        struct engine_claim granted[3], none;

        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(claim(f, operation, &granted[i]), 0);
        assert_int_equal(claim(f, operation, &none), FERRY_E_ALREADY_CLAIMED);
        assert_ptr_equal(granted[0].segments, granted[2].segments);
        for (uint32_t i = 0; i < 3; i++) {
                struct operation_view v = look(f, operation);

                assert_int_equal(v.status, FERRY_IN_PROGRESS);
                assert_int_equal(v.uses_done, i);
                assert_int_equal(v.uses, 3);
                end_claim(f, &granted[i], 0);
        }
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
        assert_int_equal(look(f, operation).uses_done, 3);
        assert_int_equal(look(f, operation).error, 0);
}

WITH_STORE(one_that_fails_costs_only_its_own_attempt)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct engine_claim a, b, c;

        assert_int_equal(claim(f, operation, &a), 0);
        assert_int_equal(claim(f, operation, &b), 0);
        end_claim(f, &a, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
        assert_int_equal(claim(f, operation, &c), 0);
        end_claim(f, &b, 0);
        assert_int_equal(claim(f, operation, &b), FERRY_E_ALREADY_CLAIMED);
        end_claim(f, &c, 0);
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
        assert_int_equal(look(f, operation).uses_done, 2);
}

WITH_STORE(one_reader_is_one_transfer)
{
        struct operation *operation = make_readers(f, 1, 0);
        struct engine_claim granted;

        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).status, FERRY_ERRORED);
        assert_int_equal(look(f, operation).error, FERRY_E_PEER_LOST);
}

WITH_STORE(a_cancel_waits_for_all_attempts)
{
        struct operation *operation = make_readers(f, 3, 0);
        struct engine_claim a, b;

        assert_int_equal(claim(f, operation, &a), 0);
        assert_int_equal(claim(f, operation, &b), 0);
        operation_cancel(f->store, operation);
        assert_int_equal(f->data_plane.n_revoked, 1);
        end_claim(f, &a, 0); /* was faster than the cancel */
        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
        assert_int_equal(region_in_use(f->region), 1);
        end_claim(f, &b, FERRY_E_CANCELLED);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(look(f, operation).error, FERRY_E_CANCELLED);
        assert_int_equal(look(f, operation).uses_done, 1);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_cancel_between_attempts_is_immediate)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct engine_claim granted;

        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, 0);
        operation_cancel(f->store, operation);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(f->data_plane.n_revoked, 0);
}

WITH_STORE(bytes_done_is_that_of_the_furthest_attempt)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct engine_claim a, b;

        assert_int_equal(claim(f, operation, &a), 0);
        assert_int_equal(claim(f, operation, &b), 0);
        a.progress(a.context, 3000);
        b.progress(b.context, 100);
        assert_int_equal(look(f, operation).bytes_done, 3000);
        end_claim(f, &a, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).bytes_done, 3000);
        b.progress(b.context, 3001);
        assert_int_equal(look(f, operation).bytes_done, 3001);
        end_claim(f, &b, 0);
        operation_cancel(f->store, operation);
}

WITH_STORE(metadata_of_a_claimed_one_lives_a_whole_ttl)
{
        struct operation *operation = make_readers(f, 2, 5000);
        struct ferry_metadata *metadata;
        struct engine_claim granted;
        uint64_t now;

        assert_int_equal(claim(f, operation, &granted), 0);
        assert_int_equal(look(f, operation).expires_unix_ms, 0);
        now = clock_unix_ms();
        metadata = metadata_of(f, operation);
        assert_true(metadata->expires_ms >= now + 5000);
        (void)ferry_metadata_free(metadata);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_true(look(f, operation).expires_unix_ms >= now + 5000);
}

/* The memory is whole after each, and nobody writes between another's bytes. */
WITH_STORE(a_writable_serves_one_after_the_other)
{
        struct operation_spec spec = { .kind = FERRY_WRITABLE, .uses = 2 };
        struct operation *operation;
        struct engine_claim granted, none;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        assert_int_equal(claim(f, operation, &granted), 0);
        assert_int_equal(claim(f, operation, &none), FERRY_E_ALREADY_CLAIMED);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).uses_done, 0);
        for (uint32_t i = 0; i < 2; i++) {
                assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
                assert_int_equal(claim(f, operation, &granted), 0);
                end_claim(f, &granted, 0);
                assert_int_equal(look(f, operation).uses_done, i + 1);
        }
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
}
