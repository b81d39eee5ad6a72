/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_SIZES_H
#define FERRY_SIZES_H

/*
 * How <ferry/ferry.h> keeps programs running when a struct grows: each FERRY_SIZED function passes the sizes that the
 * program was compiled with. The library reads and writes no more than these; fields beyond are zero, or left out.
 * Included by <ferry/ferry.h> alone. Bindings for other languages call the exported symbols, with a table of their own.
 *
 * A new struct is added at the end of the table.
 */
struct ferry_sizes {
        size_t size; /* of this table */
        size_t options, worker_info, peer, region, region_spec, region_list, descriptor, operation, operation_spec,
                operation_query, operation_list, watch, answer, exchange, peer_info, peer_list, operation_result,
                operation_results, limits;
};

static const struct ferry_sizes ferry_sizes_here __attribute__((unused)) = {
        sizeof(struct ferry_sizes),
        sizeof(struct ferry_options),
        sizeof(struct ferry_worker_info),
        sizeof(struct ferry_peer),
        sizeof(struct ferry_region),
        sizeof(struct ferry_region_spec),
        sizeof(struct ferry_region_list),
        sizeof(struct ferry_descriptor),
        sizeof(struct ferry_operation),
        sizeof(struct ferry_operation_spec),
        sizeof(struct ferry_operation_query),
        sizeof(struct ferry_operation_list),
        sizeof(struct ferry_watch),
        sizeof(struct ferry_answer),
        sizeof(struct ferry_exchange),
        sizeof(struct ferry_peer_info),
        sizeof(struct ferry_peer_list),
        sizeof(struct ferry_operation_result),
        sizeof(struct ferry_operation_results),
        sizeof(struct ferry_limits),
};

/* ---- the exported symbols ---- */

int ferry_new_sized(const char *url, const struct ferry_options *options, struct ferry **ret_ferry,
                    const struct ferry_sizes *sizes);
void ferry_worker_info_clear_sized(struct ferry_worker_info *info, const struct ferry_sizes *sizes);
int ferry_get_worker_sized(struct ferry *f, struct ferry_worker_info *ret_info, const struct ferry_sizes *sizes);
void ferry_limits_clear_sized(struct ferry_limits *limits, const struct ferry_sizes *sizes);
int ferry_get_limits_sized(struct ferry *f, struct ferry_limits *ret_limits, const struct ferry_sizes *sizes);
void ferry_peer_clear_sized(struct ferry_peer *peer, const struct ferry_sizes *sizes);
int ferry_connect_peer_sized(struct ferry *f, const char *url, struct ferry_peer *ret_peer,
                             const struct ferry_sizes *sizes);
void ferry_peer_list_clear_sized(struct ferry_peer_list *list, const struct ferry_sizes *sizes);
int ferry_list_peers_sized(struct ferry *f, unsigned limit, const char *after, struct ferry_peer_list *ret_list,
                           const struct ferry_sizes *sizes);
void ferry_region_list_clear_sized(struct ferry_region_list *list, const struct ferry_sizes *sizes);
int ferry_create_region_sized(struct ferry *f, const struct ferry_region_spec *spec, struct ferry_region *ret_region,
                              const struct ferry_sizes *sizes);
int ferry_get_region_sized(struct ferry *f, const char *id, struct ferry_region *ret_region,
                           const struct ferry_sizes *sizes);
int ferry_list_regions_sized(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list,
                             const struct ferry_sizes *sizes);
void ferry_operation_clear_sized(struct ferry_operation *operation, const struct ferry_sizes *sizes);
void ferry_operation_list_clear_sized(struct ferry_operation_list *list, const struct ferry_sizes *sizes);
int ferry_create_operation_sized(struct ferry *f, const struct ferry_operation_spec *spec,
                                 struct ferry_operation *ret_operation, const struct ferry_sizes *sizes);
void ferry_operation_results_clear_sized(struct ferry_operation_results *results, const struct ferry_sizes *sizes);
int ferry_create_operations_sized(struct ferry *f, const struct ferry_operation_spec *specs, size_t n,
                                  struct ferry_operation_results *ret_results, const struct ferry_sizes *sizes);
