/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

#include "operations/content_ranges.h"
#include "operations_internal.h"

/*
 * A readable that follows a read offers what that read has filled so far. Arrived bytes are a set of ranges of the
 * read's stream; a list of pieces, made with the readable, maps the readable's stream to it.
 */

enum {
        FOLLOWED_PARTS = 128,   /* a followed read asks for its bytes in so many parts … */
        FOLLOWED_MIN = 1 << 20, /* … but for no fewer bytes than this at a time */
};

/* ---- where the bytes are ---- */

/* A run of bytes of a region, and its place in an operation's stream. */
struct extent {
        uint64_t region, start, size, at;
};

struct extents {
        size_t n;
        struct extent *list;
};

/* Appends an extent, joined with the one before where the two touch in memory. */
static void extents_add(struct extents *extents, struct extent extent)
{
        struct extent *last = extents->n ? &extents->list[extents->n - 1] : NULL;

        if (last && last->region == extent.region && last->start + last->size == extent.start)
                last->size += extent.size;
        else
                extents->list[extents->n++] = extent;
}

/* An operation's extents in the order of its stream. list is for free(). 0 or -ENOMEM. */
static int extents_new(const struct operation *operation, struct extents *ret_extents)
{
        struct extents extents = { 0 };
        uint64_t n = 0, at = 0;

        for (size_t i = 0; i < operation->n_descriptors; i++)
                n += operation->descriptors[i].count;
        extents.list = malloc(n * sizeof(extents.list[0]));
        if (!extents.list)
                return -ENOMEM;
        for (size_t i = 0; i < operation->n_descriptors; i++) {
                const struct operation_descriptor *d = &operation->descriptors[i];

                for (uint64_t j = 0; j < d->count; j++, at += d->size)
                        extents_add(&extents, (struct extent){ .region = d->region_id,
                                                               .start = d->offset + (d->blocks ? d->blocks[j] * d->size
                                                                                               : j * d->stride),
                                                               .size = d->size,
                                                               .at = at });
        }
        *ret_extents = extents;
        return 0;
}

/* The order by region and start, for qsort(). */
static int extent_compare(const void *a, const void *b)
{
        const struct extent *x = a, *y = b;

        if (x->region != y->region)
                return x->region < y->region ? -1 : 1;
        return (x->start > y->start) - (x->start < y->start);
}

/* A byte that is filled twice has not arrived when it has once. */
static bool extents_overlap(const struct extents *sorted)
{
        for (size_t i = 1; i < sorted->n; i++) {
                const struct extent *before = &sorted->list[i - 1];

                if (before->region == sorted->list[i].region && before->start + before->size > sorted->list[i].start)
                        return true;
        }
        return false;
}

/* The extent that contains the byte; NULL = none. */
static const struct extent *extents_find(const struct extents *sorted, uint64_t region, uint64_t byte)
{
        const struct extent wanted = { .region = region, .start = byte };
        size_t n = FERRY_FIRST_INDEX(sorted->n, i, extent_compare(&sorted->list[i], &wanted) > 0);

        if (n == 0)
                return NULL;
        const struct extent *found = &sorted->list[n - 1];
        return found->region == region && byte - found->start < found->size ? found : NULL;
}

