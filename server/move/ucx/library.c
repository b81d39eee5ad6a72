/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "ucx_internal.h"
#include "ucx_library.h"

/*
 * UCX is loaded when the network transport is asked for, and stays. A worker without it needs no UCX, and is not
 * exposed to what UCX's constructors do to a process: they open a log, install handlers of signals, and, with a host
 * name of 64 characters, abort.
 *
 * UCX_LIBRARY is meson's option ucx_library: libucp.so.0, which every UCX 1.x has, or the UCX that a wheel brings under
 * a name of its own, so that another UCX in the process is not taken for it.
 */

struct ucp_functions ucp;
struct ucs_functions ucs;

/* Guards what follows. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *library;               /* NULL = not loaded */
static unsigned library_generation; /* of base/fork.h: the process that has loaded it */

/* ---- its log ---- */

/* UCX logs a peer's death as an error; Ferry's own lines say whose fault it is. */
static enum log_level level_of(ucs_log_level_t level)
{
        switch (level) {
        case UCS_LOG_LEVEL_FATAL:
                return LOG_ERROR;
        case UCS_LOG_LEVEL_ERROR:
        case UCS_LOG_LEVEL_WARN:
                return LOG_INFO;
        default:
                return LOG_DEBUG;
        }
}

/* Limits the rate: UCX repeats some lines without end, for example when memory cannot be locked. Any thread. */
static bool may_log(uint64_t *ret_left_out)
{
        static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;
        static uint64_t second, lines, left_out;
        uint64_t now = clock_now_us() / 1000000;
        bool may;

        (void)pthread_mutex_lock(&rate_lock);
        if (now != second) {
                second = now;
                lines = 0;
        }
        may = lines++ < UCX_LOG_BURST;
        *ret_left_out = may ? left_out : 0;
        left_out = may ? 0 : left_out + 1;
        (void)pthread_mutex_unlock(&rate_lock);
        return may;
}

static ucs_log_func_rc_t log_line(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *format, va_list arguments)
{
        char text[512];
        uint64_t left_out = 0;

        if (!log_enabled(level_of(level)) ||
            ((level == UCS_LOG_LEVEL_ERROR || level == UCS_LOG_LEVEL_WARN) && !may_log(&left_out)))
                return UCS_LOG_FUNC_RC_STOP;
        if (left_out)
                log_event(LOG_INFO, "lines of the UCX log left out", LOG_U("lines", left_out));
        (void)vsnprintf(text, sizeof(text), format, arguments);
        log_event(level_of(level), "ucx", LOG_S("text", text), LOG_S("function", function));
        return UCS_LOG_FUNC_RC_STOP;
}

/* ---- loading ---- */

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
 * UCX copies the host name into a buffer of HOST_NAME_MAX bytes when it is loaded: a name of 64 characters leaves no
 * room for its terminator, and the process aborts.
 */
static bool would_abort(void)
{
        char name[HOST_NAME_MAX + 1] = "";

        return gethostname(name, sizeof(name)) < 0 || strlen(name) >= HOST_NAME_MAX;
}

static int load(char *detail)
{
        const char *missing;
        void *handle;

        if (would_abort()) {
                (void)snprintf(detail, TRANSPORT_REASON_SIZE,
                               "the network transport (--data-listen) cannot be used on a host whose name has %d "
                               "characters: UCX would abort the process. Give the host or the container a shorter name",
                               HOST_NAME_MAX);
                return -ENOTSUP;
        }
        handle = dlopen(UCX_LIBRARY, RTLD_NOW | RTLD_LOCAL);
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
                               missing, UCX_LIBRARY);
                (void)dlclose(handle);
                return -ENOTSUP;
        }
        ucs.log_push_handler(log_line); /* its log is on standard output, and its configuration would come too late */
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
