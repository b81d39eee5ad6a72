/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

/* JSON bodies that are good JSON, but whose fields are not right: type, range, name, place, and what goes together. */

struct field_case {
        const char *body;
        int status;
        const char *code, *pointer;
};

/* clang-format off */
#define INVALID(body, pointer) { body, 400, "invalid-parameter", pointer }
#define UNKNOWN(body, pointer) { body, 400, "unknown-field", pointer }
/* clang-format on */

WITH_WORKER(each_field_of_a_region_is_checked)
{
        static const struct field_case rows[] = {
                INVALID("{}", "/size"),
                INVALID("{\"size\":null}", "/size"),
                INVALID("{\"size\":\"1\"}", "/size"),
                INVALID("{\"size\":\"\"}", "/size"),
                INVALID("{\"size\":true}", "/size"),
                INVALID("{\"size\":[1]}", "/size"),
                INVALID("{\"size\":{\"bytes\":1}}", "/size"),
                INVALID("{\"size\":1.5}", "/size"),
                INVALID("{\"size\":1.0}", "/size"),
                INVALID("{\"size\":1e3}", "/size"),
                INVALID("{\"size\":1e999}", "/size"),
                INVALID("{\"size\":0}", "/size"),
                INVALID("{\"size\":-0}", "/size"),
                INVALID("{\"size\":-1}", "/size"),
                INVALID("{\"size\":-9223372036854775808}", "/size"),
                INVALID("{\"size\":-99999999999999999999999}", "/size"),
                INVALID("{\"size\":9007199254740992}", "/size"),
                INVALID("{\"size\":9223372036854775807}", "/size"),
                INVALID("{\"size\":9223372036854775808}", "/size"),
                INVALID("{\"size\":18446744073709551615}", "/size"),
                INVALID("{\"size\":18446744073709551617}", "/size"), /* 1 in 64 bits */
                INVALID("{\"size\":340282366920938463463374607431768211457}", "/size"),
                INVALID("{\"size\":1,\"device\":0}", "/device"),
                INVALID("{\"size\":1,\"device\":null}", "/device"),
                INVALID("{\"size\":1,\"device\":[\"cpu\"]}", "/device"),
                INVALID("{\"size\":1,\"name\":5}", "/name"),
                INVALID("{\"size\":1,\"name\":null}", "/name"),
                INVALID("{\"size\":1,\"name\":{}}", "/name"),
                UNKNOWN("{\"size\":1,\"nam\":\"x\"}", "/nam"),
                UNKNOWN("{\"size\":1,\"Size\":1}", "/Size"),
                UNKNOWN("{\"size\":1,\"\":1}", "/"),
                UNKNOWN("{\"size\":1,\"id\":\"rgn_0000000000000001\"}", "/id"),
                UNKNOWN("{\"size\":1,\"path\":\"/etc/passwd\"}", "/path"),
                UNKNOWN("{\"size\":1,\"a/b~c\":1}", "/a~1b~0c"),
                UNKNOWN("{\"size\":1,\"x\":{\"y\":[1,2,{\"z\":null}]}}", "/x"),
        };

        worker_start(w, "w", NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                body_refused_text(w, "/v1/regions", rows[i].body, rows[i].status, rows[i].code, rows[i].pointer);
        worker_assert_untouched(w);
}

static const char *with(const char *body, const char *word, const char *text)
{
        const char *at;

        while ((at = strstr(body, word)))
                body = text_format("%.*s%s%s", (int)(at - body), body, text, at + strlen(word));
        return body;
}

/* In the bodies, REGION stands for a region of 100 bytes. */
static const char *with_region(const char *body, const char *id)
{
        return with(body, "REGION", id);
}

#define ONE "\"descriptors\":[{\"region\":\"REGION\"}]"
#define SLICE(members)                                                                                                 \
        "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"REGION\"},{\"region\":\"REGION\"," members "}]}"

ON_WORKER(each_field_of_an_operation_is_checked)
{
        static const struct field_case rows[] = {
                INVALID("{}", "/kind"),
                INVALID("{" ONE "}", "/kind"),
                INVALID("{\"kind\":\"readable\"}", "/descriptors"),
                INVALID("{\"kind\":null," ONE "}", "/kind"),
                INVALID("{\"kind\":1," ONE "}", "/kind"),
                INVALID("{\"kind\":\"\"," ONE "}", "/kind"),
                INVALID("{\"kind\":\"Readable\"," ONE "}", "/kind"),
                INVALID("{\"kind\":\"readable \"," ONE "}", "/kind"),
                INVALID("{\"kind\":\"move\"," ONE "}", "/kind"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":null}", "/descriptors"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":{}}", "/descriptors"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":\"REGION\"}", "/descriptors"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[]}", "/descriptors"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[1]}", "/descriptors/0"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[null]}", "/descriptors/0"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[\"REGION\"]}", "/descriptors/0"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[[]]}", "/descriptors/0"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[{}]}", "/descriptors/0/region"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[{\"region\":5}]}", "/descriptors/0/region"),
                INVALID("{\"kind\":\"readable\",\"descriptors\":[{\"region\":null}]}", "/descriptors/0/region"),
                { "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"\"}]}", 404, "not-found",
                  "/descriptors/0/region" },
                { "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"rgn_0000000000000001\"}]}", 404, "not-found",
                  "/descriptors/0/region" },
                { "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"REGION\"},{\"region\":\"../REGION\"}]}", 404,
                  "not-found", "/descriptors/1/region" },
                INVALID(SLICE("\"offset\":-1"), "/descriptors/1/offset"),
                INVALID(SLICE("\"offset\":\"1\""), "/descriptors/1/offset"),
                INVALID(SLICE("\"offset\":1.5"), "/descriptors/1/offset"),
                INVALID(SLICE("\"offset\":null"), "/descriptors/1/offset"),
                INVALID(SLICE("\"offset\":9007199254740992"), "/descriptors/1/offset"),
                INVALID(SLICE("\"offset\":18446744073709551616"), "/descriptors/1/offset"),
                INVALID(SLICE("\"size\":0"), "/descriptors/1/size"),
                INVALID(SLICE("\"size\":-1"), "/descriptors/1/size"),
                INVALID(SLICE("\"size\":\"1\""), "/descriptors/1/size"),
                INVALID(SLICE("\"size\":1.0"), "/descriptors/1/size"),
                INVALID(SLICE("\"size\":18446744073709551616"), "/descriptors/1/size"),
                { SLICE("\"offset\":100"), 400, "out-of-bounds", "/descriptors/1/offset" },
                { SLICE("\"offset\":9007199254740991"), 400, "out-of-bounds", "/descriptors/1/offset" },
                { SLICE("\"offset\":9007199254740991,\"size\":9007199254740991"), 400, "out-of-bounds",
                  "/descriptors/1/offset" },
                { SLICE("\"size\":101"), 400, "out-of-bounds", "/descriptors/1/size" },
                { SLICE("\"offset\":1,\"size\":100"), 400, "out-of-bounds", "/descriptors/1/size" },
                { SLICE("\"offset\":99,\"size\":9007199254740991"), 400, "out-of-bounds", "/descriptors/1/size" },
                INVALID(SLICE("\"size\":1,\"count\":0"), "/descriptors/1/count"),
                INVALID(SLICE("\"size\":1,\"count\":-1"), "/descriptors/1/count"),
                INVALID(SLICE("\"size\":1,\"count\":\"2\""), "/descriptors/1/count"),
                INVALID(SLICE("\"size\":1,\"count\":9007199254740992"), "/descriptors/1/count"),
                INVALID(SLICE("\"count\":2"), "/descriptors/1/size"),
                INVALID(SLICE("\"size\":1,\"stride\":0"), "/descriptors/1/stride"),
                INVALID(SLICE("\"size\":2,\"stride\":1"), "/descriptors/1/stride"),
                INVALID(SLICE("\"size\":2,\"count\":2,\"stride\":1"), "/descriptors/1/stride"),
                INVALID(SLICE("\"stride\":99"), "/descriptors/1/stride"),
                { SLICE("\"size\":1,\"count\":101"), 400, "out-of-bounds", "/descriptors/1/count" },
                INVALID(SLICE("\"size\":1,\"blocks\":[]"), "/descriptors/1/blocks"),
                INVALID(SLICE("\"size\":1,\"blocks\":1"), "/descriptors/1/blocks"),
                INVALID(SLICE("\"size\":1,\"blocks\":{}"), "/descriptors/1/blocks"),
                INVALID(SLICE("\"size\":1,\"blocks\":null"), "/descriptors/1/blocks"),
                INVALID(SLICE("\"size\":1,\"blocks\":[1,-1]"), "/descriptors/1/blocks/1"),
                INVALID(SLICE("\"size\":1,\"blocks\":[1,2,\"3\"]"), "/descriptors/1/blocks/2"),
                INVALID(SLICE("\"size\":1,\"blocks\":[1.0]"), "/descriptors/1/blocks/0"),
                INVALID(SLICE("\"size\":1,\"blocks\":[1e0]"), "/descriptors/1/blocks/0"),
                INVALID(SLICE("\"size\":1,\"blocks\":[[1]]"), "/descriptors/1/blocks/0"),
                INVALID(SLICE("\"size\":1,\"blocks\":[9007199254740992]"), "/descriptors/1/blocks/0"),
                INVALID(SLICE("\"blocks\":[1]"), "/descriptors/1/size"),
                INVALID(SLICE("\"size\":1,\"count\":1,\"blocks\":[1]"), "/descriptors/1/blocks"),
                INVALID(SLICE("\"size\":1,\"stride\":1,\"blocks\":[1]"), "/descriptors/1/blocks"),
                { SLICE("\"size\":10,\"blocks\":[9,10]"), 400, "out-of-bounds", "/descriptors/1/blocks/1" },
                { SLICE("\"offset\":1,\"size\":10,\"blocks\":[8,9]"), 400, "out-of-bounds", "/descriptors/1/blocks/1" },
                { SLICE("\"size\":101,\"blocks\":[0]"), 400, "out-of-bounds", "/descriptors/1/blocks/0" },
                { SLICE("\"size\":2,\"blocks\":[9007199254740991]"), 400, "out-of-bounds", "/descriptors/1/blocks/0" },
                { SLICE("\"size\":101,\"count\":2"), 400, "out-of-bounds", "/descriptors/1/size" },
                { SLICE("\"offset\":1,\"size\":50,\"count\":2"), 400, "out-of-bounds", "/descriptors/1/count" },
                { SLICE("\"size\":1,\"count\":2,\"stride\":100"), 400, "out-of-bounds", "/descriptors/1/count" },
                { SLICE("\"size\":1,\"count\":2,\"stride\":9007199254740991"), 400, "out-of-bounds",
                  "/descriptors/1/count" },
                { SLICE("\"size\":1,\"count\":9007199254740991,\"stride\":9007199254740991"), 400, "out-of-bounds",
                  "/descriptors/1/count" },
                { SLICE("\"size\":1,\"count\":2049,\"stride\":9007199254740991"), 400, "out-of-bounds",
                  "/descriptors/1/count" },
                UNKNOWN(SLICE("\"length\":1"), "/descriptors/1/length"),
                UNKNOWN(SLICE("\"ptr\":4096"), "/descriptors/1/ptr"),
                UNKNOWN("{\"kind\":\"readable\"," ONE ",\"status\":\"COMPLETE\"}", "/status"),
                UNKNOWN("{\"kind\":\"readable\"," ONE ",\"id\":\"op_0000000000000001\"}", "/id"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"layout\":\"\"}", "/layout"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"layout\":null}", "/layout"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"layout\":\"STREAM\"}", "/layout"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"readers\":0}", "/readers"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"readers\":-1}", "/readers"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"readers\":4294967297}", "/readers"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"readers\":\"2\"}", "/readers"),
                INVALID("{\"kind\":\"writable\"," ONE ",\"readers\":2}", "/readers"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"ttl_ms\":0}", "/ttl_ms"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"ttl_ms\":86400001}", "/ttl_ms"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"ttl_ms\":1e3}", "/ttl_ms"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"timeout_ms\":5}", "/timeout_ms"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"verify\":true}", "/verify"),
                INVALID("{\"kind\":\"read\"," ONE ",\"verify\":1,\"remote_url\":\"http://127.0.0.1:1/\"}", "/verify"),
                INVALID("{\"kind\":\"read\"," ONE ",\"verify\":\"true\",\"remote_url\":\"http://127.0.0.1:1/\"}",
                        "/verify"),
                INVALID("{\"kind\":\"read\"," ONE ",\"timeout_ms\":0,\"remote_url\":\"http://127.0.0.1:1/\"}",
                        "/timeout_ms"),
                INVALID("{\"kind\":\"read\"," ONE ",\"ttl_ms\":5,\"remote_url\":\"http://127.0.0.1:1/\"}", "/ttl_ms"),
                INVALID("{\"kind\":\"readable\"," ONE ",\"remote_url\":\"http://127.0.0.1:1/\"}", "/remote_url"),
                INVALID("{\"kind\":\"writable\"," ONE ",\"remote_metadata\":{}}", "/remote_metadata"),
                INVALID("{\"kind\":\"read\"," ONE "}", ""),
                INVALID("{\"kind\":\"write\"," ONE "}", ""),
                INVALID("{\"kind\":\"read\"," ONE ",\"remote_metadata\":{},\"remote_url\":\"http://127.0.0.1:1/\"}",
                        ""),
                INVALID("{\"kind\":\"read\"," ONE ",\"remote_metadata\":null}", "/remote_metadata"),
                INVALID("{\"kind\":\"read\"," ONE ",\"remote_metadata\":\"{}\"}", "/remote_metadata"),
                INVALID("{\"kind\":\"read\"," ONE ",\"remote_metadata\":[]}", "/remote_metadata"),
                INVALID("{\"kind\":\"read\"," ONE ",\"remote_url\":\"\"}", "/remote_url"),
                INVALID("{\"kind\":\"read\"," ONE ",\"remote_url\":7}", "/remote_url"),
        };
        struct ferry_region region;
        const char *id = region_make(w, 100, 0);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *body = with_region(rows[i].body, id);

                body_refused_text(w, "/v1/operations", body, rows[i].status, rows[i].code, rows[i].pointer);
        }
        assert_int_equal(ferry_get_region(w->client, id, &region), 0);
        assert_int_equal(region.in_use, 0);
        region_drop(w, id);
        worker_assert_untouched(w);
}

