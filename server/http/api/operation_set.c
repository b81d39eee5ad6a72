/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "base/util.h"
#include "operations/operations.h"

/*
 * Several operations in one request: a batch, or a list of ids. Each result is an operation or a problem, in the order
 * of the request. One flag stands for all: the operations' waiters count the results down, on whatever thread ends an
 * operation, and each registered waiter has a reference to the set.
 */

struct operation_entry {
        struct operation *operation; /* a reference; NULL = a problem */
        int missing;                 /* FERRY_E_NOT_FOUND, FERRY_E_GONE: of an id; 0 = the problem is another one */
        char *problem;               /* the id, or the problem's document; owned; NULL = memory was short */
        size_t problem_size;
        struct operation_waiter waiter;
        struct operation_set *set;
};

struct operation_set {
        struct operation_store *store;
        atomic_uint references; /* the request's, and one for each registered waiter */
        atomic_uint missing;    /* results that must be done before over is set */
        struct wait_flag over;
        size_t n;
        struct operation_entry entries[];
};

/* Drops n references. */
static void set_unref(struct operation_set *set, unsigned n)
{
        if (atomic_fetch_sub(&set->references, n) != n)
                return;
        for (size_t i = 0; i < set->n; i++) {
                operation_unref(set->entries[i].operation);
                free(set->entries[i].problem);
        }
        wait_flag_destroy(&set->over);
        free(set);
}

static void set_end(struct http_request *request)
{
        struct operation_set *set = request->state;
        unsigned n = 1;

        for (size_t i = 0; i < set->n; i++)
                n += set->entries[i].set && operation_unwait(set->store, &set->entries[i].waiter);
        set_unref(set, n);
}

int operation_set_begin(struct http_request *request, size_t n)
{
        struct operation_set *set = calloc(1, sizeof(*set) + n * sizeof(set->entries[0]));

        if (!set)
                return -ENOMEM;
        wait_flag_init(&set->over);
        set->store = request->server->config.operations;
        set->n = n;
        atomic_init(&set->references, 1);
        request_keep(request, set, set_end);
        return 0;
}

void operation_set_put(struct operation_set *set, size_t i, struct operation *operation)
{
        set->entries[i].operation = operation;
}

void operation_set_refuse(struct operation_set *set, size_t i, struct ferry_json_writer *problem)
{
        set->entries[i].problem = ferry_json_take(problem, &set->entries[i].problem_size);
}

/* Writes the problem with the operation of an id. */
static void write_missing(struct ferry_json_writer *writer, const char *id, int error, const char *detail)
{
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "id", id);
        ferry_json_open_object(writer, "problem");
        problem_members(writer, error, ferry_error_retryable(error), detail, NULL);
        ferry_json_end_object(writer);
        ferry_json_end_object(writer);
}

/* The problem is written with the answer: while the request waits, hundreds of ids are kept, not their documents. */
void operation_set_find(struct operation_set *set, size_t i, const char *id)
{
        struct operation_entry *entry = &set->entries[i];
        enum operation_lookup lookup = OPERATION_UNKNOWN;
        uint64_t number;

        if (ferry_id_parse("op_", id, &number))
                lookup = operation_find(set->store, number, &entry->operation);
        if (lookup == OPERATION_FOUND)
                return;
        entry->missing = lookup == OPERATION_GONE ? FERRY_E_GONE : FERRY_E_NOT_FOUND;
        entry->problem = strdup(id);
}

/* Counts one more result as done. Any thread. */
static void count_done(struct operation_set *set)
{
        if (atomic_fetch_sub(&set->missing, 1) == 1)
                wait_flag_set(&set->over);
}

static void on_done(struct operation_waiter *waiter)
{
        struct operation_set *set = FERRY_CONTAINER_OF(waiter, struct operation_entry, waiter)->set;

        count_done(set);
        set_unref(set, 1);
}

struct wait_flag *operation_set_wait(struct operation_set *set, bool any)
{
        /* All: one more than n, until every waiter is registered. Any: later results count below 0, without effect. */
        atomic_store(&set->missing, any ? 1 : (unsigned)set->n + 1);
        for (size_t i = 0; i < set->n; i++) {
                struct operation_entry *entry = &set->entries[i];

                entry->set = set;
                entry->waiter.wake = on_done;
                atomic_fetch_add(&set->references, 1);
                if (entry->operation && operation_wait(set->store, entry->operation, 0, &entry->waiter))
                        continue;
                atomic_fetch_sub(&set->references, 1);
                count_done(set);
                if (any)
                        break;
        }
        if (!any)
                count_done(set);
        return &set->over;
}

/* Writes a problem in place of an operation for which the answer has no room. */
static void write_too_much(const struct operation *operation, struct ferry_json_writer *writer)
{
        char id[FERRY_ID_TEXT_SIZE];

        ferry_id_format("op_", operation_id(operation), id);
        write_missing(writer, id, FERRY_E_TOO_LARGE, "The answer is full (answer_max); ask for this operation again");
}

/* Writes the problem that came of a body. */
static void write_refused(struct ferry_json_writer *writer, const struct operation_entry *entry)
{
        ferry_json_begin_object(writer);
        ferry_json_key(writer, "problem");
        ferry_json_put_text(writer, entry->problem, entry->problem_size);
        ferry_json_end_object(writer);
}

static void write_operation(struct operation_set *set, struct operation *operation, struct http_request *request,
                            bool metadata, struct ferry_json_writer *writer)
{
        struct operation_view view;
        char id[FERRY_ID_TEXT_SIZE];

        operation_get_view(set->store, operation, &view);
        if (view.deleted) {
                ferry_id_format("op_", view.id, id);
                write_missing(writer, id, FERRY_E_GONE, OPERATION_GONE_DETAIL);
                return;
        }
        ferry_json_begin_object(writer);
        operation_json_members(writer, &view);
        if (metadata && ferry_kind_is_passive((int)view.kind))
                metadata_json_add(writer, request, operation);
        ferry_json_end_object(writer);
}

void operation_set_write(struct operation_set *set, struct http_request *request, bool metadata, size_t max,
                         struct ferry_json_writer *writer)
{
        ferry_json_begin_array(writer);
        for (size_t i = 0; i < set->n; i++) {
                const struct operation_entry *entry = &set->entries[i];

                if (entry->operation && writer->size >= max)
                        write_too_much(entry->operation, writer);
                else if (entry->operation)
                        write_operation(set, entry->operation, request, metadata, writer);
                else if (entry->problem && entry->missing)
                        write_missing(writer, entry->problem, entry->missing,
                                      entry->missing == FERRY_E_GONE ? OPERATION_GONE_DETAIL
                                                                     : OPERATION_UNKNOWN_DETAIL);
                else if (entry->problem)
                        write_refused(writer, entry);
                else
                        writer->failed = true;
        }
        ferry_json_end_array(writer);
}
