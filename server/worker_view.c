/* SPDX-License-Identifier: Apache-2.0 */
/* The getters of an operation's handle. */
#include <errno.h>
#include <string.h>

#include <ferry/encoding.h>

#include "worker_error.h"
#include "worker_internal.h"
#include "worker_operation.h"

/* false: in a forked process. */
static bool look(const struct ferry_worker_operation *handle, struct operation_view *ret_view)
{
        *ret_view = (struct operation_view){ .status = FERRY_UNINITIALIZED };
        if (!worker_is_ours(handle->generation))
                return false;
        operation_get_view(handle->store, handle->operation, ret_view);
        return true;
}

enum ferry_status ferry_worker_operation_status(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        (void)look(handle, &view);
        return view.status;
}

int ferry_worker_operation_result(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        if (!look(handle, &view))
                return -ECHILD;
        if (!view.done)
                return worker_fail(-EAGAIN, "The operation has not ended");
        return view.error ? worker_fail(view.error, "%s", view.detail) : 0;
}

uint64_t ferry_worker_operation_bytes_done(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        (void)look(handle, &view);
        return view.bytes_done;
}

uint64_t ferry_worker_operation_bytes_total(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        (void)look(handle, &view);
        return view.bytes_total;
}

const char *ferry_worker_operation_transport(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        if (!look(handle, &view))
                return "";
        (void)pthread_mutex_lock(&handle->lock);
        memcpy(handle->transport, view.transport, sizeof(handle->transport));
        (void)pthread_mutex_unlock(&handle->lock);
        return handle->transport;
}

uint64_t ferry_worker_operation_duration_us(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        (void)look(handle, &view);
        return view.duration_us;
}

const char *ferry_worker_operation_label(const struct ferry_worker_operation *handle)
{
        struct operation_view view;

        return look(handle, &view) ? view.label : "";
}

enum ferry_layout ferry_worker_operation_layout(const struct ferry_worker_operation *handle)
{
        struct operation_view view;

        (void)look(handle, &view);
        return view.layout;
}

const char *ferry_worker_operation_peer(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        if (!look(handle, &view))
                return "";
        (void)pthread_mutex_lock(&handle->lock);
        memcpy(handle->peer, view.peer.worker, sizeof(handle->peer));
        (void)pthread_mutex_unlock(&handle->lock);
        return handle->peer;
}

const char *ferry_worker_operation_peer_epoch(struct ferry_worker_operation *handle)
{
        struct operation_view view;

        if (!look(handle, &view) || !view.peer.epoch)
                return "";
        (void)pthread_mutex_lock(&handle->lock);
        ferry_id_format("", view.peer.epoch, handle->peer_epoch);
        (void)pthread_mutex_unlock(&handle->lock);
        return handle->peer_epoch;
}
