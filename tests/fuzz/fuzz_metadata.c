/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

/* Any bytes as a metadata document. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        fuzz_decode_metadata((const char *)data, size);
        return 0;
}
