/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include <ferry/ferry.h>

#include "raw.h"
#include "test.h"

/*
 * Real workers for the API tests: ferryd on port 0, found by its ready line, dead with the test (also when the test is
 * killed). Every function asserts; none returns an error. One thread, but for what says otherwise. XDG_RUNTIME_DIR is a
 * directory of the test process's own, which goes with it.
 */

/* A list of strings with NULL behind them, for flags and arguments. */
#define STRINGS(...) ((const char *const[]){ "", ##__VA_ARGS__, NULL } + 1)

enum { WORKER_EXPECTED_MAX = 16 };

struct worker {
        pid_t pid; /* 0 = not running */
        char name[32];
        char url[160];  /* of the first listener */
        char data[160]; /* host:port of the network transport; "" = off */
        char epoch[20];
        char log[64]; /* path of its standard error */
        int out;      /* its standard output */
        struct ferry *client;
        char ready[512];                           /* its ready line */
        const char *expected[WORKER_EXPECTED_MAX]; /* what warnings and errors in its log may contain */
        size_t n_expected;
};

/* Starts a worker with extra flags (NULL-terminated; NULL = none) after --listen 127.0.0.1:0 --name NAME. */
void worker_start(struct worker *w, const char *name, const char *const *flags);

/* The same without --listen 127.0.0.1:0 in front: flags name the listeners. No client is made for unix sockets or TLS.
 */
void worker_start_plain(struct worker *w, const char *name, const char *const *flags);

/*
 * "127.0.0.1:PORT" for a worker, and for another after its end: until the test ends, the system gives the port to
 * nobody who does not ask for it by number.
 */
const char *address_hold(void);

/* What is started from now on gets these listening sockets as systemd passes them; n 0: none. */
void worker_pass(const int *fds, size_t n);

/* Runs ferryd with flags and waits for its end. Returns the exit status; output and errors may be NULL. */
int ferryd_run(const char *const *flags, const char **ret_output, const char **ret_errors);

/* The log may contain warnings and errors with this text (a string literal). Any other fails worker_stop. */
void worker_expect(struct worker *w, const char *text);

/* Fails where the log has a warning or an error that the test did not expect, or a sanitizer's report. */
void worker_assert_quiet(const struct worker *w);

/*
 * SIGTERM; asserts exit status 0, nothing on standard output after the ready line, no unexpected warning in the log (a
 * sanitizer's report counts), and no file of it.
 */
void worker_stop(struct worker *w);

/* Waits until it has ended: its exit status, or a signal's number, negative. Its log stays. */
int worker_reap(struct worker *w);

/* SIGKILL, and reaps it. Its socket stays, as after a crash, until a peer or the next worker finds nobody listening. */
void worker_kill(struct worker *w);

/* Ends whatever still runs and removes what it left. For teardown; asserts nothing. */
void worker_clean(struct worker *w);

/* A process that the test has started itself ends with the test until worker_reap, as those of worker_start do. */
void worker_adopt(struct worker *w);

/* Its log so far. */
const char *worker_log(const struct worker *w);

/* Where the workers have their local sockets, unless --local names another directory. */
const char *worker_directory(void);
/* How many files it has there: its socket, while it lives with a local transport. Asserts that it has none in /dev/shm.
 */
size_t worker_files(const struct worker *w);

/* "VmRSS"-like field of /proc/<pid>/status in kB, the number of open descriptors, and how many of them are sockets. */
uint64_t worker_status_kb(const struct worker *w, const char *field);
size_t worker_descriptors(const struct worker *w);
size_t worker_sockets(const struct worker *w);

/* ---- two workers ---- */

/* a offers, b is active, in most tests. */
struct pair {
        struct worker a, b;
        bool network;
};

extern const char *const side_names[2]; /* "local", "network" */

/* Those of a worker that has TCP alone. */
extern const char *const tcp_flags[];
/* network false: the shared-memory side; true: tcp_flags. */
void pair_start(struct pair *p, bool network);
/* The same with further flags for both. */
void pair_start_with(struct pair *p, bool network, const char *const *flags);
/* Without the local transport and a data port: HTTP is left. */
void pair_start_apart(struct pair *p);
void pair_stop(struct pair *p);
void pair_clean(struct pair *p);

