/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/systemd.h"
#include "base/util.h"

/*
 * A listener: an address, a Unix socket, or a socket that a service manager has passed. All are bound when the server
 * is made, and every HTTP thread accepts from each. A Unix socket has mode 0600 from its first moment, and its file is
 * unlinked at the end only if it is still the one that was made.
 *
 * Thread: the one that makes or frees the server; listener_unlink() any.
 */

/* NULL: the reason says it all. */
static const char *advice(int error)
{
        switch (error) {
        case -EADDRINUSE:
                return "another process listens there: give --listen another address";
        case -EADDRNOTAVAIL:
                return "no interface of this machine has the address";
        case -EEXIST:
                return "a file that is not a socket has this path: remove it, or use another path";
        case -ENAMETOOLONG:
                return "the path of a Unix socket has at most 107 bytes";
        case -EACCES:
                return "the user of the worker may not listen there";
        default:
                return NULL;
        }
}

/* Logs the failure. Returns the error. */
static int fail(const char *text, int error)
{
        log_event(LOG_ERROR, "HTTP listener failed", LOG_S("address", text), LOG_S("reason", strerror(-error)),
                  LOG_S("advice", advice(error)));
        return error;
}

/* Removes a socket's file that was left behind: nobody listens on it. */
static int remove_stale(const struct sockaddr_un *address)
{
        struct stat status;
        FERRY_CLEANUP(cleanup_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        if (!lstat(address->sun_path, &status) && !S_ISSOCK(status.st_mode))
                return -EEXIST;
        if (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) || errno != ECONNREFUSED)
                return -EADDRINUSE;
        (void)unlink(address->sun_path);
        return 0;
}

/* Binds a Unix socket, in place of one on which nobody listens. Returns 0 or -errno. */
static int open_local(struct http_listener *listener, const char *path)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct stat status;

        if (!*path)
                return -EINVAL;
        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, path);
        listener->local = true;
        if (asprintf(&listener->url, "unix:%s", path) < 0) {
                listener->url = NULL;
                return -ENOMEM;
        }
        listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listener->fd < 0)
                return -errno;
        /* Before bind: Linux gives the file the socket's mode, so that it is never open to others. */
        if (fchmod(listener->fd, 0600) < 0)
                return -errno;
        if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
                int error = errno == EADDRINUSE ? remove_stale(&address) : -errno;

                if (error)
                        return error;
                if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                        return -errno;
        }
        if (lstat(path, &status) < 0)
                return -errno;
        listener->path_device = status.st_dev;
        listener->path_inode = status.st_ino;
        listener->path = strdup(path);
        return listener->path ? 0 : -ENOMEM;
}

/* Binds one of the addresses of a name. Returns 0; -errno, and fd is -1. */
static int open_address(struct http_listener *listener, const struct addrinfo *info)
{
        int on = 1;

        listener->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listener->fd < 0)
                return -errno;
        (void)setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(listener->fd, info->ai_addr, info->ai_addrlen) < 0) {
                int error = -errno;
                close(listener->fd);
                listener->fd = -1;
                return error;
        }
        return 0;
}

static int resolve(const char *host, uint16_t port, struct addrinfo **ret_list)
{
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
        char service[8];

        snprintf(service, sizeof(service), "%u", port);
        switch (getaddrinfo(host, service, &hints, ret_list)) {
        case 0:
                return 0;
        case EAI_MEMORY:
                return -ENOMEM;
        case EAI_SYSTEM:
                return -errno;
        default:
                return -EADDRNOTAVAIL;
        }
}

static const char *scheme_of(const struct http_listener *listener)
{
        return listener->tls ? "https" : "http";
}

/* Sets port and URL from the bound address. */
static int name_network(struct http_listener *listener, const struct sockaddr_storage *bound)
{
        char public[ADDRESS_SIZE];

        listener->tls = listener->server->tls;
        /* sin_port is at the same offset in both families. */
        listener->port = ntohs(((const struct sockaddr_in *)bound)->sin_port);
        address_join(listener->host, listener->port, public);
        if (asprintf(&listener->url, "%s://%s", scheme_of(listener), public) < 0) {
                listener->url = NULL;
                return -ENOMEM;
        }
        listener->authority = strstr(listener->url, "://") + strlen("://");
        return 0;
}