/* METADATA are those of an offer of 100 bytes. */
#define READ_OF(slice, behind) "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"REGION\"" slice "}]" behind
#define READ(slice) READ_OF(slice, ",\"remote_metadata\":METADATA}")
#define READ_AND(behind) READ_OF("", ",\"remote_metadata\":METADATA" behind)
#define NOT_JSON(body)                                                                                                 \
        {                                                                                                              \
                body, 400, "invalid-json", ""                                                                          \
        }

ON_WORKER(the_form_of_a_body_does_not_matter)
{
        static const struct field_case refused[] = {
                NOT_JSON("{\"kind\":\"readable\"," ONE "}x"),
                NOT_JSON(READ_AND("")),
                NOT_JSON(READ_AND("}}")),
                NOT_JSON(READ_AND("}x")),
                NOT_JSON(READ_AND("},")),
                NOT_JSON(READ_AND("} {}")),
                NOT_JSON(READ(",\"offset\":")),
                NOT_JSON(READ_OF("", ",\"remote_metadata\":}")),
                INVALID(READ(",\"offset\":-1"), "/descriptors/0/offset"),
                INVALID(READ(",\"offset\":1.5"), "/descriptors/0/offset"),
                INVALID(READ(",\"offset\":1e0"), "/descriptors/0/offset"),
                INVALID(READ(",\"offset\":\"1\""), "/descriptors/0/offset"),
                INVALID(READ(",\"offset\":9007199254740992"), "/descriptors/0/offset"),
                INVALID(READ(",\"offset\":18446744073709551616"), "/descriptors/0/offset"),
                INVALID(READ(",\"size\":0"), "/descriptors/0/size"),
                INVALID(READ(",\"size\":18446744073709551617"), "/descriptors/0/size"),
                { READ(",\"offset\":100"), 400, "out-of-bounds", "/descriptors/0/offset" },
                { READ(",\"size\":101"), 400, "out-of-bounds", "/descriptors/0/size" },
                { READ(",\"offset\":1,\"size\":100"), 400, "out-of-bounds", "/descriptors/0/size" },
                { READ(",\"offset\":1"), 409, "size-mismatch", "/remote_metadata" },
                { READ_OF("x", ",\"remote_metadata\":METADATA}"), 400, "invalid-json", "" },
                UNKNOWN(READ(",\"length\":1"), "/descriptors/0/length"),
                UNKNOWN(READ_AND(",\"colour\":{}}"), "/colour"),
                INVALID(READ_AND(",\"verify\":{}}"), "/verify"),
                INVALID(READ_OF("", "}"), ""),
                INVALID("{\"kind\":\"readable\"," ONE ",\"remote_metadata\":METADATA}", "/remote_metadata"),
                INVALID("{\"kind\":\"move\"," ONE ",\"remote_metadata\":METADATA}", "/kind"),
                { "{\"kind\":\"write\"," ONE ",\"remote_metadata\":METADATA}", 409, "kind-mismatch",
                  "/remote_metadata" },
                { "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"rgn_0000000000000001\"}],"
                  "\"remote_metadata\":METADATA}",
                  404, "not-found", "/descriptors/0/region" },
        };
        static const char *const taken[] = {
                READ(""),
                READ(",\"offset\":0"),
                READ(",\"size\":100"),
                READ(",\"offset\":0,\"size\":100"),
                READ(",\"size\":100,\"offset\":0"),
                READ_AND("}\n"),
                READ_AND(" \r\n\t} "),
                READ_AND(",\"verify\":true}"),
                READ_AND(",}"),
                READ_AND(",\"kind\":\"read\"}"),
                READ_AND(",\"remote_metadata\":METADATA}"),
                READ(",\"offset\":1,\"offset\":0"),
                READ(",\"size\":1,\"region\":\"REGION\",\"size\":100"),
                " { \"kind\" : \"read\" , \"descriptors\" : [ { \"region\" : \"REGION\" , \"size\" : 100 } ] ,"
                " \"remote_metadata\" : METADATA } ",
                "{\"remote_metadata\":METADATA," ONE ",\"kind\":\"read\"}",
                "{\"k\\u0069nd\":\"re\\u0061d\"," ONE ",\"remote_metadata\":METADATA}",
        };
        const char *source = region_make(w, 100, 0), *target = region_make(w, 100, 0), *offer, *metadata;

        offer = text_format("{\"kind\":\"readable\"," ONE ",\"uses\":%zu}", sizeof(taken) / sizeof(taken[0]));
        offer = json_text(call_json(w, 201, "POST", "/v1/operations", with_region(offer, source)), "id");
        struct ferry_answer answer;
        const struct ferry_exchange get = { .method = "GET", .path = text_format("/v1/operations/%s/metadata", offer) };
        assert_int_equal(ferry_exchange_perform(w->client, &get, &answer), 0);
        metadata = text_format("%s", answer.body);
        ferry_answer_clear(&answer);
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                const char *body = with(with_region(refused[i].body, target), "METADATA", metadata);

                body_refused_text(w, "/v1/operations", body, refused[i].status, refused[i].code, refused[i].pointer);
        }
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
                const char *body = with(with_region(taken[i], target), "METADATA", metadata);
                OPERATION end;

                const char *id = json_text(call_json(w, 201, "POST", "/v1/operations", body), "id");
                assert_int_equal(ferry_wait_operation(w->client, id, 20000, &end), 0);
                assert_int_equal(end.status, FERRY_COMPLETE);
        }
}

