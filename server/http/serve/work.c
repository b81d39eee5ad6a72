/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <ferry/error.h>

#include "request.h"

void *work_new(size_t size)
{
        struct http_work *work = calloc(1, size);

        if (!work)
                return NULL;
        atomic_init(&work->references, 2);
        latch_init(&work->over);
        return work;
}

void work_unref(struct http_work *work)
{
        if (atomic_fetch_sub(&work->references, 1) != 1)
                return;
        latch_destroy(&work->over);
        free(work->owned);
        free(work);
}

static void drop(struct http_request *request)
{
        work_unref(request->state);
}

int work_begun(struct http_request *request, struct http_work *work, int error)
{
        if (error) {
                atomic_store(&work->references, 1);
                work_unref(work);
        } else {
                request_keep(request, work, drop);
        }
        return error;
}

void work_end(struct http_work *work, int error, const char *detail)
{
        work->error = error;
        (void)snprintf(work->detail, sizeof(work->detail), "%s", detail);
        latch_set(&work->over);
        work_unref(work);
}

bool work_is_over(struct http_request *request, const char *awaited, const char *late)
{
        struct http_work *work = request->state;

        if (latch_is_set(&work->over))
                return true;
        if (!wait_abandoned(request, awaited))
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "%s within %u s", late, WORK_WAIT_MS / 1000);
        return false;
}
