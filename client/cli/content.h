/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CONTENT_H
#define CLI_CONTENT_H

#include "cli.h"

/*
 * Moves bytes between files and regions: through a mapping if the region's worker runs here as the same user, else over
 * HTTP.
 */

/* Fills a region with size bytes of fd, or up to its end. CLI_OK; else an exit status, with a message. */
int content_fill(const struct cli_worker *worker, const struct ferry_region *region, int fd, const char *name,
                 uint64_t size);

/*
 * A file to read, "-" = standard input, which is spooled into memory when its size is not known. name is for messages.
 * CLI_OK or CLI_USAGE, also for an empty one.
 */
struct content_input {
        int fd;
        uint64_t size;
        const char *name;
};
int content_open(const char *file, struct content_input *ret_input);
void content_close(struct content_input *input);

/*
 * A file to write, "-" = standard output, which must not be a terminal. It has another name, FILE.part-PID, until it is
 * kept. Symbolic links are followed.
 */
struct content_output {
        int fd;
        char *part;   /* NULL = written in place: a device, a pipe */
        char *target; /* what part becomes: the file, or the one that a symbolic link names */
        const char *file;
        void *map; /* mapping of a file in memory; NULL = use write() */
        uint64_t size;
};
int content_create(const char *file, struct content_output *ret_output);

/* Reserves space on the disk. 0 or -errno. */
int content_reserve(struct content_output *output, uint64_t size);

/* CLI_OK, or CLI_USAGE with a line about the failure r of content_reserve. */
int content_reserved(const struct content_output *output, uint64_t size, int r);

/* Saves a region to a file. CLI_OK; else an exit status, with a message. */
int content_save(const struct cli_worker *worker, const struct ferry_region *region,
                 const struct content_output *output, uint64_t size);
int content_keep(struct content_output *output);
void content_discard(struct content_output *output);

#endif
