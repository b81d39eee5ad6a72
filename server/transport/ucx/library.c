/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * UCX is loaded when the network transport is asked for, and stays. A worker without it needs no UCX, and is not
 * exposed to what UCX's constructors do to a process: they open a log, install handlers of signals, and, with a host
 * name of 64 characters, abort.
 */

#define LIBRARY "libucp.so.0" /* the same for every UCX 1.x */

struct ucp_functions ucp;
struct ucs_functions ucs;

/* Guards what follows. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *library;               /* NULL = not loaded */
static unsigned library_generation; /* of base/fork.h: the process that has loaded it */

/* Fills in both tables. Returns the name of a function that the library lacks, or NULL. */
static const char *find_functions(void *handle)
{
#define FIND(table, prefix, name)                                                                                      \
        if (!(*(void **)&(table).name = dlsym(handle, #prefix "_" #name)))                                             \
                return #prefix "_" #name;
#define FIND_UCP(name) FIND(ucp, ucp, name)
#define FIND_UCS(name) FIND(ucs, ucs, name)
        UCP_FUNCTIONS(FIND_UCP)
        UCS_FUNCTIONS(FIND_UCS)
        return NULL;
}

/*
 * UCX copies the host name, whose terminator its buffer of HOST_NAME_MAX bytes leaves no room for, when it is loaded.
 * Nothing tells the version of a library that is not loaded, and no release is known to be free of this.
 */
static bool host_name_is_too_long(void)
{
        char name[HOST_NAME_MAX + 1] = "";

        return gethostname(name, sizeof(name)) < 0 || strlen(name) >= HOST_NAME_MAX;
}

static int load(char *detail)
{
        const char *missing;
        void *handle;

        if (host_name_is_too_long()) {
                (void)snprintf(detail, TRANSPORT_REASON_SIZE,
                               "the network transport (--data-listen) cannot be used on a host whose name has %d "
                               "characters: UCX would abort the process. Give the host or the container a shorter name",
                               HOST_NAME_MAX);
                return -ENOTSUP;
        }
        handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
                (void)snprintf(detail, TRANSPORT_REASON_SIZE,
                               "the network transport (--data-listen) needs UCX, which cannot be loaded: %.160s. "
                               "Install the package libucx0 (Debian, Ubuntu), ucx (Fedora), openucx (Arch) or libucp0 "
                               "(openSUSE)",
                               dlerror());
                return -ENOTSUP;
        }
        missing = find_functions(handle);
        if (missing) {
                (void)snprintf(detail, TRANSPORT_REASON_SIZE,
                               "the network transport (--data-listen) needs UCX 1.12 or newer: %s is missing in %s",
                               missing, LIBRARY);
                (void)dlclose(handle);
                return -ENOTSUP;
        }
        library_generation = fork_generation();
        library = handle;
        return 0;
}

/* UCX's thread, and what it knows of its descriptors, are lost in a forked child. */
static int check_fork(char *detail)
{
        if (library_generation == fork_generation())
                return 0;
        (void)snprintf(detail, TRANSPORT_REASON_SIZE,
                       "the network transport (--data-listen) cannot be opened in a process that was forked after its "
                       "parent had opened one: UCX does not survive a fork()");
        return -ENOTSUP;
}

int ucx_library_load(char *detail)
{
        char reason[TRANSPORT_REASON_SIZE];
        int r;

        (void)pthread_mutex_lock(&lock);
        r = library ? check_fork(reason) : load(reason);
        (void)pthread_mutex_unlock(&lock);
        if (r < 0) {
                log_event(LOG_ERROR, "network transport not opened", LOG_S("reason", reason));
                if (detail)
                        memcpy(detail, reason, sizeof(reason));
        }
        return r;
}

void *ucx_library_find(const char *name)
{
        return dlsym(library, name);
}

/* ---- version ---- */

void ucx_version(char *text, size_t size)
{
        unsigned major, minor, release;

        ucp.get_version(&major, &minor, &release);
        (void)snprintf(text, size, "%u.%u.%u", major, minor, release);
}

bool ucx_is_before(unsigned minor)
{
        unsigned major, its_minor, release;

        ucp.get_version(&major, &its_minor, &release);
        return major == 1 && its_minor < minor;
}

/* ---- errors ---- */

int ucx_errno(ucs_status_t status)
{
        switch (status) {
        case UCS_ERR_NO_MEMORY:
                return -ENOMEM;
        case UCS_ERR_NO_DEVICE:
        case UCS_ERR_UNSUPPORTED:
                return -ENODEV;
        case UCS_ERR_BUSY:
                return -EADDRINUSE;
        case UCS_ERR_INVALID_ADDR:
        case UCS_ERR_UNREACHABLE:
                return -EADDRNOTAVAIL;
        case UCS_ERR_INVALID_PARAM:
                return -EINVAL;
        default:
                return -EIO;
        }
}
