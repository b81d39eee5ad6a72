/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * The checks of ferry doctor on this machine, by the files of /proc and /sys, the routes and a connection: locked
 * memory of the worker, huge pages, network interfaces, the route to a peer. All of it may be unknown, which is no
 * finding.
 */

void doctor_find(struct doctor *d, enum finding_level level, const char *fix, const char *format, ...)
{
        static const char *const names[] = { "good", "note", "bad" };
        static const char *const marks[] = { "ok  ", "note", "BAD " };
        va_list arguments;
        char *text = NULL, *remedy = fix ? strdup(fix) : NULL;
        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0)
                text = NULL;
        va_end(arguments);
        if (text)
                cli_mask_controls(text);
        if (remedy)
                cli_mask_controls(remedy);
        d->bad += level == FINDING_BAD;
        if (d->findings) {
                struct json_object *one = json_object_new_object();
                json_object_object_add(one, "level", json_object_new_string(names[level]));
                json_object_object_add(one, "finding", json_object_new_string(text ? text : ""));
                if (remedy)
                        json_object_object_add(one, "fix", json_object_new_string(remedy));
                json_object_array_add(d->findings, one);
        } else {
                printf("%s  %s\n", marks[level], text ? text : "");
                if (remedy)
                        printf("      → %s\n", remedy);
        }
        free(remedy);
        free(text);
}

enum { HOST_LINE = 256, HOST_REACH_MS = 3000, HOST_MTU = 1500 };

static const uint64_t host_memlock_enough = 64 << 20;

/* The first line of a file. */
static bool host_read(const char *path, char *line, size_t size)
{
        FILE *file = fopen(path, "re");
        bool ok = file && fgets(line, (int)size, file);
        if (file)
                (void)fclose(file);
        if (ok)
                line[strcspn(line, "\n")] = '\0';
        return ok;
}

/* ---- memory ---- */

/* The worker's soft limit; UINT64_MAX = unlimited. */
static bool host_memlock(pid_t pid, uint64_t *ret_bytes)
{
        char path[64], line[HOST_LINE], text[64];
        bool found = false;
        snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
        FILE *file = fopen(path, "re");
        while (file && !found && fgets(line, sizeof(line), file))
                found = sscanf(line, "Max locked memory %63s", text) == 1;
        if (file)
                (void)fclose(file);
        *ret_bytes = found && strcmp(text, "unlimited") != 0 ? strtoull(text, NULL, 10) : UINT64_MAX;
        return found;
}

static void host_check_memlock(struct doctor *d)
{
        struct json_object *nics = NULL;
        uint64_t bytes;
        char text[32];
        bool rdma = member_list(d->devices, "rdma", &nics) > 0;
        if (!d->pid || !host_memlock(d->pid, &bytes))
                return;
        cli_bytes_format(text, sizeof(text), (double)bytes);
        if (bytes == UINT64_MAX)
                doctor_find(d, FINDING_GOOD, NULL, "Locked memory of the worker is unlimited, as RDMA wants it.");
        else if (rdma)
                doctor_find(
                        d, bytes < host_memlock_enough ? FINDING_BAD : FINDING_NOTE,
                        "ulimit -l unlimited before ferryd; LimitMEMLOCK=infinity in its systemd unit",
                        "Locked memory of the worker is limited to %s: larger regions cannot be registered for RDMA.",
                        text);
        else
                doctor_find(d, FINDING_GOOD, NULL, "Locked memory is limited to %s, which only RDMA would need.", text);
}

/*
 * Whether the kernel has MADV_COLLAPSE for files in memory (6.1), by which the worker makes huge pages where the
 * setting says "never". "deny" forbids that, too.
 */
static bool host_collapses(void)
{
        struct utsname system;
        int major = 0, minor = 0;
        return uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
               (major > 6 || (major == 6 && minor >= 1));
}

static void host_check_huge_pages(struct doctor *d)
{
        char line[HOST_LINE];
        if (!host_read("/sys/kernel/mm/transparent_hugepage/shmem_enabled", line, sizeof(line)))
                return;
        bool off = strstr(line, "[deny]") || (strstr(line, "[never]") && !host_collapses());
        doctor_find(d, off ? FINDING_NOTE : FINDING_GOOD,
                    off ? "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root)" : NULL,
                    "Huge pages for regions: %s.", off ? "off, which makes large regions slower" : "on");
}

void doctor_memory(struct doctor *d)
{
        host_check_memlock(d);
        if (d->pid)
                host_check_huge_pages(d);
}

/* ---- interfaces ---- */

/* "mtu", or "speed" in Mb/s, as reported by the driver; 0 = unknown. */
static int host_interface_number(const char *interface, const char *name)
{
        char path[64 + IF_NAMESIZE], line[HOST_LINE];
        snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, name);
        return host_read(path, line, sizeof(line)) ? atoi(line) : 0;
}

