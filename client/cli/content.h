/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CONTENT_H
#define CLI_CONTENT_H

#include "cli.h"

/*
 * Bytes between files and regions: through a mapping of the region where its worker runs here, as our user, else as
 * HTTP content.
 */

/* File → region. size bytes of fd, or up to its end. CLI_OK, or an exit status after telling why. */
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
 * kept.
 */
struct content_output {
        int fd;
        char *part; /* NULL = written in place: a device, a pipe */
        const char *file;
        void *map; /* of a file in memory, NULL = to be written */
        uint64_t size;
};
int content_create(const char *file, struct content_output *ret_output);

/* Takes the room on the disk. 0 or -errno. */
int content_reserve(struct content_output *output, uint64_t size);

/* Region → file, from its start. CLI_OK, or an exit status after telling why. */
int content_save(const struct cli_worker *worker, const struct ferry_region *region,
                 const struct content_output *output, uint64_t size);
int content_keep(struct content_output *output);
void content_discard(struct content_output *output);

#endif
