/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "spread.h"

enum { DIGEST_RANGE = 64 << 20 }; /* a worker's limit for a digest */

enum { DIGEST_SIZE = sizeof(((struct ferry_answer *)0)->content_digest) };

/* The digest of a range, which the worker makes where the bytes are. 0, or the call's result. */
static int digest_get(const struct job *home, uint64_t first, uint64_t last, char digest[DIGEST_SIZE])
{
        struct ferry_answer answer = { 0 };
        char path[64 + FERRY_ID_SIZE], range[80];
        const char *const headers[] = { range, "Want-Content-Digest: xxh3=10", NULL };
        struct ferry_exchange exchange = { .method = "HEAD", .path = path, .headers = headers };
        snprintf(path, sizeof(path), "/v1/regions/%s/content", home->region.id);
        snprintf(range, sizeof(range), "Range: bytes=%" PRIu64 "-%" PRIu64, first, last);
        int r = ferry_exchange_perform(home->worker->ferry, &exchange, &answer);
        memcpy(digest, answer.content_digest, DIGEST_SIZE);
        ferry_answer_clear(&answer);
        return r;
}

static void check_range(struct spread *spread, uint64_t first, uint64_t last, const char *wanted)
{
        char digest[DIGEST_SIZE], why[96];
        for (size_t i = 0; i < spread->n; i++) {
                struct member *member = &spread->members[i];
                if (member->state != MEMBER_DONE)
                        continue;
                int r = digest_get(&member->home, first, last, digest);
                if (r != 0) {
                        member_fail(spread, member, r);
                } else if (!*digest || strcmp(digest, wanted) != 0) {
                        snprintf(why, sizeof(why), "%s in bytes %" PRIu64 " to %" PRIu64,
                                 *digest ? "another digest" : "no digest", first, last);
                        member_fail_because(member, why);
                }
        }
}

/* The region to compare with: the source's, or the first complete one. */
static const struct job *reference(const struct spread *spread)
{
        if (spread->source.region.id[0])
                return &spread->source;
        for (size_t i = 0; i < spread->n; i++)
                if (spread->members[i].state == MEMBER_DONE)
                        return &spread->members[i].home;
        return NULL;
}

int spread_check(struct spread *spread)
{
        const struct job *home;
        uint64_t last;
        for (uint64_t first = 0; first < spread->size; first = last + 1) {
                char wanted[DIGEST_SIZE];
                home = reference(spread);
                if (!home || signals_caught())
                        return CLI_OK;
                last = spread->size - first > DIGEST_RANGE ? first + DIGEST_RANGE - 1 : spread->size - 1;
                int status = cli_result(home->worker, digest_get(home, first, last, wanted));
                if (status != CLI_OK)
                        return status;
                check_range(spread, first, last, wanted);
        }
        return CLI_OK;
}
