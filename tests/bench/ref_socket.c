/* SPDX-License-Identifier: Apache-2.0 */
#include "ref_ucx.h"

/* "ref_socket socket MAX_SIZE": a bare round trip: a head is sent, a head and as many bytes as the run's size come. */

enum { REPEATS = 200 };

static void begin(struct ref_ucx *u)
{
}

static void run(struct ref_ucx *u, uint64_t size)
{
        ref_trip(u, false);
}

int main(int argc, char **argv)
{
        static const struct ref_test test = { UCP_FEATURE_AM, ref_trip_setup, begin, run, .repeats = REPEATS };

        return ref_main(argc, argv, &test);
}
