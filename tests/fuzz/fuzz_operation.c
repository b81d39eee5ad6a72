/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/ferry.h>
#include <ferry/json.h>

#include "decode.h"
#include "fuzz_text.h"

/* An operation, as the client reads it: what is read in one pass is what json-c's tree of the text has. */

static void check_descriptors(const struct ferry_operation *a, const struct ferry_operation *b)
{
        FUZZ_CHECK(a->n_descriptors == b->n_descriptors);
        for (size_t i = 0; i < a->n_descriptors; i++) {
                struct ferry_descriptor x = a->descriptors[i], y = b->descriptors[i];

                FUZZ_CHECK(strcmp(x.region, y.region) == 0);
                x.region = y.region;
                FUZZ_CHECK(memcmp(&x, &y, sizeof(x)) == 0);
        }
}

static void check_same(const struct ferry_operation *a, const struct ferry_operation *b)
{
        struct ferry_operation x = *a, y = *b;

        check_descriptors(a, b);
        FUZZ_CHECK(!a->metadata == !b->metadata && (!a->metadata || strcmp(a->metadata, b->metadata) == 0));
        x.descriptors = y.descriptors = NULL;
        x.metadata = y.metadata = NULL;
        FUZZ_CHECK(memcmp(&x, &y, sizeof(x)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = fuzz_text(data, size);
        struct ferry_json_errors errors = { 0 };
        struct ferry_operation scanned, decoded;
        struct ferry_json *json = NULL;
        const char *field = "";

        if (operation_scan(text, size, &scanned)) {
                FUZZ_CHECK(ferry_json_parse(text, size, "metadata", &json, &errors) == 0);
                FUZZ_CHECK(operation_decode(ferry_json_root(json), &decoded, &field) == 0);
                check_same(&scanned, &decoded);
                ferry_operation_clear(&scanned);
                ferry_operation_clear(&decoded);
                (void)ferry_json_free(json);
        }
        free(text);
        return 0;
}
