/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <ferry/encoding.h>

#include "fuzz.h"

/*
 * What lies behind base64 and a checksum, which chance does not get past: any bytes as the document within the blob of
 * an otherwise good metadata document, or, when the first byte is 0, as its zlib stream.
 */

static char *pack(const uint8_t *data, size_t size)
{
        uLongf packed = compressBound(size);
        Bytef *stream = malloc(packed);
        char *text;

        FUZZ_CHECK(stream && compress2(stream, &packed, data, size, Z_NO_COMPRESSION) == Z_OK);
        text = ferry_base64_encode(stream, packed);
        free(stream);
        return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *base64 = size > 0 && data[0] == 0 ? ferry_base64_encode(data + 1, size - 1) : pack(data, size);
        char *document = NULL;

        FUZZ_CHECK(base64 && asprintf(&document,
                                      "{\"descriptors\":[{\"device\":\"cpu\",\"ptr\":4294967296,\"size\":1048576}],"
                                      "\"nixl_metadata\":\"b64:%s\","
                                      "\"notification_key\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
                                      "\"operation_kind\":1}",
                                      base64) > 0);
        fuzz_decode_metadata(document, strlen(document));
        free(base64);
        free(document);
        return 0;
}