/* Whether the interface is, by its name, one of a container network. */
static bool host_is_bridge(const char *interface)
{
        static const char *const names[] = { "docker", "cni", "br-", "virbr", "flannel", "cilium" };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(names); i++) {
                if (strncmp(interface, names[i], strlen(names[i])) == 0)
                        return true;
        }
        return false;
}

static void host_interface(struct doctor *d, const struct ifaddrs *i)
{
        char address[64] = "", fix[128], speed[32] = "";
        socklen_t size = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        int mtu = host_interface_number(i->ifa_name, "mtu");
        int megabits = host_interface_number(i->ifa_name, "speed");
        (void)getnameinfo(i->ifa_addr, size, address, sizeof(address), NULL, 0, NI_NUMERICHOST);
        if (megabits > 0)
                snprintf(speed, sizeof(speed), ", %d Mb/s", megabits);
        if (host_is_bridge(i->ifa_name)) {
                doctor_find(d, FINDING_NOTE,
                            "ferryd --data-listen ADDRESS of the right interface, or --interfaces NAME",
                            "Interface %s (%s) leads to containers of this machine only.", i->ifa_name, address);
                return;
        }
        snprintf(fix, sizeof(fix), "ip link set %s mtu 9000, where the whole network has it", i->ifa_name);
        bool small = mtu && mtu <= HOST_MTU && megabits >= 10000;
        doctor_find(d, small ? FINDING_NOTE : FINDING_GOOD, small ? fix : NULL, "Interface %s: %s, MTU %d%s.",
                    i->ifa_name, address, mtu, speed);
}

void doctor_interfaces(struct doctor *d)
{
        struct ifaddrs *all = NULL;
        size_t n = 0;
        if (!d->pid || getifaddrs(&all) < 0)
                return;
        for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
                bool up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING) && !(i->ifa_flags & IFF_LOOPBACK);
                if (!up || !i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
                        continue;
                host_interface(d, i);
                n++;
        }
        freeifaddrs(all);
        if (n == 0)
                doctor_find(d, FINDING_NOTE, "ip link set IFACE up",
                            "No network interface but loopback has an address.");
}

/* ---- the way to a peer ---- */

bool doctor_is_here(const struct ferry_worker_info *worker, const char *url)
{
        return worker->pid && worker->pid <= INT32_MAX && local_is_worker(url, (pid_t)worker->pid);
}

/* An address may stand in brackets. NULL: there is none. For freeaddrinfo(). */
static struct addrinfo *host_resolve(const char *host, const char *port, int type)
{
        struct addrinfo hints = { .ai_socktype = type }, *list = NULL;
        char plain[256];
        size_t size = strlen(host);
        bool bracketed = size > 2 && host[0] == '[' && host[size - 1] == ']';
        snprintf(plain, sizeof(plain), "%.*s", (int)(bracketed ? size - 2 : size), host + (bracketed ? 1 : 0));
        return getaddrinfo(plain, port, &hints, &list) == 0 ? list : NULL;
}

/* Finds the interface that has the address. */
static bool host_interface_of(const struct sockaddr *address, char *name, size_t size)
{
        struct ifaddrs *all = NULL;
        bool found = false;
        if (getifaddrs(&all) < 0)
                return false;
        for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
                if (!i->ifa_addr || i->ifa_addr->sa_family != address->sa_family)
                        continue;
                found = address->sa_family == AF_INET
                                ? ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr ==
                                          ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr
                                : memcmp(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr,
                                         &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16) == 0;
                if (found)
                        snprintf(name, size, "%s", i->ifa_name);
        }
        freeifaddrs(all);
        return found;
}

/* A datagram socket that is connected sends nothing: the kernel only picks the route. */
bool doctor_route(const char *host, const char *port, char *interface, size_t size, int *ret_mtu)
{
        struct addrinfo *list = host_resolve(host, port, SOCK_DGRAM);
        struct sockaddr_storage own;
        socklen_t length = sizeof(own);
        int fd = list ? socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
        bool ok = fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
                  getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
                  host_interface_of((struct sockaddr *)&own, interface, size);
        if (ok)
                *ret_mtu = host_interface_number(interface, "mtu");
        if (fd >= 0)
                close(fd);
        if (list)
                freeaddrinfo(list);
        return ok;
}

int doctor_reach(const char *host, const char *port)
{
        struct addrinfo *list = host_resolve(host, port, SOCK_STREAM);
        int error = 0;
        socklen_t size = sizeof(error);
        if (!list)
                return -EHOSTUNREACH;
        int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int r = fd < 0 || (connect(fd, list->ai_addr, list->ai_addrlen) < 0 && errno != EINPROGRESS) ? -errno : 0;
        freeaddrinfo(list);
        if (r == 0) {
                int n = poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, HOST_REACH_MS);
                r = n == 0                                                             ? -ETIMEDOUT
                    : n < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno
                                                                                       : -error;
        }
        if (fd >= 0)
                close(fd);
        return r;
}
