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
 *   P TEXT                 what is being done
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
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t now_ns(void);
double seconds_since(uint64_t start_ns);
double gigabytes_per_second(uint64_t bytes, double seconds);
/* Sorts values. */
double median(double *values, size_t n);
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

struct pair {
        struct worker a, b; /* a is passive, b active */
};
/* network: UCX's TCP on loopback, else shared memory. */
void pair_start(struct pair *p, bool network, const char *const *flags);
void pair_stop(struct pair *p);

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
/* Both; ends the program when the status is not expected (0 = any). */
void http_call(struct http *h, const char *method, const char *target, const char *body, int expected);
/* The string value of a top-level "id" in the latest body. */
void http_take_id(const struct http *h, char ret_id[FERRY_ID_SIZE]);

/*
 * Requests a second that connections kept-alive clients get served together, one thread driving them. create NULL: GET
 * target again and again; else a POST of create to target and a DELETE of what it made, in turn.
 */
double http_load(const char *url, unsigned connections, double seconds, const char *target, const char *create);

/* ---- the measurements ---- */

void bench_bulk(void);
void bench_sizes(void);
void bench_small(void);
void bench_wait(void);
void bench_scatter(void);
void bench_scale(void);
void bench_many(void);
void bench_interference(void);
void bench_control(void);
void bench_idle(void);
void bench_start(void);
void bench_references(void);

#endif
