/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <ferry/clock.h>

/*
 * Bytes between files and regions, for all commands that move a file. A region of a worker on this machine, of this
 * user, is mapped (local.c); else its content goes over HTTP. A file that is written has another name until it is
 * whole: what a command leaves behind is the complete file or none.
 *
 * After a signal the functions end with -ECANCELED or CLI_PROBLEM, and print nothing: main tells of it.
 */

/*
 * Bytes between two checks for signals. CONTENT_COPY is large, so that memcpy bypasses the caches (12 instead of 7
 * GB/s), which glibc does from three quarters of the last level's size on.
 */
enum { CONTENT_PIECE = 8 << 20, CONTENT_COPY = 256 << 20, CONTENT_PIPE = 64 << 10 /* that a pipe takes at once */ };

enum { CONTENT_KEEPS = 4 /* requests within a region's idle_ms */ };

enum {
        CONTENT_LINKS = 40,  /* symbolic links in a row, as the kernel has it */
        CONTENT_SUFFIX = 32, /* at most, of a part's name */
        CONTENT_PARTS = 100,
};

/* ---- file → region ---- */

/* Reads exactly size bytes. Returns 0; -ENODATA: the file ended before; -ECANCELED; another -errno. */
static int content_read(int fd, char *to, uint64_t size)
{
        while (size && !signals_caught()) {
                ssize_t n = cli_read(fd, to, size < CONTENT_PIECE ? (size_t)size : CONTENT_PIECE);
                if (n <= 0)
                        return n < 0 ? (int)n : -ENODATA;
                to += n;
                size -= (uint64_t)n;
        }
        return size ? -ECANCELED : 0;
}

/* The exit status of a file's fault r, with a line; 0 is CLI_OK. */
static int content_file_result(int r, const char *name)
{
        if (cli_is_silent(r))
                return CLI_PROBLEM;
        if (r == -ENODATA)
                return cli_usage_error("%s became shorter while it was read", name);
        return r < 0 ? cli_usage_error("%s: %s", name, strerror(-r)) : CLI_OK;
}

ssize_t content_stream_read(void *context, void *buffer, size_t size)
{
        struct content_stream *s = context;
        ssize_t n = cli_read(s->fd, buffer, size);
        s->error = n < 0 ? (int)n : 0;
        s->done += n > 0 ? (uint64_t)n : 0;
        progress_move(s->done);
        return n;
}

int content_stream_write(void *context, const void *data, size_t size)
{
        struct content_stream *s = context;
        s->error = s->text ? cli_write_text(data, size, &s->state) : cli_write(s->fd, data, size);
        s->done += size;
        progress_move(s->done);
        return s->error;
}

int content_stream_result(const struct cli_worker *worker, const struct content_stream *stream, int r)
{
        if (stream->error || r == -ENODATA) /* the file ended before its size */
                return content_file_result(stream->error ? stream->error : r, stream->name);
        return cli_result(worker, r);
}

int content_keep(const struct cli_worker *worker, const struct ferry_region *region, uint64_t *last_ms)
{
        uint64_t now_ms = ferry_clock_ms();
        struct ferry_region now;
        if (*last_ms == 0)
                *last_ms = now_ms;
        if (!region->idle_ms || now_ms - *last_ms < region->idle_ms / CONTENT_KEEPS)
                return 0;
        *last_ms = now_ms;
        return ferry_get_region(worker->ferry, region->id, &now);
}

/*
 * Reads the file into the mapped region. The worker may delete a region that is not used while this lasts, and the
 * mapping stays: so it is asked for the region meanwhile, and at the end, when the region must still be there.
 */
static int content_fill_map(const struct cli_worker *worker, const struct ferry_region *region,
                            const struct content_input *input, char *map)
{
        struct ferry_region now;
        uint64_t last_ms = 0;
        int kept = 0, r = 0;
        for (uint64_t done = 0, piece; r == 0 && kept == 0 && done < input->size; done += piece) {
                piece = input->size - done < CONTENT_PIECE ? input->size - done : CONTENT_PIECE;
                r = content_read(input->fd, map + done, piece);
                kept = content_keep(worker, region, &last_ms);
                progress_move(done + piece);
        }
        if (r == 0 && kept == 0)
                kept = ferry_get_region(worker->ferry, region->id, &now);
        return r < 0 ? content_file_result(r, input->name) : cli_region_result(worker, region, kept);
}

