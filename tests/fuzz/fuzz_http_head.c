/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include <ferry/error.h>

#include "fuzz_text.h"
#include "serve_internal.h"

/* The first bytes of a connection, as they come in one piece and byte by byte. */

static enum head_verdict classify(const char *bytes, size_t n)
{
        const char *detail = NULL;
        int error = 0;
        enum head_verdict verdict = head_classify(bytes, n, &error, &detail);

        FUZZ_CHECK((verdict == HEAD_REFUSED) == (detail != NULL));
        FUZZ_CHECK((error == FERRY_E_INVALID_PARAMETER || error == FERRY_E_HEAD_TOO_LARGE) ==
                   (verdict == HEAD_REFUSED));
        return verdict;
}

static bool is_chunked(const char *head, size_t n)
{
        static const char encoding[] = "Transfer-Encoding:";

        for (size_t i = 0; i + sizeof(encoding) <= n; i++)
                if (strncasecmp(head + i, encoding, strlen(encoding)) == 0)
                        return true;
        return false;
}

/* What the gate makes of it: whatever comes behind the end of a head changes nothing, but for chunks, whose lines are
 * looked at as far as they have come with the head. */
static void check_head(const char *bytes, size_t size)
{
        enum head_verdict whole = classify(bytes, size), verdict = HEAD_PARTIAL;
        size_t n = 0;

        FUZZ_CHECK(whole != HEAD_FOREIGN && (whole != HEAD_PARTIAL || size < HEAD_MAX));
        while (n < size && verdict == HEAD_PARTIAL)
                verdict = classify(bytes, ++n);
        if (size > 0)
                FUZZ_CHECK(verdict == whole ||
                           (verdict == HEAD_WHOLE && whole == HEAD_REFUSED && is_chunked(bytes, n)));
        if (verdict != HEAD_WHOLE)
                return;
        FUZZ_CHECK(n >= 2 && bytes[n - 1] == '\n' && (bytes[n - 2] == '\n' || bytes[n - 2] == '\r'));
        FUZZ_CHECK(!memchr(bytes, '\0', n) && n < HEAD_MEMORY);
}

static void check_tls(const char *bytes, size_t size)
{
        enum head_verdict whole = head_classify_tls(bytes, size), verdict = HEAD_PARTIAL;

        FUZZ_CHECK(whole != HEAD_REFUSED && (whole != HEAD_PARTIAL || size < HEAD_MAX));
        for (size_t n = 1; n <= size && verdict == HEAD_PARTIAL; n++)
                verdict = head_classify_tls(bytes, n);
        if (size > 0)
                FUZZ_CHECK(verdict == whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *bytes = fuzz_text(data, size < HEAD_MAX ? size : HEAD_MAX);

        size = size < HEAD_MAX ? size : HEAD_MAX;
        check_head(bytes, size);
        check_tls(bytes, size);
        free(bytes);
        return 0;
}
