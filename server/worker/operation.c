/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "peers/peers.h"

/*
 * Operations of programs: a handle keeps a reference to an operation of the store, and the texts that getters have
 * returned. It may outlive the worker, which ends the operation first: an operation that has ended has no metadata to
 * make, so worker is not followed any more.
 *
 * Contract: ferry/worker.h. Thread: any. Lock: the handle's, which guards the texts, not the operation; it comes before
 * the store's. Callbacks of waiters run with no lock held.
 */

/* ---- making ---- */

static void cleanup_handle(struct ferry_worker_operation **handle)
{
        *handle = ferry_worker_operation_free(*handle);
}

static void cleanup_metadata(struct ferry_metadata **metadata)
{
        *metadata = ferry_metadata_free(*metadata);
}

/* On failure the error is told (worker_fail). */
static int handle_new(struct ferry_worker *worker, const struct operation_spec *spec,
                      struct ferry_worker_operation **ret_handle)
{
        FERRY_CLEANUP(cleanup_handle) struct ferry_worker_operation *handle = calloc(1, sizeof(*handle));
        char detail[OPERATION_DETAIL_SIZE];
        struct operation_view view;
        int r;

        if (!handle)
                return worker_fail(-ENOMEM, NULL);
        handle->generation = worker->generation;
        handle->worker = worker;
        handle->store = worker->operations;
        (void)pthread_mutex_init(&handle->lock, NULL);
        r = operation_create(worker->operations, spec, &handle->operation, detail);
        if (r)
                return worker_fail(r, *detail ? "%s" : NULL, detail);
        operation_get_view(handle->store, handle->operation, &view);
        ferry_id_format("op_", view.id, handle->id);
        *ret_handle = FERRY_STEAL(handle);
        return 0;
}

/* Deletes the operation of a call that fails. */
static int unmake(struct ferry_worker_operation *handle, int error, const char *detail)
{
        operation_delete(handle->store, handle->operation);
        return worker_fail(error, *detail ? "%s" : NULL, detail);
}

/* Decodes a peer's metadata. Returns 0 or FERRY_E_*, set by worker_fail. */
static int decode(const char *text, struct ferry_metadata **ret_metadata)
{
        struct ferry_json_errors errors = { 0 };
        int r = ferry_metadata_decode(text, strlen(text), "", ret_metadata, &errors);

        if (r <= 0)
                return r ? worker_fail(r, NULL) : 0;
        return worker_fail(r, "The peer's metadata is not valid: %s %s", errors.items[0].pointer,
                           errors.items[0].detail);
}

/*
 * Creates an active operation and begins it. Checks first, so that nothing is created for a request that is refused.
 * This thread may carry the transfer for a moment, since a program often waits for its end next.
 */
static int create_with_metadata(struct ferry_worker *worker, const struct operation_spec *spec, const char *text,
                                struct ferry_worker_operation **ret_handle)
{
        FERRY_CLEANUP(cleanup_metadata) struct ferry_metadata *metadata = NULL;
        FERRY_CLEANUP(cleanup_handle) struct ferry_worker_operation *handle = NULL;
        char detail[OPERATION_DETAIL_SIZE] = "";
        int r;

        r = decode(text, &metadata);
        if (r)
                return r;
        r = operation_check(worker->operations, spec, metadata, detail);
        if (r)
                return worker_fail(r, *detail ? "%s" : NULL, detail);
        r = handle_new(worker, spec, &handle);
        if (r)
                return r;
        r = operation_begin(worker->operations, handle->operation, metadata, true, detail);
        if (r)
                return unmake(handle, r, detail);
        *ret_handle = FERRY_STEAL(handle);
        return 0;
}

/* Creates an active operation, which begins once libcurl's thread has fetched the metadata. */
static int create_with_url(struct ferry_worker *worker, const struct operation_spec *spec, const char *url,
                           struct ferry_worker_operation **ret_handle)
{
        FERRY_CLEANUP(cleanup_handle) struct ferry_worker_operation *handle = NULL;
        char detail[OPERATION_DETAIL_SIZE] = "";
        int r;

        r = handle_new(worker, spec, &handle);
        if (r)
                return r;
        r = remote_begin(worker->operations, worker->peers, handle->operation, url, detail, sizeof(detail));
        if (r)
                return unmake(handle, r, detail);
        *ret_handle = FERRY_STEAL(handle);
        return 0;
}

/* Chooses by the request's kind and by what remote is: metadata, or a URL of them. */
static int create(struct ferry_worker *worker, const struct operation_spec *spec, const char *remote,
                  struct ferry_worker_operation **ret_handle)
{
        const char *kind = ferry_kind_name((int)spec->kind);

        if (ferry_kind_is_passive((int)spec->kind) != !remote)
                return worker_fail(FERRY_E_INVALID_PARAMETER,
                                   remote ? "A %s operation takes no metadata of a peer"
                                          : "A %s operation needs the metadata of its peer, or its URL",
                                   kind);
        if (remote)
                return strncmp(remote, "http", 4) == 0 || strncmp(remote, "ferry:", 6) == 0
                               ? create_with_url(worker, spec, remote, ret_handle)
                               : create_with_metadata(worker, spec, remote, ret_handle);
        return handle_new(worker, spec, ret_handle);
}

