/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/timerfd.h>
#include <utlist.h>

#include <ferry/clock.h>

#include "aio_internal.h"

enum { AIO_FOREVER = INT32_MAX /* ms */ };

void aio_arm(struct ferry_aio *aio, uint64_t due)
{
        uint64_t now = ferry_clock_ms();
        struct itimerspec when = { 0 };
        if (due != AIO_NEVER) {
                uint64_t left = due > now ? due - now : 0;
                left = left < AIO_FOREVER ? left : AIO_FOREVER;
                when.it_value.tv_sec = (time_t)(left / 1000);
                when.it_value.tv_nsec = left ? (long)(left % 1000) * 1000000 : 1;
        }
        (void)timerfd_settime(aio->timer, 0, &when, NULL); /* cannot fail with what is given here */
}

void aio_set_timer(struct ferry_aio *aio)
{
        uint64_t due = aio->curl_due_ms;
        struct aio_call *c;
        DL_FOREACH (aio->calls, c) {
                uint64_t one = c->running ? http_try_deadline(&c->http_try) : c->due_ms;
                due = one < due ? one : due;
        }
        aio_arm(aio, due);
}
