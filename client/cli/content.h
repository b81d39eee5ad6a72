/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CONTENT_H
#define CLI_CONTENT_H

#include "cli.h"

/*
 * Moves bytes between files and regions: through a mapping if the region's worker runs here as the same user, else over
 * HTTP.
 */

/*
 * A file to read, "-" = standard input. name is for messages. content_open() reads what has no size into memory, and
 * refuses what is empty; content_open_any() leaves it to be read to its end, with FERRY_SIZE_UNKNOWN. CLI_OK or
 * CLI_USAGE; CLI_PROBLEM after a signal.
 */
struct content_input {
        int fd;
        uint64_t size;
        const char *name;
        bool spooled; /* read already */
};
int content_open(const char *file, struct content_input *ret_input);
int content_open_any(const char *file, struct content_input *ret_input);
void content_close(struct content_input *input);

/* All of a file, "-" = standard input, at most max bytes, for free(), with a NUL behind. CLI_OK or CLI_USAGE;
 * CLI_PROBLEM after a signal. */
int content_slurp(const char *name, size_t max, char **ret_data, size_t *ret_size);

/*
 * Called again and again, asks the worker for a region with idle_ms so often that it stays. *last_ms: when it did; 0 at
 * the start. The result of the call.
 */
int content_keep(const struct cli_worker *worker, const struct ferry_region *region, uint64_t *last_ms);

/* Fills a region. CLI_OK; else an exit status, with a message. */
int content_fill(const struct cli_worker *worker, const struct ferry_region *region, const struct content_input *input);

/* Source and sink of a request, which tell a fault of the file from one of the request. */
struct content_stream {
        int fd;
        const char *name;
        int error;     /* of the file */
        uint64_t done; /* bytes, of which the phase is told */
};
ssize_t content_stream_read(void *context, void *buffer, size_t size);
int content_stream_write(void *context, const void *data, size_t size);

/* The exit status of such a request, as cli_result(). */
int content_stream_result(const struct cli_worker *worker, const struct content_stream *stream, int r);

/*
 * A file to write, "-" = standard output, which must not be a terminal. It has another name, FILE.part-PID, until it is
 * complete. Symbolic links are followed.
 */
struct content_output {
        int fd;
        char *part;   /* NULL = written in place: a device, a pipe, a descriptor */
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

/* Closes the file: complete where status is CLI_OK, else removed. The status, which may get worse. */
int content_end(struct content_output *output, int status);

#endif
