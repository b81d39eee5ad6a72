/* SPDX-License-Identifier: Apache-2.0 */
#include "operations_internal.h"

/*
 * The metrics of operations. Those with known labels are looked up once, at the store's start; those whose labels come
 * from UCX or from the table of errors, at the end of an operation. Thread: any (base/metrics.h).
 */

static const char *const kind_status[] = { "kind", "status" };
static const char *const direction_transport[] = { "direction", "transport" };
static const char *const transports[] = { "shm", "tcp" }; /* names of RDMA transports come from UCX */
/* Buckets from 10 us on, the time of a few KiB between workers of one host. */
static const double seconds[] = { 0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03,
                                  0.1,     0.3,     1,      3,      10,    30,    100,  300 };

void operation_metrics_init(struct operation_metrics *metrics, struct metrics *metrics_of_worker)
{
        struct metric_family *now = metrics_family(metrics_of_worker, METRIC_GAUGE, "ferry_operations",
                                                   "Operations in the store.", 2, kind_status, NULL, 0);
        struct metric_family *ended = metrics_family(metrics_of_worker, METRIC_COUNTER, "ferry_operations_ended_total",
                                                     "Operations that became terminal.", 2, kind_status, NULL, 0);
        struct metric_family *duration =
                metrics_family(metrics_of_worker, METRIC_HISTOGRAM, "ferry_operation_duration_seconds",
                               "Time from the first chunk to the end of operations that completed.", 1, kind_status,
                               seconds, FERRY_ARRAY_SIZE(seconds));

        for (int kind = 0; kind < FERRY_KIND_COUNT; kind++) {
                const char *labels[] = { ferry_kind_name(kind), NULL };

                metrics->duration[kind] = metric_get(duration, labels);
                for (int status = FERRY_INITIALIZED; status < FERRY_STATUS_COUNT; status++) {
                        labels[1] = ferry_status_name(status);
                        metrics->now[kind][status] = metric_get(now, labels);
                        if (ferry_status_is_terminal(status))
                                metrics->ended[kind][status] = metric_get(ended, labels);
                }
        }
        metrics->waits = metric_single(metrics_of_worker, METRIC_GAUGE, "ferry_operation_waits",
                                       "Operations that parked HTTP requests wait for: each operation once for each "
                                       "such request, of which one may name many.");
        metrics->pieces = metric_single(metrics_of_worker, METRIC_GAUGE, "ferry_operation_pieces",
                                        "Pieces that the descriptors of the operations in the store name.");
        metrics->connect =
                metric_get(metrics_family(metrics_of_worker, METRIC_HISTOGRAM, "ferry_connect_duration_seconds",
                                          "Time that operations took to connect to their peer, where they had to.", 0,
                                          NULL, seconds, FERRY_ARRAY_SIZE(seconds)),
                           NULL);
        metrics->errors =
                metrics_by_code(metrics_of_worker, "ferry_operation_errors_total",
                                "Operations that ended ERRORED or CANCELLED, by the code of their error.", "code");
        metrics->bytes = metrics_family(metrics_of_worker, METRIC_COUNTER, "ferry_transferred_bytes_total",
                                        "Bytes moved into (received) and out of (sent) this worker's memory.", 2,
                                        direction_transport, NULL, 0);
        for (size_t i = 0; i < 2 * FERRY_ARRAY_SIZE(transports); i++)
                (void)metric_get(metrics->bytes, (const char *[]){ i % 2 ? "sent" : "received", transports[i / 2] });
}

void operation_metrics_move(struct operation_metrics *metrics, enum ferry_kind kind, enum ferry_status from,
                            enum ferry_status to)
{
        metric_add(metrics->now[kind][from], -1);
        metric_add(metrics->now[kind][to], 1);
}

void operation_metrics_ended(struct operation_metrics *metrics, const struct operation *operation)
{
        metric_add(metrics->ended[operation->kind][operation_status(operation)], 1);
        if (operation->error) {
                const char *code = ferry_error_code(operation->error);

                metric_add(metric_get(metrics->errors, &code), 1);
        }
        if (operation->connect_us)
                metric_observe(metrics->connect, (double)operation->connect_us / 1e6);
        if (operation->state == OPERATION_COMPLETE)
                metric_observe(metrics->duration[operation->kind],
                               (double)(operation->ended_us - operation->started_us) / 1e6);
}

void operation_metrics_bytes(struct operation_metrics *metrics, enum ferry_kind kind,
                             const struct engine_outcome *outcome)
{
        const char *labels[] = { kind == FERRY_READ || kind == FERRY_WRITABLE ? "received" : "sent",
                                 outcome->transport[0] ? outcome->transport : "unknown" };

        if (outcome->bytes)
                metric_add(metric_get(metrics->bytes, labels), (int64_t)outcome->bytes);
}

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
