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
 * What the measurements share. One thread (main) starts and ends processes; the rest may be called from any. A failure
 * of any kind ends the program with exit status 1 after ending its processes: half a benchmark is none.
 *
 * Standard output is for bench.py, one line each:
 *   S SERIES UNIT VALUE    a sample; the nth of one series was measured right beside the nth of another
 *   R TEXT                 a round begins: bench.py drops the samples of a round that others disturbed
 *   P TEXT                 what is being done, outside of rounds
 *   N TEXT                 a note for the reader of the result
 */

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

extern bool bench_full; /* else quick */

_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program when a call of libferry failed. */
void bench_check(struct ferry *f, int result, const char *what);
void sample(const char *unit, double value, const char *series, ...) __attribute__((format(printf, 3, 4)));
void begin_round(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t now_ns(void);
double seconds_since(uint64_t start_ns);
double gigabytes_per_second(uint64_t bytes, double seconds);
/* Sorts values. */
double median(double *values, size_t n);
/* The mean of the middle half, for values of two kinds, between which a median jumps. Sorts values. */
double midmean(double *values, size_t n);
/* quick or full, as asked for. */
unsigned rounds(unsigned quick, unsigned full);

/* ---- processes (process.c) ---- */

struct worker {
        pid_t pid;
        int out; /* its standard output: closing tells of its end */
        double start_s;
        char url[256];
        struct ferry *client;
};

/* flags: ended by NULL; NULL = none. */
void worker_start(struct worker *w, const char *const *flags);
void worker_stop(struct worker *w);
struct ferry *worker_connect(const struct worker *w);
struct region;
/* sim_owner, whose region is size bytes that the program owns. */
void worker_start_owner(struct worker *w, uint64_t size, struct region *ret_region);

struct pair {
        struct worker a, b; /* a is passive, b active */
};
/* network: UCX's TCP on loopback, else the local transport. */
void pair_start(struct pair *p, bool network, const char *const *flags);
void pair_stop(struct pair *p);

/* From now on this program and those that it starts run on one processor. */
void share_one_processor(void);

uint64_t process_anonymous_bytes(pid_t pid);
uint64_t process_resident_bytes(pid_t pid);
uint64_t process_cpu_ns(pid_t pid);
uint64_t memory_available(void);

/* ---- other programs (command.c) ---- */

/* A reference: a program next to this one that reads a command a line and answers each with its seconds. */
struct reference {
        pid_t pid;
        FILE *in, *out;
};
void reference_start(struct reference *r, const char *name, const char *const *arguments);
/* Its next line, without the end of line; valid until the next call. */
const char *reference_line(struct reference *r);
double reference_run(struct reference *r, uint64_t size);
/* Of one that answers "ready" before it runs; its seconds are the line after that. */
void reference_begin(struct reference *r, uint64_t size);
void reference_stop(struct reference *r);

bool command_exists(const char *name);
/*
 * Runs server, then client until it ends, then ends the server; both see a network of their own that has nothing but
 * loopback, because foreign servers listen everywhere. server may be NULL: then client runs in our network. The
 * client's output, for free(); NULL when it failed.
 */
char *command_run(const char *const *server, const char *const *client);

/* ---- a whole transfer through REST (move.c) ---- */

struct region {
        struct ferry_region info;
        uint8_t *memory; /* mapped; NULL until region_map */
};
void region_create(struct ferry *f, uint64_t size, struct region *ret_region);
void region_map(struct region *region);

struct slices {
        const struct ferry_descriptor *items;
        size_t n;
};
/* n slices of size bytes, each stride bytes after the one before. For free(). */
struct ferry_descriptor *slices_new(const struct region *region, size_t n, uint64_t size, uint64_t stride);

struct move {
        struct ferry *a, *b; /* kept-alive connections of the passive and the active side */
        enum ferry_kind passive;
        struct slices at_a, at_b;
};

struct timing {
        double cycle_s;    /* create passive with metadata, create active with Prefer: wait, wait for passive */
        double post_s;     /* the second of these calls alone */
        double transfer_s; /* the active operation's own duration_us */
};
void move_run(const struct move *m, struct timing *ret_timing);
/* One slice of size bytes at the start of both regions. */
void move_simple(struct ferry *a, struct ferry *b, enum ferry_kind passive, const struct region *at_a,
                 const struct region *at_b, uint64_t size, struct timing *ret_timing);

/* ---- raw HTTP (http.c) ---- */

/* One kept-alive connection without a library in the way. Blocking. */
struct http {
        int fd;
        bool prefer_wait;  /* bodies are sent with Prefer: wait */
        bool stamped;      /* http_stamp was called */
        uint64_t stamp_ns; /* when the kernel got the end of the latest answer (CLOCK_REALTIME); 0 = it does not tell */
        size_t n, room;    /* of buffer */
        char *buffer;
        int status;
        char *body; /* in buffer, NUL-terminated; valid until the next call */
        size_t body_size;
};
void http_open(struct http *h, const char *url);
void http_close(struct http *h);
/* From now on answers have a stamp_ns. On loopback an answer arrives in the system call that sends it. */
void http_stamp(struct http *h);
void http_send(struct http *h, const char *method, const char *target, const char *body);
void http_receive(struct http *h);
/* Both; ends the program when the status is not expected (0 = any). */
void http_call(struct http *h, const char *method, const char *target, const char *body, int expected);
/* The string value of a top-level "id" in the latest body. */
void http_take_id(const struct http *h, char ret_id[FERRY_ID_SIZE]);

/*
 * Requests a second that connections kept-alive clients get served together, one thread driving them. create NULL: GET
 * target again and again; else a POST of create to target and a DELETE of what it made, in turn.
 */
double http_load(const char *url, unsigned connections, double seconds, const char *target, const char *create);

/* ---- a whole transfer on raw connections (raw.c) ---- */

struct raw {
        struct http a, b; /* of the passive and the active worker */
        struct region at_a, at_b;
        char *offer, *read; /* bodies, written beforehand but for the metadata, which read gets behind read_fixed */
        size_t read_fixed;
        char id[FERRY_ID_SIZE], wait_path[128]; /* of the passive operation */
};

/* A region of size bytes at both ends, which is what moves. */
void raw_open(struct raw *r, const struct pair *p, uint64_t size);
void raw_close(struct raw *r);
/* Moves what these descriptors say (JSON, without the brackets) instead; NULL = the whole region. */
void raw_describe(struct raw *r, const char *at_a, const char *at_b);
/* Creates the readable; then read is the whole body with which b is told to read it. */
void raw_offer(struct raw *r);
void raw_assert_complete(const struct http *h);
/* Of the latest body; -1 = not there. */
double raw_number(const struct http *h, const char *field);

struct raw_timing {
        double offer_s, read_s, wait_s; /* the three calls */
        double cycle_s;                 /* all of them */
        double transfer_s, connect_s;   /* as the active operation tells; connect_s < 0: it does not */
};
void raw_cycle(struct raw *r, struct raw_timing *ret_timing);

/* ---- when memory is written (probe.c) ---- */

enum { PROBE_THREADS_MAX = 32 };

/* Watchpoints of the processor: exact, and without a thread that looks. */
struct probe {
        size_t n;
        struct {
                int fd;
                struct perf_event_mmap_page *page;
        } threads[PROBE_THREADS_MAX];
};
/*
 * Watches the 8 bytes at offset (a multiple of 8) of the file at path, written by any thread that pid has now. false:
 * the kernel does not let us.
 */
bool probe_open(struct probe *probe, pid_t pid, const char *path, uint64_t offset);
void probe_close(struct probe *probe);
/* When (CLOCK_MONOTONIC, ns) they were last written since the latest call; 0 = they were not. */
uint64_t probe_take(struct probe *probe);

/* ---- the measurements ---- */

void bench_bulk(void);
void bench_sizes(void);
void bench_bytes(void);
void bench_writes(void);
void bench_threads(void);
void bench_own(void);
void bench_small(void);
void bench_inside(void);
void bench_nixl(void);
void bench_wait(void);
void bench_scatter(void);
void bench_scale(void);
void bench_peers(void);
void bench_many(void);
void bench_batch(void);
void bench_interference(void);
void bench_control(void);
void bench_idle(void);
void bench_start(void);
void bench_regions(void);
void bench_fetch(void);
void bench_content(void);
void bench_references(void);

#endif