static int content_fill_any(const struct cli_worker *worker, const struct ferry_region *region,
                            const struct content_input *input)
{
        void *map = region->size >= input->size ? local_map(worker->url, region, true) : NULL;
        if (map) {
                int status = content_fill_map(worker, region, input, map);
                munmap(map, (size_t)region->size);
                return status;
        }
        struct content_stream stream = { .fd = input->fd, .name = input->name };
        int r = ferry_put_region_content_from(worker->ferry, region->id, 0, content_stream_read, &stream, input->size);
        if (r == FERRY_E_NOT_FOUND)
                return cli_region_result(worker, region, r);
        return content_stream_result(worker, &stream, r);
}

int content_fill(const struct cli_worker *worker, const struct ferry_region *region, const struct content_input *input)
{
        if (input->spooled)
                progress_begin("filling the region", NULL, input->size);
        else
                progress_begin("reading", input->name, input->size);
        int status = content_fill_any(worker, region, input);
        if (status == CLI_OK)
                progress_end();
        return status;
}

/* ---- region → file ---- */

/* Writes the bytes to the file. Returns 0; -ECANCELED; another -errno. */
static int content_write(const struct content_output *output, const char *from, uint64_t size)
{
        const uint64_t most = output->map ? CONTENT_COPY : output->part ? CONTENT_PIECE : CONTENT_PIPE;
        for (uint64_t done = 0, piece; done < size; done += piece) {
                int r = 0;
                piece = size - done < most ? size - done : most;
                if (signals_caught())
                        return -ECANCELED;
                if (output->map)
                        memcpy((char *)output->map + done, from + done, (size_t)piece);
                else
                        r = cli_write(output->fd, from + done, (size_t)piece);
                if (r < 0)
                        return r;
                progress_move(done + piece);
        }
        return 0;
}

static int content_save_any(const struct cli_worker *worker, const struct ferry_region *region,
                            const struct content_output *output, uint64_t size)
{
        uint64_t came = 0;
        void *map = region->size >= size ? local_map(worker->url, region, false) : NULL;
        if (map) {
                int r = content_write(output, map, size);
                munmap(map, (size_t)region->size);
                return content_file_result(r, output->file);
        }
        struct content_stream stream = { .fd = output->fd, .name = output->file };
        int r = ferry_get_region_content_to(worker->ferry, region->id, 0, size, content_stream_write, &stream, &came);
        if (r == FERRY_E_NOT_FOUND)
                return cli_region_result(worker, region, r);
        if (r == 0 && came != size)
                return cli_fail(CLI_UNREACHABLE, "%s: %" PRIu64 " of %" PRIu64 " bytes came (is it a ferryd?)",
                                worker->url, came, size);
        return content_stream_result(worker, &stream, r);
}

int content_save(const struct cli_worker *worker, const struct ferry_region *region,
                 const struct content_output *output, uint64_t size)
{
        progress_begin("writing", output->file, size);
        int status = content_save_any(worker, region, output, size);
        if (status == CLI_OK)
                progress_end();
        return status;
}

/* ---- inputs ---- */

int content_open_any(const char *file, struct content_input *ret_input)
{
        bool standard = strcmp(file, "-") == 0;
        struct content_input input = { .name = standard ? "standard input" : file, .size = FERRY_SIZE_UNKNOWN };
        struct stat status;
        input.fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(file, O_RDONLY | O_CLOEXEC);
        int r = input.fd < 0 || fstat(input.fd, &status) < 0 ? -errno : 0;
        if (r < 0 && signals_caught())
                r = -ECANCELED; /* while it waited for the other end of a pipe */
        if (r < 0) {
                content_close(&input);
                return content_file_result(r, input.name);
        }
        if (S_ISDIR(status.st_mode)) {
                content_close(&input);
                return cli_usage_error("%s is a directory: pack it first, with tar", file);
        }
        off_t at = lseek(input.fd, 0, SEEK_CUR);
        if (S_ISBLK(status.st_mode)) { /* fstat tells no size of theirs */
                status.st_size = lseek(input.fd, 0, SEEK_END);
                (void)lseek(input.fd, at, SEEK_SET);
        }
        if ((S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) && status.st_size > 0) /* those of /proc have none */
                input.size = at < status.st_size ? (uint64_t)(status.st_size - at) : 0;
        *ret_input = input;
        return CLI_OK;
}

