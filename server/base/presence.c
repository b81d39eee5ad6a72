/* SPDX-License-Identifier: Apache-2.0 */
#include "base/presence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <xxhash.h>

#include <ferry/encoding.h>

#include "base/util.h"
#include "presence_internal.h"

enum { ADDRESS_SIZE_MAX = 64 * 1024 };

/* What the file begins with; the address follows. In the byte order of the host, which it never leaves. */
struct presence_header {
        char magic[8];
        uint64_t version;
        uint64_t epoch;
        uint64_t pid;
        uint64_t pid_namespace; /* inode numbers */
        uint64_t net_namespace;
        uint64_t address_size;
        uint64_t checksum; /* of all that is before it, and the address */
};

static const char magic[8] = { 'F', 'E', 'R', 'R', 'Y', 'P', 'R', '\n' };
enum { PRESENCE_VERSION = 1 };

struct presence {
        int fd; /* holds the lock */
        char path[PRESENCE_PATH_SIZE];
};

void presence_path(uint64_t epoch, const char *suffix, char path[PRESENCE_PATH_SIZE])
{
        (void)snprintf(path, PRESENCE_PATH_SIZE, PRESENCE_DIRECTORY "/" PRESENCE_PREFIX "%016llx%s%s",
                       (unsigned long long)epoch, suffix ? "-" : "", suffix ? suffix : "");
}

void presence_region_path(uint64_t epoch, uint64_t region, char path[PRESENCE_PATH_SIZE])
{
        char id[FERRY_ID_TEXT_SIZE];
        ferry_id_format("rgn_", region, id);
        presence_path(epoch, id, path);
}

static uint64_t checksum_of(const struct presence_header *header, const void *address)
{
        uint64_t head = XXH3_64bits(header, offsetof(struct presence_header, checksum));
        return XXH3_64bits_withSeed(address, (size_t)header->address_size, head);
}

static int namespace_inode(const char *path, uint64_t *ret_inode)
{
        struct stat st;
        if (stat(path, &st) < 0)
                return -errno;
        *ret_inode = st.st_ino;
        return 0;
}

/* Everything about this process that a header says. */
static int header_fill(struct presence_header *header)
{
        *header = (struct presence_header){ .version = PRESENCE_VERSION, .pid = (uint64_t)getpid() };
        memcpy(header->magic, magic, sizeof(magic));
        int r = namespace_inode("/proc/self/ns/pid", &header->pid_namespace);
        return r < 0 ? r : namespace_inode("/proc/self/ns/net", &header->net_namespace);
}