/* Moves a few bytes over a fresh pair of operations and compares: the workers still serve. */
void pair_assert_serving(struct pair *p);

/* ---- shorthands over libferry; each asserts success ---- */

/* A region of size bytes filled with a pattern that depends on seed (seed 0: left zero). Returns its id. */
const char *region_make(struct worker *w, uint64_t size, uint64_t seed);
void region_drop(struct worker *w, const char *id);
/* Maps a whole region of a worker of this machine, for munmap. */
void *region_map(struct worker *w, const char *id);
/* The pattern of seed in [offset, offset + size) of a region, as region_make stores it. */
void pattern_fill(uint64_t seed, uint64_t offset, void *buffer, size_t size);
/* Asserts that the region holds the pattern of seed in [offset, offset + size); seed 0: zeros. */
void region_assert_pattern(struct worker *w, const char *id, uint64_t seed, uint64_t offset, uint64_t size);

/* Variables that are cleared where their block ends. */
#define OPERATION __attribute__((cleanup(ferry_operation_clear))) struct ferry_operation

/* A passive operation over a whole region with its metadata: OFFER(w, region, &offer, .kind = FERRY_READABLE, .uses =
 * 2). */
#define OFFER(w, region, ret_operation, ...)                                                                           \
        offer_with(w, region, (struct ferry_operation_spec){ __VA_ARGS__ }, ret_operation)
void offer_with(struct worker *w, const char *region, struct ferry_operation_spec spec,
                struct ferry_operation *ret_operation);
void offer_make(struct worker *w, enum ferry_kind kind, const char *region, struct ferry_operation *ret_operation);
/* An active operation over a whole region, started with remote metadata. */
void begin_make(struct worker *w, enum ferry_kind kind, const char *region, const char *metadata,
                struct ferry_operation *ret_operation);
/* The same with checksums, which take longer. */
void begin_verified(struct worker *w, enum ferry_kind kind, const char *region, const char *metadata,
                    struct ferry_operation *ret_operation);
/*
 * The same over a region of size bytes in many pieces, in rows, so that one worker of a host cannot lend all at once to
 * another: a quarter is under way at most. So the transfer stands still with either.
 */
void offer_in_rows(struct worker *w, enum ferry_kind kind, const char *region, uint64_t size,
                   struct ferry_operation *ret_operation);
void begin_in_rows(struct worker *w, enum ferry_kind kind, const char *region, uint64_t size, const char *metadata,
                   struct ferry_operation *ret_operation);
/* How many bytes must have arrived in that order for the region to begin without gaps. */
uint64_t rows_begin(uint64_t size);
/* The active kind for a passive one: readable → read, writable → write. */
enum ferry_kind kind_of_peer(enum ferry_kind passive);

/*
 * Offers size bytes, moves them between two workers, which may be the same one, and compares. Asserts the transport on
 * both sides, but for NULL.
 */
void bytes_move(struct worker *passive, struct worker *active, enum ferry_kind passive_kind, uint64_t size, bool verify,
                const char *transport);

/* Waits for the end (WAIT_MS) and asserts the status; on a mismatch prints the error's code and detail. */
void operation_assert_end(struct worker *w, const char *id, enum ferry_status status,
                          struct ferry_operation *ret_operation);
/* The same and the error's number. */
void operation_assert_error(struct worker *w, const char *id, enum ferry_status status, int error);

/* ---- raw HTTP, for what libferry refuses to send: see raw.h ---- */

/* A TCP connection to the worker's first listener. */
int raw_connect(const struct worker *w);
/* The same, on which bytes (NUL-terminated) have been sent; and the answer that comes there, which is closed behind it.
 */
int raw_begin(const struct worker *w, const char *bytes);
struct raw_answer raw_end(int fd);
/* One connection, one request (NUL-terminated bytes as they go on the wire), one answer. */
struct raw_answer raw_exchange(const struct worker *w, const char *request);

/* ---- problems ---- */

/* method, path, JSON body (NULL = none) → asserts HTTP status and code; pointer (NULL = any) is the first complaint's.
 */
void assert_problem(struct worker *w, const char *method, const char *path, const char *body, int status,
                    const char *code, const char *pointer);

/* ---- files ---- */

