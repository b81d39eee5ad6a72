/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <ferry/json.h>

#include "fuzz.h"

/* Any bytes as a metadata document. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object = NULL;

        if (ferry_json_parse((const char *)data, size, &object, &errors) == 0)
                fuzz_decode_metadata(ferry_json_root(object));
        (void)ferry_json_free(object);
        return 0;
}