static int open_network(struct http_listener *listener, const char *text)
{
        struct sockaddr_storage bound;
        socklen_t length = sizeof(bound);
        struct addrinfo *list;

        if (!address_split(text, listener->host, &listener->port))
                return -EINVAL;
        int error = resolve(listener->host, listener->port, &list);
        if (error)
                return error;
        error = -EADDRNOTAVAIL;
        for (const struct addrinfo *info = list; info && error; info = info->ai_next)
                error = open_address(listener, info);
        freeaddrinfo(list);
        if (error)
                return error;
        if (getsockname(listener->fd, (struct sockaddr *)&bound, &length) < 0)
                return -errno;
        return name_network(listener, &bound);
}

/* Of a socket that was passed in: its file belongs to whoever made it. */
static int name_local(struct http_listener *listener, const struct sockaddr_un *address, socklen_t size)
{
        int length = (int)(size - offsetof(struct sockaddr_un, sun_path));
        const char *path = address->sun_path;

        listener->local = true;
        if (length > 0 && !*path) /* an abstract name */
                length = asprintf(&listener->url, "unix:@%.*s", length - 1, path + 1);
        else
                length = asprintf(&listener->url, "unix:%.*s", length, path);
        if (length < 0)
                listener->url = NULL;
        return length < 0 ? -ENOMEM : 0;
}

/* Takes over a socket that was passed, which listens already. Returns 0 or -errno. */
static int open_passed(struct http_listener *listener, int fd)
{
        struct sockaddr_storage bound;
        socklen_t size;
        int error = passed_address(fd, &bound, &size);

        if (error)
                return error;
        listener->fd = fd;
        if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
                return -errno;
        if (bound.ss_family == AF_UNIX)
                return name_local(listener, (const struct sockaddr_un *)&bound, size);
        if ((bound.ss_family != AF_INET && bound.ss_family != AF_INET6) ||
            getnameinfo((const struct sockaddr *)&bound, size, listener->host, sizeof(listener->host), NULL, 0,
                        NI_NUMERICHOST))
                return -EAFNOSUPPORT;
        return name_network(listener, &bound);
}

int listener_open(struct http_listener *listener, const char *text)
{
        static const char prefix[] = "unix:";
        int passed = passed_fd(text), error;

        listener->fd = -1;
        if (passed >= 0)
                error = open_passed(listener, passed);
        else if (!strncmp(text, prefix, strlen(prefix)))
                error = open_local(listener, text + strlen(prefix));
        else
                error = open_network(listener, text);
        if (!error && passed < 0 && listen(listener->fd, SOMAXCONN) < 0)
                error = -errno;
        if (!error)
                fork_private(listener->fd);
        return error ? fail(text, error) : 0;
}

/* While the socket is open no other file can get its inode number. */
void listener_unlink(const struct http_listener *listener)
{
        struct stat status;

        if (listener->path && lstat(listener->path, &status) == 0 && status.st_dev == listener->path_device &&
            status.st_ino == listener->path_inode)
                (void)unlink(listener->path);
}

void listener_close(struct http_listener *listener)
{
        (void)fork_private_close(listener->fd);
        listener->fd = -1;
        free(FERRY_STEAL(listener->path));
        free(FERRY_STEAL(listener->url));
}

void listener_public_url(const struct http_listener *listener, const char *local_host, char *url, size_t size)
{
        const struct http_config *config = &listener->server->config;
        char bound[ADDRESS_SIZE], public[ADDRESS_SIZE];

        address_join(listener->host, listener->port, bound);
        address_publish(bound, config->advertise, local_host, public, sizeof(public));
        (void)snprintf(url, size, "%s://%s", scheme_of(listener), public);
}