/* Makes or replaces a file of text, of mode 0600. */
void file_write(const char *path, const char *text);
const char *file_read(const char *path);
/* Makes a file of text, which goes with the test; its path. */
const char *file_make(const char *text);
/* The path of a certificate, a key or an authority of the tests. */
const char *tls_path(const char *name);

/* ---- other processes, other clients ---- */

/*
 * Runs a program (argv[0], found by PATH; NULL-terminated) to its end with input (NULL = none) as standard input.
 * Returns the exit status, 128 + the number of a signal that ended it. output and errors may be NULL.
 */
int command_run(const char *const *argv, const char *input, const char **ret_output, const char **ret_errors);

/* Makes w->client anew, at url (NULL = the first listener) with options (may be NULL), and takes the epoch from it. */
void worker_connect(struct worker *w, const char *url, const struct ferry_options *options);

/* How often each of its threads went to sleep so far. The sum alone would fall when a thread of the pool ends. */
struct wakeups {
        size_t n_threads;
        struct {
                long id;
                uint64_t wakeups;
        } threads[256];
};

/* worker_wakeups_since counts the sleeps since then, and one for each thread that has ended meanwhile. */
void worker_wakeups(const struct worker *w, struct wakeups *ret);
uint64_t worker_wakeups_since(const struct worker *w, const struct wakeups *before);

/* The milliseconds of processor time that it used so far. */
uint64_t worker_processor_ms(const struct worker *w);

/*
 * Lets milliseconds go by, for tests of what does not happen: nothing could tell the end of that. Never to wait for
 * something that does.
 */
void pass_time(unsigned ms);

/* Waits until bytes of the operation have moved. true: it is in the middle; false: it is done already. */
bool operation_await_middle(struct worker *w, const char *id);

/* ---- tests and their scenes ---- */

/*
 * SCENE(type, s, name, begin) { … } is a test with type *s, zeroed before and gone afterwards, which begins with the
 * expression begin. When the test has come to its end, worker_stop ends those workers in *s that still run, the latest
 * first; after a failure they are killed.
 */
#define SCENE(type, s, name, begin)                                                                                    \
        static void name(type *s);                                                                                     \
        SCENE_TEST(type, s, name, name, begin)                                                                         \
        static void name(type *s)

/* ON_WORKER(what_it_shows, flags…) { … } has a running struct worker *w; under WITH_WORKER the test starts it. */
#define ON_WORKER(name, ...) SCENE(struct worker, w, name, worker_start(w, "w", STRINGS(__VA_ARGS__)))
#define WITH_WORKER(name) SCENE(struct worker, w, name, (void)0)

/* struct pair *p over the local transport. */
#define ON_PAIR(name, ...) SCENE(struct pair, p, name, pair_start_with(p, false, STRINGS(__VA_ARGS__)))
#define WITH_PAIR(name) SCENE(struct pair, p, name, (void)0)
/* Two tests, name_local and name_network: p->network tells them apart. */
#define ON_EACH_PAIR(name, ...)                                                                                        \
        static void name(struct pair *p);                                                                              \
        SCENE_TEST(struct pair, p, name, name##_local, pair_start_with(p, false, STRINGS(__VA_ARGS__)))                \
        SCENE_TEST(struct pair, p, name, name##_network, pair_start_with(p, true, STRINGS(__VA_ARGS__)))               \
        static void name(struct pair *p)

/* A pair that nothing has been started of, and a fresh directory of mode 0700, which goes with all that is in it. */
struct shared_scene {
        char path[64];
        struct pair pair;
};
#define WITH_SHARED(name) SCENE(struct shared_scene, s, name, directory_make(s->path, sizeof(s->path)))
void directory_make(char *path, size_t size);

#define SCENE_TEST(type, s, function, id, begin)                                                                       \
        static void id##_test(void **state)                                                                            \
        {                                                                                                              \
                type *s = scene_new(sizeof(*s));                                                                       \
                                                                                                                       \
                (void)state;                                                                                           \
                begin;                                                                                                 \
                function(s);                                                                                           \
                scene_end(s, sizeof(*s));                                                                              \
                test_row(NULL);                                                                                        \
        }                                                                                                              \
        TEST_REGISTER(id, #id, id##_test, NULL, scene_teardown)
void *scene_new(size_t size);
void scene_end(const void *scene, size_t size);
int scene_teardown(void **state);

#endif
