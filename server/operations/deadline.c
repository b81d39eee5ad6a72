/* SPDX-License-Identifier: Apache-2.0 */
#include "operations_internal.h"

/*
 * One timer per operation, armed for the earliest of its deadlines. Progress and renewal do not move it, so it may fire
 * early; the callback then arms it again.
 */

uint64_t deadline_after(uint64_t now_us, uint64_t ms)
{
        uint64_t us;

        if (__builtin_mul_overflow(ms, UINT64_C(1000), &us) || __builtin_add_overflow(now_us, us, &us))
                return OPERATION_NEVER;
        return us;
}

/* When a running transfer has stalled: counted from the last byte that moved. */
static uint64_t deadline_stall(const struct operation *operation)
{
        uint64_t stall_ms = operation->store->config.limits.stall_ms;

        return operation->n_active && stall_ms ? deadline_after(atomic_load(&operation->moved_us), stall_ms)
                                               : OPERATION_NEVER;
}

/* When the timeout of an active operation is over: counted from its creation. */
static uint64_t deadline_timeout(const struct operation *operation)
{
        return operation->timeout_ms ? deadline_after(operation->created_us, operation->timeout_ms) : OPERATION_NEVER;
}

/* A claimed operation does not expire under its reader. */
static uint64_t deadline_expiry(const struct operation *operation)
{
        return ferry_kind_is_passive((int)operation->kind) && !operation->n_active ? operation->expires_us
                                                                                   : OPERATION_NEVER;
}

static uint64_t deadline_next(const struct operation *operation)
{
        uint64_t next = deadline_stall(operation), other = deadline_timeout(operation);

        if (other < next)
                next = other;
        other = deadline_expiry(operation);
        return other < next ? other : next;
}

void deadline_disarm(struct operation *operation)
{
        operation->armed_us = 0;
        if (loop_timer_stop(operation->store->config.loop, &operation->timer))
                (void)operation_unref(operation);
}

/* The timer owns a reference. Returned by whoever stops it: deadline_disarm(), or the callback when it runs. */
int deadline_arm(struct operation *operation)
{
        uint64_t next = deadline_next(operation);
        int r;

        if (operation->store->stage == STORE_CLOSED || next == OPERATION_NEVER ||
            (operation->armed_us && operation->armed_us <= next))
                return 0;
        r = loop_timer_start(operation->store->config.loop, &operation->timer, next);
        if (r < 0)
                return r;
        if (r == 0) /* of the callback, which waits for the lock */
                (void)operation_ref(operation);
        operation->armed_us = next;
        return 0;
}

void deadline_expire_after(struct operation *operation, uint64_t ttl_ms)
{
        operation->ttl_ms = ttl_ms;
        operation->expires_us = deadline_after(clock_now_us(), ttl_ms);
        operation->expires_unix_ms = clock_unix_ms() + ttl_ms;
}

int deadline_passed(const struct operation *operation, uint64_t now_us)
{
        if (deadline_timeout(operation) <= now_us)
                return FERRY_E_TIMEOUT;
        if (deadline_expiry(operation) <= now_us)
                return FERRY_E_EXPIRED;
        return deadline_stall(operation) <= now_us ? FERRY_E_STALLED : 0;
}
