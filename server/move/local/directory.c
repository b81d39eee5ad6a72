/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

/*
 * The directory of sockets: where it is, whether it is safe, and the sockets in it. It belongs to the user and has mode
 * 0700, so no other user's process can be in it; names and paths never come from a request. A worker's socket is made
 * under another name and renamed once it listens, so that a peer that finds it can connect. Sockets of dead workers are
 * removed by whoever finds that nobody listens.
 *
 * Thread: the progress thread; directory_abandon() any. Lock: a leaf, one for all directories of the process.
 */

enum { SWEEP_MAX = 256 /* sockets to check at most */ };

/* Between directory_abandon and the progress thread. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Writes the name of a worker's socket: its epoch in 16 hex digits and a suffix. */
static void name_of(uint64_t epoch, const char *suffix, char name[DIRECTORY_NAME_SIZE])
{
        (void)snprintf(name, DIRECTORY_NAME_SIZE, "%016llx.%s", (unsigned long long)epoch, suffix);
}

/* ---- the directory ---- */

/* After su or sudo, and in a container, the variable may name a directory of another user, or none. */
static bool is_own_directory(const char *path)
{
        struct stat st;

        return path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/*
 * Writes the directory for "auto". /run/user/UID is what XDG_RUNTIME_DIR names in a session of systemd: workers outside
 * of one find the same. In /tmp any user can make the directory first, and so keep the worker from starting. Returns
 * the length, as snprintf() does.
 */
static int default_path(char text[LOCAL_PATH_SIZE])
{
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        char user[32];
        int n;

        (void)snprintf(user, sizeof(user), "/run/user/%lu", (unsigned long)geteuid());
        if (runtime && is_own_directory(runtime))
                return snprintf(text, LOCAL_PATH_SIZE, "%s/ferry", runtime);
        if (is_own_directory(user))
                n = snprintf(text, LOCAL_PATH_SIZE, "%s/ferry", user);
        else
                n = snprintf(text, LOCAL_PATH_SIZE, "/tmp/ferry-%lu", (unsigned long)geteuid());
        if (runtime && runtime[0])
                log_event(LOG_INFO, "XDG_RUNTIME_DIR ignored", LOG_S("reason", "not a directory of this user"),
                          LOG_S("directory", text));
        return n;
}

/* Writes the path that --local means. Returns 0 or -ENAMETOOLONG. */
static int path_of(const char *path, char text[LOCAL_PATH_SIZE])
{
        int n = strcmp(path, "auto") == 0 ? default_path(text) : snprintf(text, LOCAL_PATH_SIZE, "%s", path);

        /* With a slash at its end a symbolic link would be followed. */
        while (n > 1 && n < LOCAL_PATH_SIZE && text[n - 1] == '/')
                text[--n] = '\0';
        return n > 0 && n < LOCAL_PATH_SIZE ? 0 : -ENAMETOOLONG;
}

static const char read_only_advice[] = "mount a writable directory there, or --local off";

/* Logs a reason once, not at each retry. Returns the error. */
static int refuse(struct directory *directory, int error, const char *advice)
{
        if (error != directory->refused)
                log_event(LOG_ERROR, "--local directory not usable", LOG_S("directory", directory->path),
                          LOG_S("reason", strerror(-error)), LOG_S("advice", advice));
        directory->refused = error;
        return error;
}

/* Whether the directory is this user's alone and writable. Returns 0, or -errno with the reason logged. */
static int check(struct directory *directory, int fd)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return refuse(directory, -errno, "name another one");
        if (st.st_uid != geteuid())
                return refuse(directory, -EACCES, "another user owns it: name a directory of your own with --local");
        if (st.st_mode & 077)
                return refuse(directory, -EPERM, "other users can access it: chmod 0700");
        if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
                return refuse(directory, -errno,
                              errno == EROFS ? read_only_advice
                                             : "it is not writable: chmod 0700, or use another directory");
        return 0;
}

int directory_open(struct directory *directory, const char *path)
{
        int r = path_of(path, directory->path);

        if (r < 0)
                return refuse(directory, r, "use a directory with a shorter path");
        return directory_reopen(directory);
}

/* Replaces the descriptor; -1 = none. */
static void set_descriptor(struct directory *directory, int fd)
{
        pthread_mutex_lock(&lock);
        cleanup_close(&directory->fd);
        directory->fd = fd;
        pthread_mutex_unlock(&lock);
}

