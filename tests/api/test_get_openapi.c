/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

/* FERRY_OPENAPI names openapi/openapi.yaml of the source tree. */
WITH_WORKER(it_is_the_document_byte_for_byte)
{
        const char *path = getenv("FERRY_OPENAPI");
        char *wanted;
        size_t size;
        FILE *f;

        assert_non_null(path);
        f = fopen(path, "re");
        assert_non_null(f);
        assert_int_equal(fseek(f, 0, SEEK_END), 0);
        size = (size_t)ftell(f);
        rewind(f);
        wanted = malloc(size + 1);
        assert_int_equal(fread(wanted, 1, size, f), size);
        (void)fclose(f);
        assert_true(size > 1000);

        worker_start(w, "w", NULL);
        struct raw_answer answer = raw_exchange(w, "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Content-Type", "application/yaml");
        assert_int_equal(answer.body_size, size);
        assert_memory_equal(answer.body, wanted, size);
        free(wanted);
}

ON_WORKER(the_library_gives_it_as_text)
{
        char *yaml;

        assert_int_equal(ferry_get_openapi(w->client, &yaml), 0);
        assert_non_null(strstr(yaml, "operationId: getOpenapi"));
        free(yaml);
}
