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
