/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "operations_internal.h"

/*
 * An operation from its creation to its removal, as a client sees it: create, view, cancel, delete, and what a deadline
 * does. It is one allocation with its descriptors, texts and transfer. The store has a reference while the operation
 * can be found; a client's request, each transfer, a pending timer and a follower have one each, and the last one frees
 * it (references.c).
 *
 * Thread: any. What is fixed at creation is read without a lock, the rest under the store's.
 */

_Static_assert((int)OPERATION_DEVICE_SIZE >= (int)REGION_DEVICE_SIZE, "a region's device fits");
_Static_assert((int)FERRY_METADATA_DEVICE_SIZE >= (int)OPERATION_DEVICE_SIZE, "a descriptor's device fits");
_Static_assert((int)OPERATION_TRANSPORT_SIZE >= (int)ENGINE_TRANSPORT_SIZE, "the engine's transport fits");

static void operation_unref_p(struct operation **operation)
{
        (void)operation_unref(*operation);
}

/* Whether the fields of a request are within the limits and fit its kind. */
static bool spec_valid(const struct operation_limits *limits, const struct operation_spec *spec, uint64_t *ret_total,
                       size_t *ret_pieces)
{
        bool passive;

        if ((unsigned)spec->kind >= FERRY_KIND_COUNT || (unsigned)spec->layout >= FERRY_LAYOUT_COUNT)
                return false;
        passive = ferry_kind_is_passive((int)spec->kind);
        if (spec->uses && (!passive || (spec->uses > limits->uses_max && spec->uses != OPERATION_USES_UNLIMITED)))
                return false;
        if (spec->ttl_ms && (!passive || spec->ttl_ms > limits->ttl_ms_max))
                return false;
        if (spec->renew_max_ms && (!passive || spec->renew_max_ms > limits->ttl_ms_max))
                return false;
        if (spec->timeout_ms && (passive || spec->timeout_ms > limits->timeout_ms_max))
                return false;
        if ((spec->verify || spec->carriers || spec->remote) && passive)
                return false;
        if ((spec->follow && spec->kind != FERRY_READABLE) || (spec->relay && spec->kind != FERRY_READ))
                return false;
        return slices_valid(spec->slices, spec->n_slices, ret_total, ret_pieces);
}

/* Fills in what users see of the slices. The blocks were copied behind the operation before. */
static void operation_describe(struct operation *operation, const struct operation_slice *slices)
{
        const uint64_t *blocks = operation->blocks;

        for (size_t i = 0; i < operation->n_descriptors; i++) {
                struct operation_descriptor *descriptor = &operation->descriptors[i];

                descriptor->region_id = slices[i].region->id;
                descriptor->offset = slices[i].offset;
                descriptor->size = slices[i].size;
                descriptor->count = slice_count(&slices[i]);
                descriptor->stride = descriptor->count > 1 ? slices[i].stride : slices[i].size;
                descriptor->blocks = slices[i].blocks ? blocks : NULL;
                blocks += slices[i].blocks ? slices[i].count : 0;
                memcpy(descriptor->device, slices[i].region->device, sizeof(slices[i].region->device));
        }
}

/* Draws the random numbers in one system call. */
static void operation_draw(struct operation *operation)
{
        struct {
                uint64_t id, transfer;
                uint8_t key[FERRY_KEY_SIZE];
        } drawn;

        do
                random_bytes(&drawn, sizeof(drawn));
        while (!drawn.id || !drawn.transfer);
        operation->id = drawn.id;
        if (ferry_kind_is_passive((int)operation->kind))
                memcpy(operation->key, drawn.key, sizeof(operation->key));
        else
                operation->transfer_id = drawn.transfer;
        explicit_bzero(&drawn, sizeof(drawn));
}

/* One allocation: after the operation lie its descriptors, its transfer if active, blocks, and texts. */
static struct operation *operation_allocate(const struct operation_spec *spec)
{
        const char *request_id = spec->request_id ? spec->request_id : "";
        const size_t label_length = strlen(spec->label);
        const size_t request_length = strnlen(request_id, OPERATION_REQUEST_SIZE - 1);
        const size_t n_own = ferry_kind_is_passive((int)spec->kind) ? 0 : 1;
        const size_t n_blocks = slices_count_blocks(spec->slices, spec->n_slices);
        struct operation *operation =
                calloc(1, sizeof(*operation) + spec->n_slices * sizeof(operation->descriptors[0]) +
                                  n_own * sizeof(*operation->own) + n_blocks * sizeof(operation->blocks[0]) +
                                  label_length + 1 + request_length + 1);
        struct operation_transfer *own;
        char *texts;