/* Reads the input to its end into a memfd, which takes the place of its descriptor. */
static int content_spool(struct content_input *input)
{
        char piece[65536];
        int memory = memfd_create("ferry-input", MFD_CLOEXEC), r = memory < 0 ? -errno : 0;
        ssize_t n = 0;
        input->size = 0;
        input->spooled = true;
        progress_begin("reading", input->name, FERRY_SIZE_UNKNOWN);
        while (r == 0 && (n = cli_read(input->fd, piece, sizeof(piece))) != 0) {
                r = n < 0 ? (int)n : cli_write(memory, piece, (size_t)n);
                input->size += n > 0 ? (uint64_t)n : 0;
                progress_move(input->size);
        }
        if (r == 0)
                progress_end();
        close(input->fd);
        input->fd = memory;
        if (memory >= 0)
                (void)lseek(memory, 0, SEEK_SET);
        return content_file_result(r, input->name);
}

int content_open(const char *file, struct content_input *ret_input)
{
        struct content_input input = { .fd = -1 };
        int r = content_open_any(file, &input);
        if (r != CLI_OK)
                return r;
        if (input.size == FERRY_SIZE_UNKNOWN)
                r = content_spool(&input);
        if (r == CLI_OK && input.size == 0)
                r = cli_usage_error("%s is empty: no bytes to move", input.name);
        if (r == CLI_OK)
                *ret_input = input;
        else
                content_close(&input);
        return r;
}

void content_close(struct content_input *input)
{
        if (input->fd >= 0)
                close(input->fd);
        input->fd = -1;
}

int content_slurp(const char *name, size_t max, char **ret_data, size_t *ret_size)
{
        struct content_input input;
        int status = content_open_any(name, &input);
        if (status != CLI_OK)
                return status;
        int r = cli_read_all(input.fd, max, ret_data, ret_size);
        content_close(&input);
        if (r == 0 || cli_is_silent(r))
                return r == 0 ? CLI_OK : CLI_PROBLEM;
        return cli_usage_error("%s: %s", input.name, r == -EFBIG ? "too large" : strerror(-r));
}

/* ---- outputs ---- */

/* Continues where a descriptor of ours is. What its link names may not be a file any more, or never was one. */
static int content_continue(int fd, const char *file, struct content_output *ret_output)
{
        const char *name = fd == STDOUT_FILENO ? "standard output" : file;
        int flags = fcntl(fd, F_GETFL);
        if (isatty(fd))
                return cli_usage_error(
                        "no bytes to a terminal: name a file with -o FILE, or send the output elsewhere");
        if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) /* tells before a peer has given the bytes */
                return cli_usage_error("%s: %s", name, strerror(EBADF));
        if (fd != STDOUT_FILENO)
                fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (fd < 0)
                return cli_usage_error("%s: %s", name, strerror(errno));
        *ret_output = (struct content_output){ .fd = fd, .file = name };
        return CLI_OK;
}

/* The descriptor that a name stands for; -1 = none. */
static int content_descriptor(const char *name)
{
        int fd = -1, end = 0;
        if (sscanf(name, "/dev/fd/%d%n", &fd, &end) != 1 && sscanf(name, "/proc/self/fd/%d%n", &fd, &end) != 1)
                return -1;
        return name[end] ? -1 : fd;
}

/*
 * The name at the end of symbolic links, where no file need be yet, for free(). It stops at a name of a descriptor.
 * NULL with errno.
 */
static char *content_follow(const char *file)
{
        char link[PATH_MAX], *at = strdup(file), *next;
        for (unsigned hops = 0; at && hops < CONTENT_LINKS; hops++) {
                ssize_t n = content_descriptor(at) >= 0 ? -1 : readlink(at, link, sizeof(link));
                if (n < 0)
                        return at;
                const char *slash = link[0] == '/' ? NULL : strrchr(at, '/');
                if (asprintf(&next, "%.*s%.*s", slash ? (int)(slash + 1 - at) : 0, at, (int)n, link) < 0)
                        next = NULL;
                free(at);
                at = next;
        }
        errno = at ? ELOOP : ENOMEM;
        free(at);
        return NULL;
}

/*
 * The part of a file stands beside the file itself: to rename it to a symbolic link would replace the link. A command
 * that was killed may have left one with our pid, as each one of a container has the same.
 */