ON_WORKER(too_many_descriptors_are_refused)
{
        struct json_object *limits;
        uint64_t most;
        char *body;
        size_t n;

        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        most = json_number(limits, "descriptors_max");
        body = malloc(most * 3 + 100);
        n = (size_t)sprintf(body, "{\"kind\":\"readable\",\"descriptors\":[{}");
        for (uint64_t i = 0; i < most; i++, n += 3)
                memcpy(body + n, ",{}", 3);
        memcpy(body + n, "]}", 3);
        body_refused_text(w, "/v1/operations", body, 400, "invalid-parameter", "/descriptors");
        free(body);
        worker_assert_untouched(w);
}

/* Its body may be left out; what is there is checked. */
WITH_WORKER(the_body_of_renew_is_checked_too)
{
        static const struct field_case rows[] = {
                { "{", 400, "invalid-json", "" },
                INVALID("{'ttl_ms':0}", "/ttl_ms"),
                INVALID("[]", ""),
                INVALID("null", ""),
                INVALID("{\"ttl_ms\":0}", "/ttl_ms"),
                INVALID("{\"ttl_ms\":\"5\"}", "/ttl_ms"),
                INVALID("{\"ttl_ms\":86400001}", "/ttl_ms"),
                UNKNOWN("{\"ttl\":5}", "/ttl"),
        };
        OPERATION operation;
        const char *path;

        worker_start(w, "w", NULL);
        const char *region = region_make(w, 1, 0);
        offer_make(w, FERRY_READABLE, region, &operation);
        path = text_format("/v1/operations/%s/renew", operation.id);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                body_refused_text(w, path, rows[i].body, rows[i].status, rows[i].code, rows[i].pointer);
        call_json(w, 200, "POST", path, NULL);
}
