/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include "base/clock.h"
#include "handlers.h"
#include "http_internal.h"
#include "operations/operations.h"
#include "request.h"

static void add_seconds(struct ferry_json_writer *writer, const char *name, const uint64_t *bytes, size_t n)
{
        ferry_json_open_array(writer, name);
        for (size_t i = 0; i < n; i++)
                ferry_json_put_uint(writer, bytes[i]);
        ferry_json_end_array(writer);
}

void get_throughput(struct http_request *request)
{
        struct operation_throughput throughput;
        struct ferry_json_writer writer = { 0 };
        char since[CLOCK_TEXT_SIZE];
        uint64_t now_us = clock_now_us();

        operation_store_get_throughput(request->server->config.operations, now_us, &throughput);
        clock_format(clock_unix_ms() - (now_us - throughput.since_us) / 1000, since);
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "since", since);
        add_seconds(&writer, "received", throughput.received, throughput.n);
        add_seconds(&writer, "sent", throughput.sent, throughput.n);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