        if (!operation)
                return NULL;
        operation->n_descriptors = spec->n_slices;
        own = (struct operation_transfer *)&operation->descriptors[spec->n_slices];
        operation->own = n_own ? own : NULL;
        operation->blocks = (uint64_t *)(own + n_own);
        slices_copy_blocks(spec->slices, spec->n_slices, operation->blocks);
        texts = (char *)(operation->blocks + n_blocks);
        operation->label = memcpy(texts, spec->label, label_length);
        operation->request_id = memcpy(texts + label_length + 1, request_id, request_length);
        return operation;
}

/*
 * With the lock held: a deadline may have passed. true: the claims are to be revoked. With several uses a stall fails
 * the transfers, not the operation.
 */
static bool end_at_deadline(struct operation *operation, struct deferred_actions *deferred)
{
        const uint64_t now = clock_now_us();
        const int reason = deadline_passed(operation, now);
        const bool revoke = reason == FERRY_E_STALLED && operation_uses_max(operation) > 1;

        if (revoke)
                atomic_store(&operation->moved_us, now);
        else if (reason)
                operation_stop(operation, reason, deferred);
        if (!operation_ends(operation) && deadline_arm(operation) < 0)
                operation_stop(operation, FERRY_E_INTERNAL, deferred);
        return revoke;
}

/* The timer's callback, on the loop's thread. It owns the reference that deadline_arm() took. */
static void on_deadline(struct loop_timer *timer)
{
        struct operation *operation = FERRY_CONTAINER_OF(timer, struct operation, timer);
        struct operation_store *store = operation->store;
        struct deferred_actions deferred = { 0 };
        bool revoke = false;

        store_lock(store);
        operation->armed_us = 0;
        if (!operation_ends(operation))
                revoke = end_at_deadline(operation, &deferred);
        store_unlock(store, &deferred);
        if (revoke)
                store_revoke(operation, FERRY_E_STALLED, FERRY_E_STALLED);
        (void)operation_unref(operation);
}

/*
 * Makes an operation that is in no store yet. Returns 0, or the error of operation_create(), with a sentence for users
 * where it is theirs.
 */
static int operation_new(struct operation_store *store, const struct operation_spec *spec, uint64_t total,
                         struct operation **ret_operation, char detail[OPERATION_DETAIL_SIZE])
{
        FERRY_CLEANUP(operation_unref_p) struct operation *operation = NULL;
        const struct operation_limits *limits = &store->config.limits;
        int r;

        operation = operation_allocate(spec);
        if (!operation)
                return -ENOMEM;
        operation->refs = 1;
        operation->store = store_ref(store);
        operation->kind = spec->kind;
        operation_draw(operation);
        operation->layout = spec->layout;
        operation->verify = spec->verify;
        operation->relay = spec->relay;
        operation->carriers = spec->carriers;
        operation->uses = spec->uses;
        operation->bytes_total = total;
        operation->timeout_ms = spec->timeout_ms;
        operation->renew_max_ms = spec->renew_max_ms;
        operation->created_us = clock_now_us();
        operation->created_unix_ms = clock_unix_ms();
        operation->timer.fired = on_deadline;
        operation_describe(operation, spec->slices);
        if (spec->remote) {
                operation->remote = ranges_copy(spec->remote);
                if (!operation->remote)
                        return -ENOMEM;
        }
        if (spec->follow) {
                r = follow_map_new(operation, spec->follow, detail);
                if (r)
                        return r;
        }
        if (ferry_kind_is_passive((int)spec->kind))
                operation->ttl_created_ms = spec->ttl_ms ? spec->ttl_ms : limits->ttl_ms_default;
        r = operation_pins_new(spec->slices, spec->n_slices, &operation->pins);
        if (!r && (spec->kind == FERRY_READ || spec->kind == FERRY_WRITABLE))
                r = slices_check_writable(spec->slices, spec->n_slices, detail);
        if (r)
                return r;
        *ret_operation = FERRY_STEAL(operation);
        return 0;
}

/*
 * Whether the store accepts a new operation. Returns 0; FERRY_E_GONE; FERRY_E_DRAINING; FERRY_E_LIMIT_REACHED. The
 * store's lock is held.
 */
static int admit(struct operation_store *store, const struct operation *operation, char detail[OPERATION_DETAIL_SIZE])
{
        const struct operation *source = operation->follow ? operation->follow->source : NULL;

        if (source && operation_terminal(source) && source->state != OPERATION_COMPLETE)
                return operation_refuse(detail, FERRY_E_GONE, "The read has ended without all of its bytes");
        if (store->stage >= STORE_DRAINING)
                return FERRY_E_DRAINING;
        return retention_make_room(store, operation, detail);
}

/*
 * Lists the operation with the read that it follows: from now on a failure of that read ends it. The store's lock is
 * held.
 */
static void follow_begin(struct operation *operation)
{
        struct operation *source = operation->follow->source;

        if (operation_terminal(source))
                return;
        DL_APPEND2(source->followers, operation, follower_prev, follower_next);
        atomic_fetch_add(&source->n_followers, 1);
}

