/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DISPATCH_H
#define HTTP_DISPATCH_H

#include <microhttpd.h>

/*
 * dispatch_call: libmicrohttpd's access handler, called several times for each request; finds the route and calls its
 * handler. dispatch_target: called before with the raw target; makes the request. Thread: that of the connection's
 * shard.
 */
enum MHD_Result dispatch_call(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state);
void *dispatch_target(void *context, const char *target, struct MHD_Connection *connection);

#endif
