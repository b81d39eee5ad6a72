/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SPREAD_H
#define CLI_SPREAD_H

#include "job.h"
#include "remote.h"

/*
 * The bytes of one offer or file into a region of each of many workers, the members, by a chain: the first member reads
 * from the source, each other one from the member before it, out of what that has read so far. Every link carries the
 * bytes once in each direction, and a member is behind the one before by about a request's bytes. A tree would be
 * nearer to the source, and share a member's link among its branches: for bulk that is the greater loss.
 */

enum member_state {
        MEMBER_WAITS, /* its region is being made, or nothing that it lacks can be had just now */
        MEMBER_READS,
        MEMBER_DONE,
        MEMBER_FAILED, /* left out */
};

struct member {
        const char *name; /* as on the command line */
        struct cli_worker worker;
        enum member_state state;
        struct job home; /* the region */
        bool ready;
        struct job read;  /* of [prefix, to) … */
        struct job offer; /* … and what it reads: of the source or of an earlier member */
        uint64_t prefix;  /* bytes from the start on that are in place */
        uint64_t to;
        uint64_t bytes;   /* in place, as far as is known */
        unsigned strikes; /* reads that failed one after the other, without a byte */
        char transport[64];
        char why[256]; /* of FAILED */
};

struct spread {
        struct cli *cli;
        struct job source;    /* the region of a file; none: */
        struct remote remote; /* the offer */
        uint64_t size;
        size_t n;
        struct member *members;
        uint64_t start_ms, ended_ms;
};

/* ---- spread_member.c ---- */

/* Has its region made. */
void member_open(struct spread *spread, struct member *member);
/* Starts to read what it lacks, if that is to be had. An exit status: of the source, which nobody can do without. */
int member_begin(struct spread *spread, size_t i);
/* How its read goes; waits for its end for at most wait_ms. */
void member_look(struct spread *spread, size_t i, uint64_t wait_ms);
/* Leaves it out, because of the last call's result r (negative: nothing answers there), or format. */
void member_fail(struct spread *spread, struct member *member, int r);
void member_fail_because(struct spread *spread, struct member *member, const char *why);
/* Ends and removes whatever it has made. */
void member_end(struct member *member);

/* ---- spread_digest.c ---- */

/* Compares the members' regions with the source's, or with one of theirs where that is not known. */
int spread_check(struct spread *spread);

#endif
