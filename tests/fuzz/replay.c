/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

/*
 * Runs a fuzz target without libFuzzer: over each file of a folder, so that what was found once stays found, and over
 * changed forms of each, always the same ones, so that every build looks a little around them.
 */

enum {
        MUTATIONS_BYTES = 4 << 20, /* in all the mutations of one file: large ones get fewer */
        GROWTH_MAX = 256,          /* bytes that a mutation may add */
        STEPS_MAX = 4,             /* changes in one mutation */
};

static char where[4096];     /* what runs, for the one who finds it dead */
static size_t mutations_max; /* of one file */

/* Of ASan and UBSan, which end a program without a signal. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell(void)
{
        ssize_t written = write(STDERR_FILENO, where, strlen(where));

        (void)written;
}

static void tell_signal(int number)
{
        tell();
        (void)signal(number, SIG_DFL);
        (void)raise(number);
}

/* From blocks without a byte to spare, so that a sanitizer sees each read beyond them. */
static void replay_bytes(const uint8_t *bytes, size_t size)
{
        uint8_t *exact = malloc(size ? size : 1);

        FUZZ_CHECK(exact);
        memcpy(exact, bytes, size);
        (void)LLVMFuzzerTestOneInput(exact, size);
        free(exact);
}

/* ---- mutations ---- */

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

static size_t draw_below(uint64_t *state, size_t n)
{
        return n ? (size_t)(draw(state) % n) : 0;
}

/* A byte that means something to one of the formats, or any other. */
static uint8_t draw_byte(uint64_t *state)
{
        static const char special[] = "\"\\{}[]:,0123456789-+.eEu/tfn \t\r\n=;*&?%'ABz\x7f\x80\xbf\xc0\xe2\xf0\xff";

        return draw(state) % 2 ? (uint8_t)special[draw_below(state, sizeof(special))] : (uint8_t)draw(state);
}

/* One change, in a buffer with room for one byte more, or as many as there are. Returns the new size. */
static size_t mutate(uint8_t *bytes, size_t size, size_t room, uint64_t *state)
{
        size_t at = draw_below(state, size), n = 1 + draw_below(state, size - at < 16 ? size - at : 16);
        size_t to;

        switch (draw(state) % 6) {
        case 0: /* one bit */
                if (size)
                        bytes[at] ^= (uint8_t)(1u << draw(state) % 8);
                return size;
        case 1: /* one byte */
                if (size)
                        bytes[at] = draw_byte(state);
                return size;
        case 2: /* one byte more */
                if (size == room)
                        return size;
                memmove(bytes + at + 1, bytes + at, size - at);
                bytes[at] = draw_byte(state);
                return size + 1;
        case 3: /* some bytes less */
                if (n > size - at)
                        return size;
                memmove(bytes + at, bytes + at + n, size - at - n);
                return size - n;
        case 4: /* some bytes twice */
                if (n > size - at || n > room - size)
                        return size;
                memmove(bytes + at + n, bytes + at, size - at);
                return size + n;
        default: /* some bytes over others, or seldom an early end */
                if (draw(state) % 16 == 0)
                        return at;
                to = draw_below(state, size);
                if (n <= size - at && n <= size - to)
                        memmove(bytes + to, bytes + at, n);
                return size;
        }
}

static void replay_mutations(const char *name, const uint8_t *bytes, size_t size)
{
        size_t room = size + GROWTH_MAX, n = MUTATIONS_BYTES / room;
        uint8_t *changed = malloc(room);
        uint64_t state = size;

        FUZZ_CHECK(changed);
        for (size_t i = 0; i < size; i++)
                state = (state ^ bytes[i]) * UINT64_C(0x100000001b3);
        for (size_t i = 0; i < n && i < mutations_max; i++) {
                size_t steps = 1 + draw_below(&state, STEPS_MAX), now = size;

                (void)snprintf(where, sizeof(where), "in mutation %zu of %s\n", i, name);
                memcpy(changed, bytes, size);
                for (size_t j = 0; j < steps; j++)
                        now = mutate(changed, now, room, &state);
                replay_bytes(changed, now);
        }
        free(changed);
}

static void replay_file(const char *name, const char *path, size_t size)
{
        uint8_t *bytes = malloc(size + 1);
        FILE *file = fopen(path, "rb");

        FUZZ_CHECK(bytes && file && fread(bytes, 1, size + 1, file) == size);
        (void)fclose(file);
        (void)snprintf(where, sizeof(where), "in %s\n", name);
        replay_bytes(bytes, size);
        replay_mutations(name, bytes, size);
        free(bytes);
}

int main(int argc, char **argv)
{
        static const int fatal[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
        DIR *folder = argc == 3 ? opendir(argv[1]) : NULL;
        struct dirent *entry;
        size_t files = 0;

        if (!folder) {
                (void)fprintf(stderr, "usage: %s FOLDER MUTATIONS\n", argv[0]);
                return 2;
        }
        mutations_max = strtoul(argv[2], NULL, 10);
        for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
                (void)signal(fatal[i], tell_signal);
        if (__sanitizer_set_death_callback)
                __sanitizer_set_death_callback(tell);
        while ((entry = readdir(folder))) {
                char path[4096];
                struct stat status;

                (void)snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
                if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
                        continue;
                replay_file(entry->d_name, path, (size_t)status.st_size);
                files++;
        }
        (void)closedir(folder);
        (void)printf("%zu files\n", files);
        return files == 0;
}
