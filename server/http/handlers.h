/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HANDLERS_H
#define HTTP_HANDLERS_H

#include <stddef.h>

struct http_request;

/*
 * The handlers, each in the file of its noun. Called on the connection's thread when the request has arrived whole;
 * those of HTTP_BODY_STREAM also before the body (see request->phase). Each answers the request or parks it.
 */
void get_root(struct http_request *request);
void get_worker(struct http_request *request);
void get_devices(struct http_request *request);
void get_limits(struct http_request *request);
void get_throughput(struct http_request *request);
void list_events(struct http_request *request);
void list_peers(struct http_request *request);
void list_regions(struct http_request *request);
void create_region(struct http_request *request);
void get_region(struct http_request *request);
void delete_region(struct http_request *request);
void get_region_content(struct http_request *request);
void put_region_content(struct http_request *request);
void list_operations(struct http_request *request);
void create_operation(struct http_request *request);
void create_operations(struct http_request *request);
void get_operation(struct http_request *request);
void delete_operation(struct http_request *request);
void cancel_operation(struct http_request *request);
void renew_operation(struct http_request *request);
void get_operation_metadata(struct http_request *request);
void get_operation_content(struct http_request *request);
void put_operation_content(struct http_request *request);
void delete_operation_content(struct http_request *request);
void create_peer(struct http_request *request);
void get_livez(struct http_request *request);
void get_readyz(struct http_request *request);
void get_metrics(struct http_request *request);
void get_asset(struct http_request *request); /* answers with the route's */

/* Store the next bytes of an upload that the handler has accepted; beside their put_*. */
void take_operation_content(struct http_request *request, const char *data, size_t size);
void take_region_content(struct http_request *request, const char *data, size_t size);

#endif