int ferry_get_operation_sized(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision,
                              struct ferry_operation *ret_operation, const struct ferry_sizes *sizes);
int ferry_wait_operation_sized(struct ferry *f, const char *id, uint64_t timeout_ms,
                               struct ferry_operation *ret_operation, const struct ferry_sizes *sizes);
int ferry_wait_operations_sized(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                                uint64_t timeout_ms, struct ferry_operation_results *ret_results,
                                const struct ferry_sizes *sizes);
int ferry_watch_operation_sized(struct ferry *f, const char *id, const struct ferry_watch *watch,
                                struct ferry_operation *ret_operation, const struct ferry_sizes *sizes);
int ferry_list_operations_sized(struct ferry *f, const struct ferry_operation_query *query,
                                struct ferry_operation_list *ret_list, const struct ferry_sizes *sizes);
int ferry_cancel_operation_sized(struct ferry *f, const char *id, struct ferry_operation *ret_operation,
                                 const struct ferry_sizes *sizes);
int ferry_renew_operation_sized(struct ferry *f, const char *id, uint64_t ttl_ms, struct ferry_operation *ret_operation,
                                const struct ferry_sizes *sizes);
void ferry_answer_clear_sized(struct ferry_answer *answer, const struct ferry_sizes *sizes);
int ferry_exchange_perform_sized(struct ferry *f, const struct ferry_exchange *exchange,
                                 struct ferry_answer *ret_answer, const struct ferry_sizes *sizes);
int ferry_request_sized(struct ferry *f, const char *method, const char *path, const char *content_type,
                        const void *body, size_t size, struct ferry_answer *ret_answer,
                        const struct ferry_sizes *sizes);

/* ---- what programs call ---- */

FERRY_SIZED int ferry_new(const char *url, const struct ferry_options *options, struct ferry **ret_ferry)
{
        return ferry_new_sized(url, options, ret_ferry, &ferry_sizes_here);
}

FERRY_SIZED void ferry_worker_info_clear(struct ferry_worker_info *info)
{
        ferry_worker_info_clear_sized(info, &ferry_sizes_here);
}

FERRY_SIZED int ferry_get_worker(struct ferry *f, struct ferry_worker_info *ret_info)
{
        return ferry_get_worker_sized(f, ret_info, &ferry_sizes_here);
}

FERRY_SIZED void ferry_limits_clear(struct ferry_limits *limits)
{
        ferry_limits_clear_sized(limits, &ferry_sizes_here);
}

FERRY_SIZED int ferry_get_limits(struct ferry *f, struct ferry_limits *ret_limits)
{
        return ferry_get_limits_sized(f, ret_limits, &ferry_sizes_here);
}

FERRY_SIZED void ferry_peer_clear(struct ferry_peer *peer)
{
        ferry_peer_clear_sized(peer, &ferry_sizes_here);
}

FERRY_SIZED int ferry_connect_peer(struct ferry *f, const char *url, struct ferry_peer *ret_peer)
{
        return ferry_connect_peer_sized(f, url, ret_peer, &ferry_sizes_here);
}

FERRY_SIZED void ferry_peer_list_clear(struct ferry_peer_list *list)
{
        ferry_peer_list_clear_sized(list, &ferry_sizes_here);
}

FERRY_SIZED int ferry_list_peers(struct ferry *f, unsigned limit, const char *after, struct ferry_peer_list *ret_list)
{
        return ferry_list_peers_sized(f, limit, after, ret_list, &ferry_sizes_here);
}

FERRY_SIZED void ferry_region_list_clear(struct ferry_region_list *list)
{
        ferry_region_list_clear_sized(list, &ferry_sizes_here);
}

FERRY_SIZED int ferry_create_region(struct ferry *f, const struct ferry_region_spec *spec,
                                    struct ferry_region *ret_region)
{
        return ferry_create_region_sized(f, spec, ret_region, &ferry_sizes_here);
}

