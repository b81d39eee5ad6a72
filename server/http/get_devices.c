/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include "device_json.h"
#include "handlers.h"
#include "http_internal.h"
#include "memory/device.h"
#include "request.h"
#include "transfer/engine.h"

void get_devices(struct http_request *request)
{
        const struct http_config *config = &request->server->config;
        struct ferry_json_writer writer = { 0 };
        struct device_inventory *inventory;
        struct device_ucx ucx = { 0 };
        int error;

        if (engine_network_is_open(config->engine))
                ucx = config->engine->device;
        error = device_inventory_new(&ucx, config->device_source, &inventory);
        if (error) {
                request_problem(request, error, NULL);
                return;
        }
        device_json_write(&writer, inventory, config->engine);
        device_inventory_free(inventory);
        request_answer_json(request, 200, &writer);
}
