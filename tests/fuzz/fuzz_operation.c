/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/ferry.h>
#include <ferry/json.h>
#include <json-c/json.h>
#include <string.h>

#include "client_internal.h"
#include "fuzz.h"

/* Any bytes as an operation, as the client reads it, alone and in a list. */

static void check_operation(const struct ferry_operation *o)
{
        FUZZ_CHECK(*o->id && strnlen(o->id, sizeof(o->id)) < sizeof(o->id));
        FUZZ_CHECK(!o->n_descriptors || o->descriptors);
        for (size_t i = 0; i < o->n_descriptors; i++) {
                const struct ferry_descriptor *d = &o->descriptors[i];

                FUZZ_CHECK(strnlen(d->region, FERRY_ID_SIZE) < FERRY_ID_SIZE && !d->n_blocks == !d->blocks);
                for (size_t k = 0; k < d->n_blocks; k++)
                        FUZZ_CHECK(d->blocks[k] <= FERRY_JSON_INTEGER_MAX);
        }
        FUZZ_CHECK(!o->metadata || *o->metadata == '{');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ferry_json_errors errors = { .lenient = true };
        struct json_object *json = NULL;
        struct call_page page = { .list = &operation_list };
        struct ferry_operation operation;

        if (ferry_json_parse((const char *)data, size, &json, &errors) != 0) {
                fuzz_check_errors(&errors);
                return 0;
        }
        if (operation_decode(json, &operation, &errors) == 0) {
                check_operation(&operation);
                ferry_operation_clear(&operation);
        } else {
                FUZZ_CHECK(errors.n > 0);
                fuzz_check_errors(&errors);
        }
        if (call_decode_page(json, &page, &errors) == 0) {
                struct ferry_operation_list list = { .items = page.items, .n = page.n, .next = page.next };

                for (size_t i = 0; i < list.n; i++)
                        check_operation(&list.items[i]);
                ferry_operation_list_clear(&list);
        }
        json_object_put(json);
        return 0;
}