int directory_reopen(struct directory *directory)
{
        int r;

        directory_close(directory);
        if (mkdir(directory->path, 0700) < 0 && errno != EEXIST)
                return refuse(directory, -errno,
                              errno == EROFS ? read_only_advice : "create it with mode 0700, or use another directory");
        FERRY_CLEANUP(cleanup_close) int fd = open(directory->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return refuse(directory, -errno,
                              errno == ENOTDIR || errno == ELOOP ? "it is a symbolic link or not a directory: remove it"
                                                                 : "chmod 0700, or name another one");
        r = check(directory, fd);
        if (r == 0)
                set_descriptor(directory, steal_fd(&fd));
        return r;
}

void directory_close(struct directory *directory)
{
        set_descriptor(directory, -1);
}

/* ---- sockets ---- */

/* Uses the directory's descriptor where the path is relative, or too long for a socket address. */
static int address_of(const struct directory *directory, const char *name, struct sockaddr_un *address)
{
        int n;

        *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
        n = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s", directory->path, name);
        if (n >= (int)sizeof(address->sun_path) || directory->path[0] != '/')
                n = snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s", directory->fd, name);
        return n > 0 && n < (int)sizeof(address->sun_path) ? 0 : -ENAMETOOLONG;
}

static int socket_new(void)
{
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        return fd < 0 ? -errno : fd;
}

/*
 * Binds a socket under the early name, listens, and renames it. Returns 0; -ENOENT: a worker that started meanwhile
 * took the early name for that of a dead one (directory_sweep), so the caller tries again; other -errno.
 */
static int listen_as(const struct directory *directory, int fd, const char *early, const char *name)
{
        struct sockaddr_un address;
        int r = address_of(directory, early, &address);

        if (r < 0)
                return r;
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        if (fchmodat(directory->fd, early, 0600, 0) < 0 || listen(fd, SOMAXCONN) < 0 ||
            renameat(directory->fd, early, directory->fd, name) < 0) {
                r = -errno;
                (void)unlinkat(directory->fd, early, 0);
        }
        return r;
}

/* Removes this worker's socket, if there is one. The lock is held. */
static void unlink_socket(struct directory *directory)
{
        if (directory->name[0] != '\0')
                (void)unlinkat(directory->fd, directory->name, 0);
        directory->name[0] = '\0';
}

int directory_listen(struct directory *directory, uint64_t epoch)
{
        enum { TRIES = 16 };
        char early[DIRECTORY_NAME_SIZE], name[DIRECTORY_NAME_SIZE];
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        int r = -ENOENT;

        name_of(epoch, "new", early);
        name_of(epoch, "sock", name);
        for (int i = 0; i < TRIES && r == -ENOENT; i++) {
                cleanup_close(&fd);
                r = fd = socket_new();
                if (r >= 0)
                        r = listen_as(directory, fd, early, name);
        }
        if (r < 0)
                return refuse(directory, r, "make room in it, or use another directory");
        directory->refused = 0;
        pthread_mutex_lock(&lock);
        memcpy(directory->name, name, sizeof(name));
        if (directory->abandoned)
                unlink_socket(directory);
        pthread_mutex_unlock(&lock);
        return steal_fd(&fd);
}

bool directory_lost_socket(const struct directory *directory)
{
        bool lost;

        pthread_mutex_lock(&lock);
        lost = !directory->abandoned && faccessat(directory->fd, directory->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
        pthread_mutex_unlock(&lock);
        return lost;
}

/* The removal of the name is a change of the socket's attributes: the inode stays while it is bound. */
int directory_watch_socket(const struct directory *directory)
{
        FERRY_CLEANUP(cleanup_close) int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        char name[DIRECTORY_NAME_SIZE + 32];

        (void)snprintf(name, sizeof(name), "/proc/self/fd/%d/%s", directory->fd, directory->name);
        if (fd < 0 || inotify_add_watch(fd, name, IN_ATTRIB | IN_MOVE_SELF) < 0)
                return -errno;
        return steal_fd(&fd);
}

void directory_unlink(struct directory *directory)
{
        pthread_mutex_lock(&lock);
        unlink_socket(directory);
        pthread_mutex_unlock(&lock);
}

void directory_abandon(struct directory *directory)
{
        pthread_mutex_lock(&lock);
        directory->abandoned = true;
        unlink_socket(directory);
        pthread_mutex_unlock(&lock);
}

/* Unlinks a socket whose owner is dead: no other worker listens under an epoch's name. */
static void reap(const struct directory *directory, const char *name)
{
        struct stat st;

        if (fstatat(directory->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
            st.st_uid == geteuid())
                (void)unlinkat(directory->fd, name, 0);
}

bool socket_is_ours(int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* Returns the descriptor or -errno. */
static int connect_to(const struct directory *directory, const char *name)
{
        FERRY_CLEANUP(cleanup_close) int fd = socket_new();
        struct sockaddr_un address;
        int r = fd < 0 ? fd : address_of(directory, name, &address);

        if (r < 0)
                return r;
        while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                if (errno != EINTR)
                        return -errno;
        if (!socket_is_ours(fd))
                return -EACCES;
        return steal_fd(&fd);
}

int directory_connect(const struct directory *directory, uint64_t epoch)
{
        char name[DIRECTORY_NAME_SIZE];
        int r;

        name_of(epoch, "sock", name);
        r = connect_to(directory, name);
        if (r != -ECONNREFUSED)
                return r;
        reap(directory, name);
        return -ENOENT;
}

static bool is_name(const char *name, const char *suffix)
{
        return strspn(name, "0123456789abcdef") == 16 && strcmp(name + 16, suffix) == 0;
}

void directory_sweep(const struct directory *directory)
{
        int fd = openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *entries = fd < 0 ? NULL : fdopendir(fd);
        const struct dirent *entry;

        if (!entries) {
                cleanup_close(&fd);
                return;
        }
        for (int n = 0; n < SWEEP_MAX && (entry = readdir(entries));) {
                if (!is_name(entry->d_name, ".sock") && !is_name(entry->d_name, ".new"))
                        continue;
                n++;
                FERRY_CLEANUP(cleanup_close) int r = connect_to(directory, entry->d_name);
                if (r == -ECONNREFUSED)
                        reap(directory, entry->d_name);
        }
        (void)closedir(entries);
}
