/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SPREAD_H
#define CLI_SPREAD_H

#include "cli.h"

/*
 * Copies one offer or file into a region of each of many workers, the members, by a chain: the first member reads from
 * the source, each other one from the member before it, while that still reads. Every link carries the bytes once in
 * each direction, and each member is about one request behind the one before. A tree would have fewer hops, but its
 * branches would share a member's link, which costs more for bulk.
 */

enum member_state {
        MEMBER_WAITS, /* its region is being made, or nothing is available for it yet */
        MEMBER_READS,
        MEMBER_DONE,
        MEMBER_FAILED, /* left out */
};

struct member {
        const char *name; /* of its worker, as on the command line */
        struct link into; /* the user's region; without an id, one is made */
        struct cli_worker worker;
        enum member_state state;
        struct job home; /* the region */
        bool ready;
        uint64_t prepared; /* bytes of the region that are allocated, as far as known */
        struct job read;   /* of [prefix, to) … */
        struct job offer;  /* … and the offer it reads from: of the source, or of an earlier member */
        uint64_t prefix;   /* contiguous bytes in place from the start */
        uint64_t to;
        uint64_t bytes;   /* in place, as far as known */
        unsigned strikes; /* reads in a row that failed without a byte */
        char transport[64];
        char why[256]; /* of FAILED */
};

struct spread {
        struct cli *cli;
        struct job source;    /* the region of a file; none: */
        struct remote remote; /* the offer */
        uint64_t size;
        bool moves; /* a first member reads, or has read */
        size_t n;
        struct member *members;
        uint64_t start_ms, ended_ms;
};

/* ---- spread_member.c ---- */

/* Finds the member's region, or starts to make it. */
void member_open(struct spread *spread, struct member *member);
/* Starts to read missing bytes, if available. Returns an exit status, not CLI_OK only if the source fails. */
int member_begin(struct spread *spread, size_t i);
/* Checks the member's read; waits for its end for at most wait_ms. */
void member_look(struct spread *spread, size_t i, uint64_t wait_ms);
/* Leaves the member out, because of the last call's result r (negative: no answer), or a formatted reason. */
void member_fail(struct spread *spread, struct member *member, int r);
void member_fail_because(struct member *member, const char *why);
/* Ends the member's read, and the offer that it reads from. */
void member_stop(struct member *member);
/* Removes the region that was made for the member. Later members may have offers of it: stop those first. */
void member_end(struct member *member);

#endif
