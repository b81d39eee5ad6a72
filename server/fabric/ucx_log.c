/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucs/config/global_opts.h>
#include <ucs/config/types.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

/*
 * UCX writes its log to standard output and installs handlers of fatal signals when its library is loaded, before main:
 * its configuration comes too late, so both are taken away here by its own functions.
 */

#define EVENTS_MAX "16384" /* for FABRIC_ACCEPTED_MAX endpoints of peers, and as many of our own, with a spare each */

/* UCX calls a peer's death an error of its own; whose fault it is, our own lines say. */
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

static ucs_log_func_rc_t handler(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                 const ucs_log_component_config_t *component, const char *format, va_list arguments)
{
        char text[512];

        if (log_enabled(level_of(level))) {
                (void)vsnprintf(text, sizeof(text), format, arguments);
                log_event(level_of(level), "ucx", LOG_S("text", text), LOG_S("function", function));
        }
        return UCS_LOG_FUNC_RC_STOP;
}

static void setup(void)
{
        static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };

        ucs_log_push_handler(handler);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(fatal); i++)
                ucs_debug_disable_signal(fatal[i]);
        /* Sockets of a process: with UCX's default of 1024, about the 1,020th peer cannot be connected. From 1.14 on
           there is no such limit. */
        if (ucx_is_before(14) && !getenv("UCX_ASYNC_MAX_EVENTS") &&
            ucs_global_opts_set_value("ASYNC_MAX_EVENTS", EVENTS_MAX) != UCS_OK)
                log_event(LOG_DEBUG, "UCX does not know a setting", LOG_S("key", "ASYNC_MAX_EVENTS"));
}

void ucx_log_setup(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, setup);
}
