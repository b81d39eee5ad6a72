/* SPDX-License-Identifier: Apache-2.0 */
#include "operations_internal.h"

/*
 * The bytes of each of the last seconds, in a ring that any thread adds to without a lock. A cell has the round of the
 * ring above the bytes, so that the first addition of a second clears what an earlier round left there, and a cell
 * that nothing was added to is known to be old. 20 bits of rounds are 17 years; 44 bits of bytes, 16 TiB a second.
 */
#define CELL_BYTES_BITS 44
#define CELL_BYTES_MAX ((UINT64_C(1) << CELL_BYTES_BITS) - 1)
#define SECOND_US UINT64_C(1000000)

_Static_assert(THROUGHPUT_CELLS > OPERATION_SECONDS_MAX + 1,
               "the running second has no cell of a second that is shown");

static uint64_t round_of(uint64_t second)
{
        return second / THROUGHPUT_CELLS << CELL_BYTES_BITS;
}

void throughput_init(struct throughput *throughput, uint64_t now_us)
{
        throughput->first = now_us / SECOND_US;
}

void throughput_add(struct throughput *throughput, enum ferry_kind kind, uint64_t bytes, uint64_t now_us)
{
        bool sent = kind == FERRY_READABLE || kind == FERRY_WRITE;
        uint64_t second = now_us / SECOND_US, round = round_of(second), before, after;
        _Atomic uint64_t *cell = &throughput->cells[sent][second % THROUGHPUT_CELLS];

        before = atomic_load_explicit(cell, memory_order_relaxed);
        do {
                after = (before & ~CELL_BYTES_MAX) == round ? before & CELL_BYTES_MAX : 0;
                after = round | (bytes < CELL_BYTES_MAX - after ? after + bytes : CELL_BYTES_MAX);
        } while (!atomic_compare_exchange_weak_explicit(cell, &before, after, memory_order_relaxed,
                                                        memory_order_relaxed));
}

/* The bytes of a second; 0 also if the cell is of an earlier round. */
static uint64_t bytes_of(struct throughput *throughput, bool sent, uint64_t second)
{
        uint64_t cell = atomic_load_explicit(&throughput->cells[sent][second % THROUGHPUT_CELLS], memory_order_relaxed);

        return (cell & ~CELL_BYTES_MAX) == round_of(second) ? cell & CELL_BYTES_MAX : 0;
}

void throughput_get(struct throughput *throughput, uint64_t now_us, struct operation_throughput *ret_throughput)
{
        uint64_t now = now_us / SECOND_US, n = now - throughput->first;

        if (n > OPERATION_SECONDS_MAX)
                n = OPERATION_SECONDS_MAX;
        ret_throughput->n = (size_t)n;
        ret_throughput->since_us = (now - n) * SECOND_US;
        for (size_t i = 0; i < n; i++) {
                ret_throughput->received[i] = bytes_of(throughput, false, now - n + i);
                ret_throughput->sent[i] = bytes_of(throughput, true, now - n + i);
        }
}

void operation_store_get_throughput(struct operation_store *store, uint64_t now_us,
                                    struct operation_throughput *ret_throughput)
{
        throughput_get(&store->throughput, now_us, ret_throughput);
}