int ferry_worker_operation_create(struct ferry_worker *worker, const struct ferry_worker_request *request,
                                  const char *remote, struct ferry_worker_operation **ret_operation)
{
        struct request_objects objects = { 0 };
        struct operation_spec spec;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        r = request_resolve(request, worker, &objects, &spec);
        if (r == 0)
                r = create(worker, &spec, remote, ret_operation);
        request_objects_clear(&objects);
        return r;
}

/* Frees the latest text. */
static void metadata_text_free(struct ferry_worker_operation *handle)
{
        struct metadata_text *text = handle->metadata;

        handle->metadata = text->former;
        explicit_bzero(text->json, strlen(text->json));
        free(text->json);
        free(text);
}

struct ferry_worker_operation *ferry_worker_operation_free(struct ferry_worker_operation *handle)
{
        if (!handle || !worker_is_ours(handle->generation))
                return NULL;
        (void)operation_unref(handle->operation);
        while (handle->metadata)
                metadata_text_free(handle);
        (void)pthread_mutex_destroy(&handle->lock);
        free(handle);
        return NULL;
}

/* ---- looking ---- */

const char *ferry_worker_operation_id(const struct ferry_worker_operation *handle)
{
        return handle->id;
}

/*
 * Makes the metadata's text anew. Texts that were returned before stay until the handle is freed. The handle's lock is
 * held.
 */
static int metadata_make(struct ferry_worker_operation *handle)
{
        FERRY_CLEANUP(cleanup_metadata) struct ferry_metadata *metadata = NULL;
        struct ferry_worker *worker = handle->worker;
        struct ferry_json_writer writer = { 0 };
        struct worker_origin origin;
        struct metadata_text *text;
        int r = operation_metadata(handle->store, handle->operation, &metadata);

        if (r)
                return r;
        (void)snprintf(metadata->worker, sizeof(metadata->worker), "%s", worker->settings->options.name);
        worker_origin_look(worker, &origin);
        memcpy(metadata->data, origin.data, sizeof(metadata->data));
        memcpy(metadata->http, origin.http, sizeof(metadata->http));
        r = ferry_metadata_encode(metadata, &writer);
        if (r) {
                ferry_json_writer_clear(&writer);
                return r;
        }
        text = calloc(1, sizeof(*text));
        if (!text) {
                ferry_json_writer_clear(&writer);
                return -ENOMEM;
        }
        text->json = ferry_json_take(&writer, NULL);
        if (!text->json) {
                free(text);
                return -ENOMEM;
        }
        text->former = handle->metadata;
        handle->metadata = text;
        handle->metadata_old = false;
        return 0;
}

int ferry_worker_operation_metadata(struct ferry_worker_operation *handle, const char **ret_text)
{
        int r = 0;

        if (!worker_is_ours(handle->generation))
                return -ECHILD;
        (void)pthread_mutex_lock(&handle->lock);
        if (!handle->metadata || handle->metadata_old)
                r = metadata_make(handle);
        if (!r)
                *ret_text = handle->metadata->json;
        (void)pthread_mutex_unlock(&handle->lock);
        return r ? worker_fail(r, NULL) : 0;
}

/* ---- ending ---- */

void ferry_worker_operation_cancel(struct ferry_worker_operation *handle)
{
        if (worker_is_ours(handle->generation))
                operation_cancel(handle->store, handle->operation);
}

int ferry_worker_operation_renew(struct ferry_worker_operation *handle, uint64_t ttl_ms)
{
        int r;

        if (!worker_is_ours(handle->generation))
                return -ECHILD;
        r = operation_renew(handle->store, handle->operation, ttl_ms);
        if (r)
                return worker_fail(r, NULL);
        (void)pthread_mutex_lock(&handle->lock);
        handle->metadata_old = true; /* they name the time at which it expires */
        (void)pthread_mutex_unlock(&handle->lock);
        return 0;
}

/* A thread that waits in ferry_worker_operation_wait(); on its stack. */
struct blocked {
        struct operation_waiter waiter;
        pthread_mutex_t lock;
        pthread_cond_t woken_up;
        bool woken;
};

static void wake_blocked(struct operation_waiter *waiter)
{
        struct blocked *blocked = FERRY_CONTAINER_OF(waiter, struct blocked, waiter);

        (void)pthread_mutex_lock(&blocked->lock);
        blocked->woken = true;
        (void)pthread_cond_signal(&blocked->woken_up);
        (void)pthread_mutex_unlock(&blocked->lock);
}

static void blocked_init(struct blocked *blocked)
{
        *blocked = (struct blocked){ .waiter = { .wake = wake_blocked, .quiet = true } };
        (void)pthread_mutex_init(&blocked->lock, NULL);
        condition_init(&blocked->woken_up);
}

