/* SPDX-License-Identifier: Apache-2.0 */
#include "carriers.h"

#include <json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "transfer/engine.h"

static const struct {
        const char *name;
        enum engine_carrier carrier;
} names[] = {
        { "shm", ENGINE_CARRIER_SHM },
        { "tcp", ENGINE_CARRIER_TCP },
        { "rdma", ENGINE_CARRIER_RDMA },
};

static unsigned carrier_of(const char *name)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(names); i++)
                if (strcmp(names[i].name, name) == 0)
                        return names[i].carrier;
        return 0;
}

bool carriers_decode(struct json_object *list, unsigned *ret_carriers, struct ferry_json_errors *errors)
{
        struct ferry_json_elements elements = ferry_json_elements(list);
        struct json_object *element;

        *ret_carriers = 0;
        for (size_t i = 0; ferry_json_next(&elements, &element) > 0; i++) {
                const char *name =
                        json_object_is_type(element, json_type_string) ? json_object_get_string(element) : "";
                unsigned carrier = carrier_of(name);
                char pointer[FERRY_JSON_POINTER_SIZE];

                if (!carrier) {
                        (void)snprintf(pointer, sizeof(pointer), "/transports/%zu", i);
                        ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer,
                                            "must be one of \"shm\", \"tcp\", \"rdma\"");
                        break;
                }
                *ret_carriers |= carrier;
        }
        ferry_json_elements_clear(&elements);
        return errors->n == 0;
}

void carriers_write(struct ferry_json_writer *writer, unsigned carriers)
{
        if (!carriers)
                return;
        ferry_json_key(writer, "transports");
        ferry_json_begin_array(writer);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(names); i++)
                if (carriers & names[i].carrier)
                        ferry_json_put_string(writer, names[i].name);
        ferry_json_end_array(writer);
}
