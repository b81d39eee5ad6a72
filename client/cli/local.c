/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/mapping.h>

/*
 * A worker on this machine: whether the process that a worker names is the one that listens at its URL, and its
 * regions' memory, mapped through /proc/PID/fd. Each step must fail rather than take another process's memory for a
 * region, as pids, ports and descriptors have the same numbers in other containers and on other machines.
 */

enum { LOCAL_INODES = 32 };

/* The pid in "/proc/PID/fd/N"; 0 = not such a path. */
static pid_t local_path_pid(const char *path)
{
        int pid = 0, fd = -1, end = 0;
        if (sscanf(path, "/proc/%d/fd/%d%n", &pid, &fd, &end) != 2 || path[end] || pid <= 0 || fd < 0)
                return 0;
        return pid;
}

/* ---- Unix sockets: the kernel tells the listener's pid ---- */

static bool local_listens_unix(const char *path, pid_t pid)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct ucred peer = { 0 };
        socklen_t size = sizeof(peer);
        if (strlen(path) >= sizeof(address.sun_path))
                return false;
        strcpy(address.sun_path, path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool same = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == pid;
        if (fd >= 0)
                close(fd);
        return same;
}

/* ---- TCP: the process has the listening socket open ---- */

/* Inodes of the sockets that listen at a port. Columns as in proc(5). */
static size_t local_listeners(const char *table, unsigned port, unsigned long *inodes, size_t n)
{
        FILE *file = fopen(table, "re");
        char *line = NULL;
        size_t size = 0;
        while (file && n < LOCAL_INODES && getline(&line, &size, file) > 0) {
                unsigned bound, state;
                unsigned long inode;
                if (sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*d %lu", &bound, &state,
                           &inode) == 3 &&
                    bound == port && state == 10 /* TCP_LISTEN */)
                        inodes[n++] = inode;
        }
        free(line);
        if (file)
                (void)fclose(file);
        return n;
}

/* Whether the process has one of the sockets open. The kernel lets only its user, or root, look. */
static bool local_holds(pid_t pid, const unsigned long *inodes, size_t n)
{
        char path[64], target[64];
        bool found = false;
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        DIR *directory = opendir(path);
        for (struct dirent *entry; directory && !found && (entry = readdir(directory));) {
                unsigned long inode;
                ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
                target[length > 0 ? length : 0] = '\0';
                if (sscanf(target, "socket:[%lu]", &inode) != 1)
                        continue;
                for (size_t i = 0; i < n; i++)
                        found |= inodes[i] == inode;
        }
        if (directory)
                closedir(directory);
        return found;
}

static unsigned local_port(const char *url)
{
        char host[256], port[16];
        return cli_host_port(url, host, sizeof(host), port, sizeof(port)) ? (unsigned)strtoul(port, NULL, 10) : 0;
}

bool local_is_worker(const char *url, pid_t pid)
{
        unsigned long inodes[LOCAL_INODES];
        if (strncmp(url, "unix:", 5) == 0)
                return local_listens_unix(url + 5, pid);
        unsigned port = local_port(url);
        size_t n = local_listeners("/proc/net/tcp", port, inodes, 0);
        n = local_listeners("/proc/net/tcp6", port, inodes, n);
        return n && local_holds(pid, inodes, n);
}

/* ---- regions ---- */

/*
 * A region is a memfd sealed against shrinking and growing. Its name tells it from that of another worker whose pid,
 * port and descriptor have the same numbers on another machine or in another container.
 */
static bool local_is_region(int fd, const struct ferry_region *region)
{
        char path[32], target[128], wanted[sizeof(target)];
        struct stat file;
        int seals = fcntl(fd, F_GET_SEALS), both = F_SEAL_SHRINK | F_SEAL_GROW;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        snprintf(wanted, sizeof(wanted), "/memfd:" FERRY_REGION_FILE "%s (deleted)", region->id);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        return strcmp(target, wanted) == 0 && seals >= 0 && (seals & both) == both && fstat(fd, &file) == 0 &&
               (uint64_t)file.st_size >= region->size;
}

void *local_map(const char *url, const struct ferry_region *region, bool writable)
{
        pid_t pid = local_path_pid(region->path);
        if (!pid || region->size > SIZE_MAX || !local_is_worker(url, pid))
                return NULL;
        int fd = open(region->path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        if (fd < 0)
                return NULL;
        void *map = MAP_FAILED;
        if (local_is_region(fd, region))
                map = mmap(NULL, (size_t)region->size, PROT_READ | (writable ? PROT_WRITE : 0),
                           MAP_SHARED | MAP_POPULATE, fd, 0);
        close(fd);
        return map == MAP_FAILED ? NULL : map;
}

/* ---- files in memory ---- */

enum {
        MAPPING_MIN = 8 * FERRY_HUGE_PAGE,
        MAPPING_PIECE = 64 * FERRY_HUGE_PAGE, /* bytes between two checks for signals */
};

/*
 * Has all pages made now, as huge pages where the size allows. false: a signal came, memory or the file system's space
 * is short, or there are no huge pages.
 */
static bool mapping_fill(char *map, size_t size)
{
        for (size_t done = 0, piece; done < size; done += piece) {
                piece = size - done < MAPPING_PIECE ? size - done : MAPPING_PIECE;
                if (signals_caught() || !ferry_map_huge(map + done, piece / FERRY_HUGE_PAGE * FERRY_HUGE_PAGE) ||
                    madvise(map + done, piece, MADV_POPULATE_WRITE) < 0)
                        return false;
        }
        return true;
}

void *mapping_new(int fd, size_t size)
{
        struct statfs system;
        void *map;
        if (size < MAPPING_MIN || fstatfs(fd, &system) < 0 || system.f_type != TMPFS_MAGIC ||
            ftruncate(fd, (off_t)size) < 0 || ferry_map(fd, size, &map) < 0)
                return NULL;
        if (mapping_fill(map, size))
                return map;
        munmap(map, size);
        return NULL;
}
