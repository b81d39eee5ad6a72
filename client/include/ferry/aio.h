/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_AIO_H
#define FERRY_AIO_H

#include <ferry/ferry.h>

/*
 * ferry_aio: many operations at once from one thread, beside whatever else its event loop does
 *
 * ferry_aio_fd() becomes readable when ferry_aio_dispatch() has something to do: put it into poll, epoll, libuv or
 * asyncio. Each call starts a request and returns at once; its callback runs inside ferry_aio_dispatch() or
 * ferry_aio_free(), exactly once, and may start further calls. Results, retries and time limits are those of the call's
 * namesake in <ferry/ferry.h>.
 *
 * Threads: one at a time uses a set. The handle is only read from: it may make calls of its own, or be freed.
 */

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct ferry_aio;

/* How a call ended. Valid during the callback. */
struct ferry_aio_result {
        int result;                                    /* 0; FERRY_E_*; -errno */
        const struct ferry_problem *problem;           /* as ferry_last_problem(); never NULL */
        const char *message;                           /* as ferry_last_message(); never NULL */
        const struct ferry_operation *operation;       /* NULL = none came */
        const struct ferry_operation_results *results; /* of a call about several; NULL = none came */
        uint64_t reserved[4];
};

/* Takes the result of one call. Must not free the set. */
typedef void (*ferry_aio_done)(void *context, const struct ferry_aio_result *result);

/*
 * Makes an empty set for the worker of a handle. The calls below start a request each.
 * Errors: -ENOMEM; -EMFILE, -ENFILE: no descriptor is left. Of the calls below: -EINVAL, -ENOTSUP: the arguments;
 * -ENOMEM; -ECANCELED: inside ferry_aio_free(); -ECHILD: in a process that was forked after the set was made.
 */
int ferry_aio_new(struct ferry *f, struct ferry_aio **ret_aio);

/*
 * Frees a set and cancels its pending calls: each callback gets -ECANCELED, and so does a call that it tries to start.
 * Accepts NULL; returns NULL. Not inside a callback. Without effect in a process that was forked after the set was
 * made.
 */
struct ferry_aio *ferry_aio_free(struct ferry_aio *aio);

/* Returns a descriptor to wait for (readable); it belongs to the set. */
int ferry_aio_fd(const struct ferry_aio *aio);

/* Returns how many calls have not called back yet. */
size_t ferry_aio_pending(const struct ferry_aio *aio);

/*
 * Waits up to timeout_ms (0 = not, -1 = without limit) until a call can proceed, and advances the calls. Not inside a
 * callback. Returns the number of callbacks that ran.
 * Errors: -ENOMEM; -ECHILD: in a process that was forked after the set was made; the errors of epoll_wait(2).
 */
int ferry_aio_dispatch(struct ferry_aio *aio, int timeout_ms);

/*
 * Starts ferry_create_operation().
 * Errors: -EINVAL, -ENOTSUP, -ENOMEM, -ECANCELED, -ECHILD: as ferry_aio_new() says, and done is not called.
 */
int ferry_aio_create_operation(struct ferry_aio *aio, const struct ferry_operation_spec *spec, ferry_aio_done done,
                               void *context);

/*
 * Starts ferry_wait_operation().
 * Errors: -EINVAL, -ENOTSUP, -ENOMEM, -ECANCELED, -ECHILD: as ferry_aio_new() says, and done is not called.
 */
int ferry_aio_wait_operation(struct ferry_aio *aio, const char *id, uint64_t timeout_ms, ferry_aio_done done,
                             void *context);

/*
 * Starts ferry_create_operations().
 * Errors: -EINVAL, -ENOTSUP, -ENOMEM, -ECANCELED, -ECHILD: as ferry_aio_new() says, and done is not called.
 */
int ferry_aio_create_operations(struct ferry_aio *aio, const struct ferry_operation_spec *specs, size_t n,
                                ferry_aio_done done, void *context);

/*
 * Starts ferry_wait_operations().
 * Errors: -EINVAL, -ENOTSUP, -ENOMEM, -ECANCELED, -ECHILD: as ferry_aio_new() says, and done is not called.
 */
int ferry_aio_wait_operations(struct ferry_aio *aio, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                              uint64_t timeout_ms, ferry_aio_done done, void *context);

/*
 * Starts ferry_cancel_operation().
 * Errors: -EINVAL, -ENOTSUP, -ENOMEM, -ECANCELED, -ECHILD: as ferry_aio_new() says, and done is not called.
 */
int ferry_aio_cancel_operation(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context);

/*
 * Starts ferry_delete_operation().
 * Errors: -EINVAL, -ENOTSUP, -ENOMEM, -ECANCELED, -ECHILD: as ferry_aio_new() says, and done is not called.
 */
int ferry_aio_delete_operation(struct ferry_aio *aio, const char *id, ferry_aio_done done, void *context);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
