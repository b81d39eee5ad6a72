/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/encoding.h>

/*
 * Whether the time of comparing a secret tells how much of it was right (Reparaz, Balasch, Verbauwhede: "Dude, is my
 * code constant time?"): guesses of two kinds in random order, wrong in their first and in their last character, and
 * Welch's t between their times, of which the slowest part is left out, as interrupts are in it. |t| below 4.5 is no
 * difference that so many measurements could show. strcmp is measured as well, to show that one would be seen.
 */

enum { N = 4000000, AT_ONCE = 8, SECRET = 64, KEPT_PERCENT = 90 };

static char secret[SECRET + 1], early[SECRET + 1], late[SECRET + 1];
static volatile int sink;

static bool by_strcmp(const char *given, const char *wanted)
{
        return strcmp(given, wanted) == 0;
}

static bool by_key(const char *given, const char *wanted)
{
        return ferry_key_equal((const uint8_t *)given, (const uint8_t *)wanted);
}

static uint64_t now_ns(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC_RAW, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return (x > y) - (x < y);
}

static void measure(const char *name, bool (*equal)(const char *given, const char *wanted))
{
        static uint32_t times[2][N];
        size_t n[2] = { 0 };
        double mean[2], variance[2];

        while (n[0] < N / 2 && n[1] < N / 2) {
                int kind = rand() >> 8 & 1;
                char guess[SECRET + 1];
                uint64_t start;

                memcpy(guess, kind ? late : early, sizeof(guess)); /* both kinds at one address */
                start = now_ns();
                for (int i = 0; i < AT_ONCE; i++)
                        sink += equal(guess, secret);
                times[kind][n[kind]++] = (uint32_t)(now_ns() - start);
        }
        for (int kind = 0; kind < 2; kind++) {
                double sum = 0, squares = 0;
                size_t kept = n[kind] * KEPT_PERCENT / 100;

                qsort(times[kind], n[kind], sizeof(times[kind][0]), by_value);
                for (size_t i = 0; i < kept; i++) {
                        sum += times[kind][i];
                        squares += (double)times[kind][i] * times[kind][i];
                }
                mean[kind] = sum / (double)kept;
                variance[kind] = (squares / (double)kept - mean[kind] * mean[kind]) / (double)kept;
        }
        printf("%-20s first %.2f ns, last %.2f ns, t %.1f\n", name, mean[0] / AT_ONCE, mean[1] / AT_ONCE,
               (mean[1] - mean[0]) / sqrt(variance[0] + variance[1]));
}

int main(void)
{
        for (int i = 0; i < SECRET; i++)
                secret[i] = early[i] = late[i] = (char)('a' + rand() % 26);
        early[0] ^= 1;
        late[SECRET - 1] ^= 1;
        measure("strcmp", by_strcmp);
        measure("ferry_secret_equal", ferry_secret_equal);
        late[SECRET - 1] ^= 1;
        late[FERRY_KEY_SIZE - 1] ^= 1;
        measure("ferry_key_equal", by_key);
        return 0;
}
