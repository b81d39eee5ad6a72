/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "api_internal.h"
#include "fuzz_text.h"

/* One byte that picks the size of the content, then a Range header, or a Content-Range. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint64_t sizes[] = { 0, 1, 2, 100, UINT64_C(1) << 32, INT64_MAX, UINT64_MAX };
        size_t row = size ? data[0] % (sizeof(sizes) / sizeof(sizes[0])) : 0;
        char *header = fuzz_text(data + (size > 0), size - (size > 0)), again[64];
        uint64_t first = 7, last = 3, first_again, last_again, total;
        enum range_result result = range_parse(header, sizes[row], &first, &last);

        if (result == RANGE_PARTIAL) {
                FUZZ_CHECK(first <= last && last < sizes[row]);
                (void)snprintf(again, sizeof(again), "bytes=%" PRIu64 "-%" PRIu64, first, last);
                FUZZ_CHECK(range_parse(again, sizes[row], &first_again, &last_again) == RANGE_PARTIAL);
                FUZZ_CHECK(first == first_again && last == last_again);
        } else {
                FUZZ_CHECK(first == 7 && last == 3);
                FUZZ_CHECK(result == RANGE_WHOLE || result == RANGE_UNSATISFIABLE);
        }
        if (content_range_parse(header, &first, &last, &total))
                FUZZ_CHECK(first <= last && last < total && strcasestr(header, "bytes ") == header);
        free(header);
        return 0;
}
