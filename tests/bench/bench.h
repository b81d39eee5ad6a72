/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <ferry/ferry.h>

/*
 * What the measurements share. They run in one thread. A failure of any kind ends the program with exit status 1 after
 * ending its processes: half a benchmark is none.
 *
 * Standard output is for bench.py, one line each:
 *   S SERIES UNIT VALUE    a sample; the nth of one series was measured right beside the nth of another
 *   R TEXT                 a round begins: bench.py drops the samples of a round that others disturbed
 *   N TEXT                 a note for the reader of the result
 */

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program when a call of libferry failed. */
void bench_check(struct ferry *f, int result, const char *what);
/* asprintf() that ends the program without memory. For free(). */
char *bench_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sample(const char *unit, double value, const char *series, ...) __attribute__((format(printf, 3, 4)));
void begin_round(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t now_ns(void);
double seconds_since(uint64_t start_ns);
double gigabytes_per_second(uint64_t bytes, double seconds);
/* Sorts values. */
double median(double *values, size_t n);
/* The mean of the middle half, for values of two kinds, between which a median jumps. Sorts values. */
double midmean(double *values, size_t n);
/* One of two numbers, as --quick or --full asks. */
size_t quick_or_full(size_t quick, size_t full);

/* ---- processes (process.c) ---- */

/* Makes the signals that end us end our processes, too. */
void processes_init(void);
/* Ends and reaps every process; async-signal-safe. */
void processes_end(void);

struct worker {
        pid_t pid;
        int out; /* its standard output: closing tells of its end */
        char url[256];
        struct ferry *client;
};

/* flags: ended by NULL; NULL = none. */
void worker_start(struct worker *w, const char *const *flags);
void worker_stop(struct worker *w);

extern const char *const transport_names[2]; /* "local", "network" */

/* Two workers with a region each. */
struct pair {
        struct worker a, b; /* a is passive, b active */
        struct ferry_region at_a, at_b;
};
/* network: UCX's TCP on loopback, else the local transport. size: of both regions. */
void pair_start(struct pair *p, bool network, const char *const *flags, uint64_t size);
/* a is sim_owner, whose region is memory that the program owns. */
void pair_start_owner(struct pair *p, uint64_t size);
void pair_stop(struct pair *p);

void region_create(struct worker *w, uint64_t size, struct ferry_region *ret_region);
/* Writes value to every byte, by a mapping of the region's file. */
void region_fill(const struct ferry_region *region, int value);

/* A program next to this one that reads a command a line and answers each with its seconds. */
struct reference {
        pid_t pid;
        FILE *in, *out;
};
void reference_start(struct reference *r, const char *name, const char *const *arguments);
/* Its next line, without the end of line; valid until the next call. */
const char *reference_line(struct reference *r);
double reference_run(struct reference *r, uint64_t size);
void reference_stop(struct reference *r);

/* The path of a program next to this one, for free(). */
char *program_path(const char *name);
/* Runs a program until its end, which must be a good one, without its output: its seconds. */
double program_run(const char *const *arguments);

/* From now on this program and those that it starts run on one processor. */
void share_one_processor(void);

uint64_t process_anonymous_bytes(pid_t pid);
uint64_t process_resident_bytes(pid_t pid);
uint64_t process_cpu_ns(pid_t pid);
/* size, halved as often as the memory that is free asks for: times sizes of it must be there. */
uint64_t size_that_fits(uint64_t size, double times);

/* ---- raw HTTP (http.c) ---- */

/* One kept-alive connection without a library in the way. Blocking. */
struct http {
        int fd;
        bool prefer_wait; /* bodies are sent with Prefer: wait */
        size_t n, room;   /* of buffer */
        char *buffer;
        int status;
        char *body; /* in buffer, NUL-terminated; valid until the next call */
        size_t body_size;
};
void http_open(struct http *h, const char *url);
void http_close(struct http *h);
void http_send(struct http *h, const char *method, const char *target, const char *body);
void http_receive(struct http *h);
/* Both; ends the program when the status is not expected. */
void http_call(struct http *h, const char *method, const char *target, const char *body, int expected);
/* The string value of a top-level "id" in the latest body. */
void http_take_id(const struct http *h, char ret_id[FERRY_ID_SIZE]);

/* ---- the three calls of a transfer (calls.c) ---- */

struct timing {
        double cycle_s;    /* create passive with metadata, create active with Prefer: wait, wait for passive */
        double transfer_s; /* the active operation's own duration_us */
};

/* By libferry: the first size bytes of both regions. passive: FERRY_READABLE or FERRY_WRITABLE. */
struct timing pair_move(struct pair *p, enum ferry_kind passive, uint64_t size);

/* By raw sockets, with bodies that are written beforehand but for the metadata. */
struct raw {
        struct http a, b;   /* of the passive and the active worker */
        char *offer, *read; /* the bodies; read gets the metadata behind read_fixed */
        size_t read_fixed;
        char wait_path[128]; /* of the passive operation */
};
void raw_open(struct raw *r, const char *url_a, const char *url_b);
void raw_close(struct raw *r);
/* Moves what these descriptors say (JSON, without the brackets). */
void raw_describe(struct raw *r, const char *at_a, const char *at_b);
/* Creates the readable; then read and wait_path are of it. */
void raw_offer(struct raw *r);
struct timing raw_move(struct raw *r);
/* A descriptor of the whole region, for raw_describe(). For free(). */
char *raw_whole(const struct ferry_region *region);

/* ---- the same by bare libcurl and json-c, as a program without libferry makes them (bare.c) ---- */

struct bare;
struct bare *bare_new(const struct pair *p);
struct bare *bare_free(struct bare *bare);
/* The whole regions of the pair. */
struct timing bare_move(struct bare *bare);

/* ---- the measurements ---- */

void bench_bulk(void);
void bench_own(void);
void bench_writes(void);
void bench_threads(void);
void bench_bytes(void);
void bench_small(void);
void bench_inside(void);
void bench_nixl(void);
void bench_batch(void);
void bench_scatter(void);
void bench_scale(void);
void bench_idle(void);
void bench_fetch(void);
void bench_content(void);
void bench_regions(void);

#endif