static void content_create_part(struct content_output *output, bool exists, mode_t mode)
{
        const char *slash = strrchr(output->target, '/'), *name = slash ? slash + 1 : output->target;
        int stem = (int)(name - output->target) + (int)strnlen(name, NAME_MAX - CONTENT_SUFFIX);
        for (unsigned n = 0; output->fd < 0 && n < CONTENT_PARTS; n++) {
                char more[12] = "";
                if (n)
                        snprintf(more, sizeof(more), "-%u", n);
                free(output->part);
                if (asprintf(&output->part, "%.*s.part-%d%s", stem, output->target, (int)getpid(), more) < 0) {
                        output->part = NULL;
                        errno = ENOMEM;
                        return;
                }
                output->fd = open(output->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
                if (output->fd < 0 && errno != EEXIST)
                        return;
        }
        if (output->fd >= 0 && exists)
                (void)fchmod(output->fd, mode & 07777);
}

int content_create(const char *file, struct content_output *ret_output)
{
        struct content_output output = { .fd = -1, .file = file };
        struct stat status = { 0 };
        if (!file || strcmp(file, "-") == 0)
                return content_continue(STDOUT_FILENO, file, ret_output);
        output.target = content_follow(file);
        int own = output.target ? content_descriptor(output.target) : -1;
        if (own >= 0) {
                free(output.target);
                return content_continue(own, file, ret_output);
        }
        bool exists = stat(file, &status) == 0;
        if (output.target && exists && !S_ISREG(status.st_mode))
                output.fd = open(file, O_WRONLY | O_CLOEXEC);
        else if (output.target && (!exists || faccessat(AT_FDCWD, file, W_OK, AT_EACCESS) == 0))
                content_create_part(&output, exists, status.st_mode);
        if (output.fd < 0) {
                int r = signals_caught() ? -ECANCELED : -errno; /* a pipe that nobody reads */
                free(output.part);
                free(output.target);
                return content_file_result(r, file);
        }
        *ret_output = output;
        return CLI_OK;
}

/* Not posix_fallocate, which writes to each page if the file system cannot reserve space. */
static int content_allocate(const struct content_output *output, uint64_t size)
{
        return fallocate(output->fd, 0, 0, (off_t)size) < 0 ? -errno : 0;
}

/*
 * Asked before the allocation, which may take all space for a while before it fails for want of it. Root's reserve
 * counts: the allocation decides about that.
 */
static bool content_has_room(const struct content_output *output, uint64_t size)
{
        struct statvfs system;
        if (fstatvfs(output->fd, &system) < 0 || system.f_blocks == 0 || system.f_frsize == 0)
                return true; /* unknown, or without a limit */
        return size / system.f_frsize <= system.f_bfree;
}

int content_reserve(struct content_output *output, uint64_t size)
{
        if (!output->part)
                return 0;
        if (size > INT64_MAX)
                return -EFBIG;
        int r = content_allocate(output, 1);
        if (r == -EOPNOTSUPP || r == -ENOSYS)
                return 0; /* such a file system may compress: only writing tells what fits */
        if (r < 0)
                return r;
        if (!content_has_room(output, size))
                return -ENOSPC;
        output->size = size;
        output->map = mapping_new(output->fd, (size_t)size);
        return output->map ? 0 : content_allocate(output, size);
}

int content_reserved(const struct content_output *output, uint64_t size, int r)
{
        char bytes[32];
        if (r == 0 || signals_caught())
                return r == 0 ? CLI_OK : CLI_PROBLEM;
        cli_bytes_format(bytes, sizeof(bytes), (double)size);
        return cli_usage_error("%s: %s: %s are needed", output->file, strerror(-r), bytes);
}

static void content_unmap(struct content_output *output)
{
        if (output->map)
                munmap(output->map, (size_t)output->size);
        output->map = NULL;
}

int content_end(struct content_output *output, int status)
{
        content_unmap(output);
        /* Some file systems report a full disk only at close(). */
        if (output->fd > STDERR_FILENO && close(output->fd) < 0 && status == CLI_OK)
                status = cli_usage_error("%s: %s", output->file, strerror(errno));
        if (output->part && status == CLI_OK && rename(output->part, output->target) < 0)
                status = cli_usage_error("%s: %s", output->file, strerror(errno));
        if (output->part && status != CLI_OK)
                (void)unlink(output->part);
        free(output->part);
        free(output->target);
        *output = (struct content_output){ .fd = -1 };
        return status;
}
