/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli.h"

/* A region and an operation that a command makes, and removes however it ends. Zero-initialise. */
struct job {
        struct cli *cli;
        struct cli_worker *worker; /* borrowed */
        struct ferry_region region;
        struct ferry_operation operation;
        bool silent; /* the worker did not answer in time */
};

/* Makes the job's region, with --idle; name: NULL = that of the command. An exit status. */
int job_make_region(struct job *job, uint64_t size, const char *name);

/*
 * The same without waiting until it is ready: its id is known at once, so that a signal need not wait for it, and
 * several workers make theirs together. idle_ms: after which without use the worker deletes it; 0 = it stays. The
 * result of the call; without an id it was no worker that answered.
 */
int job_begin_region(struct job *job, uint64_t size, const char *name, uint64_t idle_ms);
/* Waits until it is ready or has failed, for at most wait_ms. */
void job_watch_region(const struct job *job, uint64_t wait_ms);

/* Makes the job's operation, over size bytes of region_id. spec without descriptors. An exit status. */
int job_make_operation(struct job *job, struct ferry_operation_spec *spec, const char *region_id, uint64_t size);

/* Waits for its end, with progress. An exit status, CLI_LATE after --timeout. */
int job_wait(struct job *job);

/* Prints the operation as JSON where --json asks for it. Then cancels and deletes whatever the job has made. */
int job_report(struct job *job);
void job_end(struct job *job);

/* Prints the URL of an offer's metadata. Returns an exit status. */
int job_announce(struct job *job, const char *use);

#endif
