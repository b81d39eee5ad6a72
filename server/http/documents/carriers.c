/* SPDX-License-Identifier: Apache-2.0 */
#include "resources.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "transfer/engine.h"

bool carriers_decode(struct json_object *list, unsigned *ret_carriers, struct ferry_json_errors *errors)
{
        *ret_carriers = 0;
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *element = json_object_array_get_idx(list, i);
                const char *name =
                        json_object_is_type(element, json_type_string) ? json_object_get_string(element) : "";
                unsigned carrier = engine_carrier_from_name(name, strlen(name));
                char pointer[FERRY_JSON_POINTER_SIZE];

                if (!carrier) {
                        (void)snprintf(pointer, sizeof(pointer), "/transports/%zu", i);
                        ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer,
                                            "must be one of \"shm\", \"tcp\", \"rdma\", \"http\", \"https\"");
                        break;
                }
                *ret_carriers |= carrier;
        }
        return errors->n == 0;
}

void carriers_write(struct ferry_json_writer *writer, unsigned carriers)
{
        const char *name;

        if (!carriers)
                return;
        ferry_json_open_array(writer, "transports");
        for (size_t i = 0; (name = engine_carrier_name(i)); i++)
                if (carriers & engine_carrier_from_name(name, strlen(name)))
                        ferry_json_put_string(writer, name);
        ferry_json_end_array(writer);
}
