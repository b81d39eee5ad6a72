/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * When UCX's library is loaded, it opens its log on standard output and installs handlers of fatal
 * signals. Its configuration comes too late for that, so both are undone here, by UCX's own functions.
 */

#define EVENTS_MAX "16384" /* sockets: 4096 links of peers and as many of our own, with a spare each */

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
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static uint64_t second, lines, left_out;
        uint64_t now = clock_now_us() / 1000000;
        bool may;

        (void)pthread_mutex_lock(&lock);
        if (now != second) {
                second = now;
                lines = 0;
        }
        may = lines++ < UCX_LOG_BURST;
        *ret_left_out = may ? left_out : 0;
        left_out = may ? 0 : left_out + 1;
        (void)pthread_mutex_unlock(&lock);
        return may;
}

static ucs_log_func_rc_t handler(const char *file, unsigned line, const char *function, ucs_log_level_t level,
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

static void setup(void)
{
        static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
        struct sigaction now;

        ucs.log_push_handler(handler);
        /* Not from 1.20 on: UCX installs no handlers by default, and warns if told to remove them. */
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(fatal); i++)
                if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler != SIG_DFL)
                        ucs.debug_disable_signal(fatal[i]);
        /* Before 1.14 UCX's default of 1,024 sockets allows only about 1,020 peers. */
        if (ucx_is_before(14) && !getenv("UCX_ASYNC_MAX_EVENTS") &&
            ucs.global_opts_set_value("ASYNC_MAX_EVENTS", EVENTS_MAX) != UCS_OK)
                log_event(LOG_DEBUG, "UCX setting unknown", LOG_S("key", "ASYNC_MAX_EVENTS"));
}

void ucx_log_setup(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, setup);
}