/* Appends a piece to the map, joined with the one before where the two touch in both streams. Returns 0 or -ENOMEM. */
static int pieces_add(struct follow_map *follow, uint64_t at, uint64_t source_at, uint64_t size)
{
        struct follow_piece *last = follow->n ? &follow->pieces[follow->n - 1] : NULL, *more;

        if (last && last->at + last->size == at && last->source_at + last->size == source_at) {
                last->size += size;
                return 0;
        }
        more = ferry_reserve(follow->pieces, &follow->room, follow->n + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        follow->pieces = more;
        follow->pieces[follow->n++] = (struct follow_piece){ at, source_at, size };
        return 0;
}

/* Finds where the read fills each of the readable's bytes. Returns 0, FERRY_E_OUT_OF_BOUNDS or -ENOMEM. */
static int pieces_make(struct follow_map *follow, const struct extents *own, const struct extents *sorted)
{
        for (size_t i = 0; i < own->n; i++) {
                const struct extent *extent = &own->list[i];

                for (uint64_t done = 0, size; done < extent->size; done += size) {
                        const struct extent *from = extents_find(sorted, extent->region, extent->start + done);
                        uint64_t skip;
                        int r;

                        if (!from)
                                return FERRY_E_OUT_OF_BOUNDS;
                        skip = extent->start + done - from->start;
                        size = from->size - skip < extent->size - done ? from->size - skip : extent->size - done;
                        r = pieces_add(follow, extent->at + done, from->at + skip, size);
                        if (r)
                                return r;
                }
        }
        return 0;
}

int follow_map_new(struct operation *operation, struct operation *source, char detail[OPERATION_DETAIL_SIZE])
{
        struct follow_map *follow;
        struct extents own = { 0 }, filled = { 0 };
        int r;

        if (source->kind != FERRY_READ)
                return operation_refuse(detail, FERRY_E_KIND_MISMATCH, "Only a read can be followed");
        follow = operation->follow = calloc(1, sizeof(*follow));
        if (!follow)
                return -ENOMEM;
        follow->source = operation_ref(source);
        r = extents_new(operation, &own);
        if (!r)
                r = extents_new(source, &filled);
        if (!r) {
                qsort(filled.list, filled.n, sizeof(filled.list[0]), extent_compare);
                r = extents_overlap(&filled)
                            ? operation_refuse(detail, FERRY_E_INVALID_PARAMETER, "The read fills bytes twice")
                            : pieces_make(follow, &own, &filled);
        }
        free(own.list);
        free(filled.list);
        return r == FERRY_E_OUT_OF_BOUNDS ? operation_refuse(detail, r, "The read does not fill all of these bytes")
                                          : r;
}

/* ---- arrived bytes ---- */

/* Adds to the set of arrived bytes, under arrival_lock, so that a READ of a follower can be answered meanwhile. */
static void note_arrived(struct operation *operation, uint64_t offset, uint64_t length)
{
        struct operation_store *store = operation->store;

        (void)pthread_mutex_lock(&store->arrival_lock);
        if (!operation->arrived)
                operation->arrived = calloc(1, sizeof(*operation->arrived));
        if (operation->arrived) /* if memory is short, followers wait until all has arrived */
                content_ranges_add(operation->arrived, offset, offset + length);
        (void)pthread_mutex_unlock(&store->arrival_lock);
}

/* The data plane's callback. The store's lock is taken only where there are followers. */
void follow_arrived(void *context, uint64_t offset, uint64_t length)
{
        const struct operation_transfer *transfer = context;
        struct operation *operation = transfer->operation, *follower;
        struct operation_store *store = operation->store;
        struct deferred_actions deferred = { 0 };

        if (length == operation->bytes_total)
                return; /* its end says the same in a moment */
        note_arrived(operation, offset, length);
        if (!atomic_load(&operation->n_followers))
                return;
        store_lock(store);
        DL_FOREACH2 (operation->followers, follower, follower_next) {
                deferred.held_reads_due = true;
                if (follower->has_waiting_request)
                        operation_bump(follower, &deferred);
                follower->has_waiting_request = false;
        }
        store_unlock(store, &deferred);
}

/*
 * The bytes of a request arrive together and are passed on only then, so each member of a chain adds the time of one
 * request. Small requests leave gaps on long links; in a chain that costs less.
 */
uint64_t follow_request_max(void *context)
{
        const struct operation *operation = ((const struct operation_transfer *)context)->operation;
        uint64_t part = operation->bytes_total / FOLLOWED_PARTS;

        if (!operation->relay && !atomic_load(&operation->n_followers))
                return UINT64_MAX;
        return part > FOLLOWED_MIN ? part : FOLLOWED_MIN;
}

/* The piece that contains the byte. */
static size_t piece_of(const struct follow_map *follow, uint64_t byte)
{
        return FERRY_FIRST_INDEX(follow->n, i, follow->pieces[i].at > byte) - 1;
}

/*
 * How many of the readable's bytes from offset on have arrived without a gap, at most length. Takes arrival_lock, and
 * may be called with the store's lock held.
 */
static uint64_t there(const struct operation *operation, uint64_t offset, uint64_t length)
{
        const struct follow_map *follow = operation->follow;
        struct operation *source = follow->source;
        uint64_t found = 0;

        if (source->state == OPERATION_COMPLETE)
                return length;
        (void)pthread_mutex_lock(&source->store->arrival_lock);
        for (size_t i = piece_of(follow, offset); source->arrived && found < length; i++) {
                const struct follow_piece *piece = &follow->pieces[i];
                uint64_t skip = offset + found - piece->at, size = piece->size - skip;
                uint64_t run = content_ranges_run(source->arrived, piece->source_at + skip);

                found += run < size ? run : size;
                if (run < size)
                        break;
        }
        (void)pthread_mutex_unlock(&source->store->arrival_lock);
        return found < length ? found : length;
}

uint64_t follow_available(void *context, uint64_t offset, uint64_t length)
{
        const struct operation_transfer *transfer = context;

        return there(transfer->operation, offset, length);
}

bool operation_available(struct operation_store *store, struct operation *operation, uint64_t first, uint64_t size,
                         uint64_t *ret_revision)
{
        bool all;

        if (!operation->follow)
                return true;
        store_lock(store);
        *ret_revision = operation->revision;
        all = operation_terminal(operation) || there(operation, first, size) == size;
        operation->has_waiting_request |= !all;
        store_unlock_plain(store);
        return all;
}
