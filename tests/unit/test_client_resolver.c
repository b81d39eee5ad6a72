/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <netdb.h>
#include <semaphore.h>
#include <time.h>

#include "client_fixture.h"

/* A name whose resolver does not answer: libcurl calls this getaddrinfo, in a thread of its own. */

static struct ferry *ferry;
static sem_t aborted, answer, answered;
static bool was_waited_for; /* it gave up, since nobody went on without it */

__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                                                       struct addrinfo **ret_list)
{
        struct timespec end;

        ferry_abort(ferry);
        sem_post(&aborted);
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 5;
        was_waited_for = sem_timedwait(&answer, &end) < 0;
        sem_post(&answered);
        return EAI_NONAME;
}

TEST(an_aborted_call_ends_although_the_resolver_does_not_answer)
{
        if (curl_version_info(CURLVERSION_NOW)->version_num < 0x075700)
                skip(); /* libcurl waits for the thread */
        sem_init(&aborted, 0, 0);
        sem_init(&answer, 0, 0);
        sem_init(&answered, 0, 0);
        assert_int_equal(ferry_new("http://nobody.test:1", NULL, &ferry), 0);
        assert_int_equal(ferry_get_livez(ferry), -ECANCELED);
        sem_wait(&aborted); /* ferry_free wants the end of ferry_abort */
        ferry_free(ferry);
        sem_post(&answer);
        sem_wait(&answered);
        assert_false(was_waited_for);
}
