/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include <ferry/json.h>

#include "fuzz.h"
#include "reply.h"

/* Any bytes as the answer of a bridge on NATS: what passes for metadata is JSON that can be printed on a terminal. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL;
        char code[REPLY_CODE_SIZE] = "?";

        switch (reply_read((const char *)data, size, code)) {
        case REPLY_METADATA:
                FUZZ_CHECK(ferry_json_parse((const char *)data, size, &json, &errors) == 0);
                json_object_put(json);
                FUZZ_CHECK(memmem(data, size, "notification_key", 16) || memchr(data, '\\', size));
                for (size_t i = 0; i < size; i++)
                        FUZZ_CHECK(data[i] >= ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t');
                break;
        case REPLY_PROBLEM:
                FUZZ_CHECK(*code && strlen(code) < sizeof(code));
                for (const char *c = code; *c; c++)
                        FUZZ_CHECK((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-');
                break;
        case REPLY_NONSENSE:
                FUZZ_CHECK(strcmp(code, "?") == 0);
                break;
        }
        return 0;
}
