/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_LOCAL_FIXTURE_H
#define TESTS_LOCAL_FIXTURE_H

#include "unit.h"

#include "base/clock.h"
#include "move/local.h"

/* Local transports in one process, in a directory of their own, each with a small engine above it. */

enum { HEADERS_MAX = 64 };

struct worker;

/* What one send or receive came to. */
struct outcome {
        int done; /* times */
        enum message_result result;
        int begun;
        bool refuses; /* begin answers false */
        uint64_t copied;
};

struct worker {
        struct transport *transport;
        uint64_t epoch;
        struct link *link; /* that was accepted last */
        bool refuses_links;
        int ended, room, copied;
        int error; /* of the link that ended last */
        char detail[TRANSPORT_DETAIL_SIZE];
        /* Messages. */
        size_t n;
        struct wire_header headers[HEADERS_MAX]; /* the first ones */
        uint64_t bytes;                          /* of payloads that came inline */
        uint8_t last_inline[1 << 16];            /* the last of them */
        /* Where payloads are received, at the offset that their header says; NULL = they are refused. */
        const struct stream *place;
        struct outcome received;
        void (*on_message)(struct worker *worker, struct link *link, const struct wire_header *header);
        void (*on_copied)(struct worker *worker, struct message *message);
};

/* A program's memory, registered with a worker. */
struct block {
        struct memory memory;
        struct worker *worker;
};

extern char fixture_directory[];

int fixture_setup(void **state);
int fixture_teardown(void **state);

void worker_open(struct worker *worker, unsigned copy_threads);
void worker_close(struct worker *worker); /* with all its links */
struct link *worker_connect(struct worker *worker, uint64_t epoch);
/* Progress of both (either may be NULL) until the condition holds; fails after 10 s. */
#define RUN_UNTIL(a, b, condition)                                                                                     \
        do {                                                                                                           \
                uint64_t run_end_ = clock_now_us() + 10000000;                                                         \
                while (!(condition)) {                                                                                 \
                        if (clock_now_us() >= run_end_)                                                                \
                                fail_msg("10 s passed without: %s", #condition);                                       \
                        worker_step(a, b);                                                                             \
                }                                                                                                      \
        } while (0)
void worker_step(struct worker *a, struct worker *b);

/* size bytes; of a memfd, or private. Filled with a pattern of its own. */
void block_new(struct block *block, struct worker *worker, size_t size, bool is_file);
void block_free(struct block *block); /* once: what is free stays free */
void block_fill(struct block *block, unsigned seed);

/* A message of that transfer with [offset, offset + length) of the stream, whose outcome is stored. */
struct message *message_make(struct worker *worker, const struct stream *stream, uint64_t offset, uint64_t length,
                             uint64_t transfer, struct outcome *outcome);
void worker_send(struct link *link, struct message *message);

int count_descriptors(void);
int count_mappings(const char *name); /* of files of that name */

#endif