int operation_create(struct operation_store *store, const struct operation_spec *spec, struct operation **ret_operation,
                     char detail[OPERATION_DETAIL_SIZE])
{
        FERRY_CLEANUP(operation_unref_p) struct operation *operation = NULL;
        struct deferred_actions deferred = { 0 };
        size_t pieces;
        uint64_t total;
        int r;

        detail[0] = '\0';
        if (!spec_valid(&store->config.limits, spec, &total, &pieces))
                return FERRY_E_INVALID_PARAMETER;
        if (spec->remote && spec->remote->total != total)
                return operation_refuse(detail, FERRY_E_SIZE_MISMATCH,
                                        "%" PRIu64 " bytes in the ranges, %" PRIu64 " in the descriptors",
                                        spec->remote->total, total);
        r = operation_new(store, spec, total, &operation, detail);
        if (r)
                return r;
        operation->n_pieces = pieces + (spec->remote ? spec->remote->n : 0);
        store_lock(store);
        if (operation->ttl_created_ms)
                deadline_expire_after(operation, operation->ttl_created_ms);
        r = admit(store, operation, detail);
        if (!r)
                r = store_insert(store, operation);
        if (!r && operation->follow)
                follow_begin(operation);
        if (!r)
                operation_set_state(operation, OPERATION_WAITING, &deferred);
        store_unlock(store, &deferred);
        if (r)
                return r;
        *ret_operation = FERRY_STEAL(operation);
        return 0;
}

uint64_t operation_id(const struct operation *operation)
{
        return operation->id;
}

const uint8_t *operation_key(const struct operation *operation)
{
        return operation->key;
}

uint64_t operation_cursor(const struct operation *operation)
{
        return operation->serial;
}

void operation_get_view(struct operation_store *store, struct operation *operation, struct operation_view *ret_view)
{
        struct operation_view *v = ret_view;

        *v = (struct operation_view){
                .id = operation->id,
                .kind = operation->kind,
                .layout = operation->layout,
                .verify = operation->verify,
                .relay = operation->relay,
                .carriers = operation->carriers,
                .follow = operation->follow ? operation->follow->source->id : 0,
                .bytes_total = operation->bytes_total,
                .uses = operation->uses,
                .label = operation->label,
                .request_id = operation->request_id,
                .timeout_ms = operation->timeout_ms,
                .renew_max_ms = operation->renew_max_ms,
                .created_unix_ms = operation->created_unix_ms,
                .descriptors = operation->descriptors,
                .n_descriptors = operation->n_descriptors,
                .remote = operation->remote,
        };
        store_lock(store);
        v->status = operation_status(operation);
        v->done = operation_terminal(operation);
        v->deleted = operation->deleted;
        v->cancel_requested = operation->stop_reason == FERRY_E_CANCELLED && !v->done;
        v->revision = operation->revision;
        v->peer = operation->peer;
        v->bytes_done = atomic_load(&operation->bytes_done);
        v->uses_done = operation->uses ? operation->n_completed : 0;
        v->uses_declined = operation->n_declined;
        v->ttl_ms = operation->ttl_ms;
        if (!v->done && !operation->n_active)
                v->expires_unix_ms = operation->expires_unix_ms;
        if (v->done) {
                v->ended_unix_ms = operation->ended_unix_ms;
                v->duration_us =
                        operation->ended_us - (operation->started_us ? operation->started_us : operation->created_us);
                v->bytes_prefix = v->status == FERRY_COMPLETE ? 0 : operation->prefix;
                v->error = operation->error;
                memcpy(v->transport, operation->transport, sizeof(v->transport));
                v->connect_us = operation->connect_us;
                if (v->error)
                        (void)text_copy(v->detail, sizeof(v->detail), operation_detail(operation));
        }
        store_unlock_plain(store);
}

bool operation_announce(struct operation *operation)
{
        return !atomic_exchange(&operation->announced, true);
}

void operation_cancel(struct operation_store *store, struct operation *operation)
{
        struct deferred_actions deferred = { 0 };

        store_lock(store);
        operation_stop(operation, FERRY_E_CANCELLED, &deferred);
        store_unlock(store, &deferred);
}

void operation_delete(struct operation_store *store, struct operation *operation)
{
        struct deferred_actions deferred = { 0 };

        store_lock(store);
        if (!operation->deleted && operation->hh.tbl) {
                operation->deleted = true;
                if (operation_terminal(operation)) {
                        operation_metrics_move(&store->metrics, operation->kind, operation_status(operation),
                                               FERRY_UNINITIALIZED);
                        retention_forget(operation);
                }
                store_remove(operation);
                operation_bump(operation, &deferred);
                operation_stop(operation, FERRY_E_CANCELLED, &deferred);
        }
        store_unlock(store, &deferred);
}
