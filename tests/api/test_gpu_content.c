/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

/* GPU memory over HTTP. */

#define ABC_DIGEST "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:"

WITH_GPUS(the_digest_of_the_whole_comes_from_a_gpu)
{
        struct worker *w = &s->pair.a;
        struct raw_answer answer;
        OPERATION offer, target;

        worker_start(w, "a", NULL);
        const char *id = device_region(w, "cuda:0", 3, 0);
        offer_make(w, FERRY_WRITABLE, id, &target);
        wire_expect(w, 204,
                    "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                    "Repr-Digest: " ABC_DIGEST "\r\n\r\nabc",
                    target.id);
        operation_assert_end(w, target.id, FERRY_COMPLETE, NULL);
        offer_make(w, FERRY_READABLE, id, &offer);
        answer = wire_ask(w,
                          "GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n"
                          "Want-Repr-Digest: sha-256=1\r\n\r\n",
                          offer.id);
        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Repr-Digest", ABC_DIGEST);
        assert_memory_equal(answer.body, "abc", 3);
}