/* false: timeout. timeout_ms -1 = no limit. */
static bool block(struct blocked *blocked, int timeout_ms)
{
        const uint64_t deadline_us = timeout_ms < 0 ? UINT64_MAX : clock_now_us() + (uint64_t)timeout_ms * 1000;
        bool woken;

        (void)pthread_mutex_lock(&blocked->lock);
        while (!blocked->woken && condition_wait(&blocked->woken_up, &blocked->lock, deadline_us))
                ;
        woken = blocked->woken;
        (void)pthread_mutex_unlock(&blocked->lock);
        return woken;
}

/* Where the time is over and the wake callback runs already, it is waited for: it uses this stack. */
int ferry_worker_operation_wait(struct ferry_worker_operation *handle, int timeout_ms)
{
        struct blocked blocked;
        bool ended = true;

        if (!worker_is_ours(handle->generation))
                return -ECHILD;
        blocked_init(&blocked);
        if (operation_wait(handle->store, handle->operation, 0, &blocked.waiter) && !block(&blocked, timeout_ms)) {
                ended = !operation_unwait(handle->store, &blocked.waiter);
                if (ended)
                        (void)block(&blocked, -1);
        }
        (void)pthread_cond_destroy(&blocked.woken_up);
        (void)pthread_mutex_destroy(&blocked.lock);
        if (!ended)
                return worker_fail(-ETIMEDOUT, "The operation has not ended within %d ms", timeout_ms);
        return ferry_worker_operation_result(handle);
}

/* A call that ferry_worker_operation_notify() owes; freed after it. */
struct notice {
        struct operation_waiter waiter;
        void (*ended)(void *context);
        void *context;
};

static void give_notice(struct operation_waiter *waiter)
{
        struct notice *notice = FERRY_CONTAINER_OF(waiter, struct notice, waiter);

        notice->ended(notice->context);
        free(notice);
}

int ferry_worker_operation_notify(struct ferry_worker_operation *handle, void (*ended)(void *context), void *context)
{
        struct notice *notice;

        if (!worker_is_ours(handle->generation))
                return -ECHILD;
        if (!ended)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "There is no function to call");
        notice = malloc(sizeof(*notice));
        if (!notice)
                return worker_fail(-ENOMEM, NULL);
        *notice =
                (struct notice){ .waiter = { .wake = give_notice, .quiet = true }, .ended = ended, .context = context };
        if (!operation_wait(handle->store, handle->operation, 0, &notice->waiter))
                give_notice(&notice->waiter);
        return 0;
}

/* ---- the getters ---- */

/* Zeros in a forked process. */
static struct operation_view look(const struct ferry_worker_operation *handle)
{
        struct operation_view view = { .status = FERRY_UNINITIALIZED };

        if (worker_is_ours(handle->generation))
                operation_get_view(handle->store, handle->operation, &view);
        return view;
}

enum ferry_status ferry_worker_operation_status(struct ferry_worker_operation *handle)
{
        return look(handle).status;
}

int ferry_worker_operation_result(struct ferry_worker_operation *handle)
{
        const struct operation_view view = look(handle);

        if (!worker_is_ours(handle->generation))
                return -ECHILD;
        if (!view.done)
                return worker_fail(-EAGAIN, "The operation has not ended");
        return view.error ? worker_fail(view.error, "%s", view.detail) : 0;
}

uint64_t ferry_worker_operation_bytes_done(struct ferry_worker_operation *handle)
{
        return look(handle).bytes_done;
}

uint64_t ferry_worker_operation_bytes_total(struct ferry_worker_operation *handle)
{
        return look(handle).bytes_total;
}

uint64_t ferry_worker_operation_duration_us(struct ferry_worker_operation *handle)
{
        return look(handle).duration_us;
}

const char *ferry_worker_operation_label(const struct ferry_worker_operation *handle)
{
        return look(handle).label ?: "";
}

enum ferry_layout ferry_worker_operation_layout(const struct ferry_worker_operation *handle)
{
        return look(handle).layout;
}

/* Copies a text of a view to the handle. */
static const char *keep(struct ferry_worker_operation *handle, char *to, const char *text, size_t size)
{
        if (!*text) /* in a forked process, where the lock may stay locked for ever, all are empty */
                return "";
        (void)pthread_mutex_lock(&handle->lock);
        memcpy(to, text, size);
        (void)pthread_mutex_unlock(&handle->lock);
        return to;
}

const char *ferry_worker_operation_transport(struct ferry_worker_operation *handle)
{
        const struct operation_view view = look(handle);

        return keep(handle, handle->transport, view.transport, sizeof(handle->transport));
}

const char *ferry_worker_operation_peer(struct ferry_worker_operation *handle)
{
        const struct operation_view view = look(handle);

        return keep(handle, handle->peer, view.peer.worker, sizeof(handle->peer));
}

const char *ferry_worker_operation_peer_epoch(struct ferry_worker_operation *handle)
{
        const struct operation_view view = look(handle);
        char text[FERRY_ID_TEXT_SIZE] = "";

        if (view.peer.epoch)
                ferry_id_format("", view.peer.epoch, text);
        return keep(handle, handle->peer_epoch, text, sizeof(text));
}