static int write_all(int fd, const void *data, size_t size)
{
        for (const char *next = data; size > 0;) {
                ssize_t n = write(fd, next, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                next += n;
                size -= (size_t)n;
        }
        return 0;
}

/* Fewer bytes than asked for mean that the file is not whole. */
static int read_all(int fd, void *data, size_t size)
{
        for (char *next = data; size > 0;) {
                ssize_t n = read(fd, next, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EBADMSG;
                next += n;
                size -= (size_t)n;
        }
        return 0;
}

/* Gives the complete and locked file its name. */
static int presence_publish(int fd, const char *path)
{
        char self[40];
        (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
        return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* The complete and locked file, without a name. Its descriptor or -errno. */
static int presence_make(uint64_t epoch, const void *address, size_t size)
{
        if (size > ADDRESS_SIZE_MAX)
                return -EMSGSIZE;
        struct presence_header header;
        int r = header_fill(&header);
        if (r < 0)
                return r;
        header.epoch = epoch;
        header.address_size = size;
        header.checksum = checksum_of(&header, address);

        FERRY_CLEANUP(cleanup_close) int fd = open(PRESENCE_DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        /* fchmod: the umask may have taken bits that a lookup insists on. */
        if (fd < 0 || fchmod(fd, 0600) < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        r = write_all(fd, &header, sizeof(header));
        if (r == 0)
                r = write_all(fd, address, size);
        if (r < 0)
                return r;
        int result = fd;
        fd = -1;
        return result;
}

int presence_new(uint64_t epoch, const void *address, size_t size, struct presence **ret_presence)
{
        FERRY_CLEANUP(cleanup_free) struct presence *presence = calloc(1, sizeof(*presence));
        if (!presence)
                return -ENOMEM;
        presence_path(epoch, NULL, presence->path);
        FERRY_CLEANUP(cleanup_close) int fd = presence_make(epoch, address, size);
        if (fd < 0)
                return fd;
        int r = presence_publish(fd, presence->path);
        if (r < 0)
                return r;
        presence->fd = fd;
        fd = -1;
        *ret_presence = FERRY_STEAL(presence);
        return 0;
}

int presence_move(struct presence *presence, uint64_t epoch, const void *address, size_t size)
{
        char next[PRESENCE_PATH_SIZE];
        presence_path(epoch, "next", next); /* a name that is reaped with the epoch's other files */
        FERRY_CLEANUP(cleanup_close) int fd = presence_make(epoch, address, size);
        if (fd < 0)
                return fd;
        int r = presence_publish(fd, next);
        if (r < 0)
                return r;
        if (rename(next, presence->path) < 0) {
                r = -errno;
                (void)unlink(next);
                return r;
        }
        (void)close(presence->fd);
        presence->fd = fd;
        fd = -1;
        return 0;
}

struct presence *presence_free(struct presence *presence)
{
        if (!presence)
                return NULL;
        (void)unlink(presence->path);
        (void)close(presence->fd);
        free(presence);
        return NULL;
}

int presence_open_file(const char *path, int flags)
{
        /* O_NONBLOCK: a FIFO of that name must not hold us. */
        FERRY_CLEANUP(cleanup_close) int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return errno == ELOOP || errno == ENXIO ? -EACCES : -errno;
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || (st.st_mode & 07777) != 0600 || st.st_uid != geteuid())
                return -EACCES;
        int result = fd;
        fd = -1;
        return result;
}

int presence_open(uint64_t epoch)
{
        char path[PRESENCE_PATH_SIZE];
        presence_path(epoch, NULL, path);
        return presence_open_file(path, O_RDONLY);
}

int presence_is_alive(int fd)
{
        if (flock(fd, LOCK_SH | LOCK_NB) == 0)
                return 0;
        return errno == EWOULDBLOCK ? 1 : -errno;
}

/* Whether the header is one of ours and of that epoch. */
static bool header_is_valid(const struct presence_header *header, uint64_t epoch)
{
        return memcmp(header->magic, magic, sizeof(magic)) == 0 && header->version == PRESENCE_VERSION &&
               header->epoch == epoch && header->pid > 0 && header->pid <= INT32_MAX &&
               header->address_size <= ADDRESS_SIZE_MAX;
}

/* Reads header and address. *ret_address is for free(), NULL when the worker has no local side. */
static int presence_read(int fd, uint64_t epoch, struct presence_header *header, void **ret_address)
{
        int r = read_all(fd, header, sizeof(*header));
        if (r < 0)
                return r;
        if (!header_is_valid(header, epoch))
                return -EBADMSG;
        FERRY_CLEANUP(cleanup_free) void *address = calloc(1, (size_t)header->address_size + 1);
        if (!address)
                return -ENOMEM;
        r = read_all(fd, address, (size_t)header->address_size);
        if (r < 0)
                return r;
        char beyond;
        if (read(fd, &beyond, 1) != 0 || checksum_of(header, address) != header->checksum)
                return -EBADMSG;
        *ret_address = FERRY_STEAL(address);
        return 0;
}

/* -EXDEV when the header's namespaces are not ours: neither its pid nor its address would mean anything here. */
static int header_check_namespaces(const struct presence_header *header)
{
        struct presence_header self;
        int r = header_fill(&self);
        if (r < 0)
                return r;
        return self.pid_namespace == header->pid_namespace && self.net_namespace == header->net_namespace ? 0 : -EXDEV;
}

int presence_lookup(uint64_t epoch, struct presence_peer *ret_peer)
{
        FERRY_CLEANUP(cleanup_close) int fd = presence_open(epoch);
        if (fd < 0)
                return fd;
        int alive = presence_is_alive(fd);
        if (alive <= 0)
                return alive < 0 ? alive : -ESRCH;
        struct presence_header header;
        FERRY_CLEANUP(cleanup_free) void *address = NULL;
        int r = presence_read(fd, epoch, &header, &address);
        if (r == 0)
                r = header_check_namespaces(&header);
        if (r < 0)
                return r;
        if (header.address_size == 0)
                return -ENOENT;
        FERRY_CLEANUP(cleanup_close) int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)header.pid, 0);
        if (pidfd < 0)
                return -errno;
        /* The pid could have been another's by then; while the owner lives, it is the owner's. */
        alive = presence_is_alive(fd);
        if (alive <= 0)
                return alive < 0 ? alive : -ESRCH;
        *ret_peer = (struct presence_peer){
                .pid = (pid_t)header.pid,
                .pidfd = pidfd,
                .address = FERRY_STEAL(address),
                .size = (size_t)header.address_size,
        };
        pidfd = -1;
        return 0;
}

void presence_peer_clear(struct presence_peer *peer)
{
        cleanup_close(&peer->pidfd);
        free(peer->address);
        *peer = (struct presence_peer){ .pidfd = -1 };
}