FERRY_SIZED int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region)
{
        return ferry_get_region_sized(f, id, ret_region, &ferry_sizes_here);
}

FERRY_SIZED int ferry_list_regions(struct ferry *f, unsigned limit, const char *after,
                                   struct ferry_region_list *ret_list)
{
        return ferry_list_regions_sized(f, limit, after, ret_list, &ferry_sizes_here);
}

FERRY_SIZED void ferry_operation_clear(struct ferry_operation *operation)
{
        ferry_operation_clear_sized(operation, &ferry_sizes_here);
}

FERRY_SIZED void ferry_operation_list_clear(struct ferry_operation_list *list)
{
        ferry_operation_list_clear_sized(list, &ferry_sizes_here);
}

FERRY_SIZED int ferry_create_operation(struct ferry *f, const struct ferry_operation_spec *spec,
                                       struct ferry_operation *ret_operation)
{
        return ferry_create_operation_sized(f, spec, ret_operation, &ferry_sizes_here);
}

FERRY_SIZED void ferry_operation_results_clear(struct ferry_operation_results *results)
{
        ferry_operation_results_clear_sized(results, &ferry_sizes_here);
}

FERRY_SIZED int ferry_create_operations(struct ferry *f, const struct ferry_operation_spec *specs, size_t n,
                                        struct ferry_operation_results *ret_results)
{
        return ferry_create_operations_sized(f, specs, n, ret_results, &ferry_sizes_here);
}

FERRY_SIZED int ferry_get_operation(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision,
                                    struct ferry_operation *ret_operation)
{
        return ferry_get_operation_sized(f, id, wait_ms, revision, ret_operation, &ferry_sizes_here);
}

FERRY_SIZED int ferry_wait_operation(struct ferry *f, const char *id, uint64_t timeout_ms,
                                     struct ferry_operation *ret_operation)
{
        return ferry_wait_operation_sized(f, id, timeout_ms, ret_operation, &ferry_sizes_here);
}

FERRY_SIZED int ferry_wait_operations(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                                      uint64_t timeout_ms, struct ferry_operation_results *ret_results)
{
        return ferry_wait_operations_sized(f, ids, n, wait_for, timeout_ms, ret_results, &ferry_sizes_here);
}

FERRY_SIZED int ferry_watch_operation(struct ferry *f, const char *id, const struct ferry_watch *watch,
                                      struct ferry_operation *ret_operation)
{
        return ferry_watch_operation_sized(f, id, watch, ret_operation, &ferry_sizes_here);
}

FERRY_SIZED int ferry_list_operations(struct ferry *f, const struct ferry_operation_query *query,
                                      struct ferry_operation_list *ret_list)
{
        return ferry_list_operations_sized(f, query, ret_list, &ferry_sizes_here);
}

FERRY_SIZED int ferry_cancel_operation(struct ferry *f, const char *id, struct ferry_operation *ret_operation)
{
        return ferry_cancel_operation_sized(f, id, ret_operation, &ferry_sizes_here);
}

FERRY_SIZED int ferry_renew_operation(struct ferry *f, const char *id, uint64_t ttl_ms,
                                      struct ferry_operation *ret_operation)
{
        return ferry_renew_operation_sized(f, id, ttl_ms, ret_operation, &ferry_sizes_here);
}

FERRY_SIZED void ferry_answer_clear(struct ferry_answer *answer)
{
        ferry_answer_clear_sized(answer, &ferry_sizes_here);
}

FERRY_SIZED int ferry_exchange_perform(struct ferry *f, const struct ferry_exchange *exchange,
                                       struct ferry_answer *ret_answer)
{
        return ferry_exchange_perform_sized(f, exchange, ret_answer, &ferry_sizes_here);
}

FERRY_SIZED int ferry_request(struct ferry *f, const char *method, const char *path, const char *content_type,
                              const void *body, size_t size, struct ferry_answer *ret_answer)
{
        return ferry_request_sized(f, method, path, content_type, body, size, ret_answer, &ferry_sizes_here);
}

#endif
