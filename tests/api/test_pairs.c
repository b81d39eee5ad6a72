/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"

/* What can be wrong between two workers. Each fault has a clear error, costs nothing else, and the workers go on. */

enum { SIZE = 5000 };

/* A pair of workers with a region each, and an offer. */
struct fixture {
        struct pair p;
        const char *local, *offered;
        struct ferry_operation passive;
};

static void fixture_offer(struct fixture *f, enum ferry_kind kind)
{
        ferry_operation_clear(&f->passive);
        offer_make(&f->p.a, kind, f->offered, &f->passive);
}

static void fixture_fill(struct fixture *f, enum ferry_kind kind)
{
        pair_expect_failures(&f->p);
        f->offered = region_make(&f->p.a, SIZE, 3);
        f->local = region_make(&f->p.b, SIZE, 4);
        fixture_offer(f, kind);
}

static void fixture_start(struct fixture *f, bool network, enum ferry_kind kind)
{
        pair_start(&f->p, network);
        fixture_fill(f, kind);
}

static void fixture_stop(struct fixture *f)
{
        ferry_operation_clear(&f->passive);
        pair_stop(&f->p);
}

/* An active operation on b with metadata; kind as wanted, whole region. */
static struct json_object *begin(struct fixture *f, int status, const char *kind, const char *metadata)
{
        const char *more = text_format(",\"remote_metadata\":%s", metadata),
                   *body = operation_body(kind, f->local, more);

        return call_json(&f->p.b, status, "POST", "/v1/operations", body);
}

static void assert_refused(struct fixture *f, int status, const char *kind, const char *metadata, const char *code)
{
        struct json_object *problem = begin(f, status, kind, metadata);

        assert_string_equal(json_text(problem, "code"), code);
}

static void assert_fails(struct fixture *f, const char *kind, const char *metadata, enum ferry_status status, int error)
{
        struct json_object *operation = begin(f, 201, kind, metadata);

        operation_assert_error(&f->p.b, json_text(operation, "id"), status, error);
}

static const char *active_name(const struct fixture *f)
{
        return ferry_kind_name((int)kind_of_peer((enum ferry_kind)f->passive.kind));
}

/* The offer can still be used by who has its metadata, and moves the right bytes. */
static void assert_still_good(struct fixture *f)
{
        bool readable = f->passive.kind == FERRY_READABLE;
        OPERATION now;
        struct json_object *active;

        assert_int_equal(ferry_get_operation(f->p.a.client, f->passive.id, 0, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        assert_int_equal(now.bytes_done, 0);
        active = begin(f, 201, active_name(f), f->passive.metadata);
        operation_assert_end(&f->p.b, json_text(active, "id"), FERRY_COMPLETE, NULL);
        operation_assert_end(&f->p.a, f->passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(&f->p.a, f->offered, readable ? 3 : 4, 0, SIZE);
        region_assert_pattern(&f->p.b, f->local, readable ? 3 : 4, 0, SIZE);
        pair_assert_serving(&f->p);
}

/* Runs a story for both sides of the data plane and both kinds of offers. */
static void for_each(struct fixture *f, void (*story)(struct fixture *f))
{
        static const enum ferry_kind kinds[] = { FERRY_READABLE, FERRY_WRITABLE };

        for (int i = 0; i < 4; i++) {
                fixture_start(f, i & 1, kinds[i >> 1]);
                story(f);
                fixture_stop(f);
        }
}

#define CASE(name) SCENE(struct fixture, f, name, (void)0)

/* A story for both sides and both kinds. */
#define FOR_EACH(name)                                                                                                 \
        static void story_##name(struct fixture *f);                                                                   \
        CASE(name)                                                                                                     \
        {                                                                                                              \
                for_each(f, story_##name);                                                                             \
        }                                                                                                              \
        static void story_##name(struct fixture *f)

/* ---- the two do not fit ---- */

FOR_EACH (metadata_of_the_other_kind_is_refused) {
        const char *wrong = f->passive.kind == FERRY_READABLE ? "write" : "read";

        assert_refused(f, 409, wrong, f->passive.metadata, "kind-mismatch");
        assert_still_good(f);
}

FOR_EACH (metadata_of_another_protocol_are_refused_before_all_else) {
        /* {"protocol":99} */
        const char *later = metadata_with(f->passive.metadata, "nixl_metadata",
                                          json_object_new_string("b64:eAEBDwDw/3sicHJvdG9jb2wiOjk5fS0xBVs="));

        assert_refused(f, 409, "read", later, "protocol-mismatch");
        assert_refused(f, 409, "write", later, "protocol-mismatch");
        assert_still_good(f);
}

FOR_EACH (sizes_that_differ_are_refused) {
        /* $ = the region of SIZE bytes. */
        static const struct {
                const char *descriptors, *layout;
        } cases[] = {
                { "[{\"region\":\"%s\",\"size\":4999}]", "pairwise" },
                { "[{\"region\":\"%s\",\"size\":4999}]", "stream" },
                { "[{\"region\":\"%s\",\"offset\":1}]", "pairwise" },
                { "[{\"region\":\"%s\",\"size\":2500},{\"region\":\"%s\",\"size\":2500}]", "pairwise" },
                { "[{\"region\":\"%s\",\"size\":2500},{\"region\":\"%s\",\"size\":2501}]", "stream" },
                { "[{\"region\":\"%s\"},{\"region\":\"%s\",\"size\":1}]", "stream" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *first = strstr(cases[i].descriptors, "%s"), *second = strstr(first + 2, "%s");
                const char *list = second ? text_format("%.*s%s%.*s%s%s", (int)(first - cases[i].descriptors),
                                                        cases[i].descriptors, f->local, (int)(second - first - 2),
                                                        first + 2, f->local, second + 2)
                                          : text_format("%.*s%s%s", (int)(first - cases[i].descriptors),
                                                        cases[i].descriptors, f->local, first + 2);
                const char *body =
                        text_format("{\"kind\":\"%s\",\"descriptors\":%s,\"layout\":\"%s\",\"remote_metadata\":%s}",
                                    active_name(f), list, cases[i].layout, f->passive.metadata);

                assert_problem(&f->p.b, "POST", "/v1/operations", body, 409, "size-mismatch", "/remote_metadata");
        }
        assert_still_good(f);
}

/* ---- metadata that was changed ---- */

FOR_EACH (a_wrong_key_is_refused_and_does_not_use_up_the_offer) {
        const char *changed = metadata_with(f->passive.metadata, "notification_key",
                                            json_object_new_string("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));

        assert_fails(f, active_name(f), changed, FERRY_ERRORED, FERRY_E_PEER_REFUSED);
        assert_still_good(f);
}

/* Either it is refused at once, or the operation fails; it never completes. */
static void assert_never_completes(struct fixture *f, const char *metadata)
{
        const char *body = operation_body(active_name(f), f->local, text_format(",\"remote_metadata\":%s", metadata));
        struct ferry_operation operation;
        struct json_object *document;
        struct ferry_answer answer;

        (void)ferry_request(f->p.b.client, "POST", "/v1/operations", "application/json", body, strlen(body), &answer);
        document = json_parse(answer.body);
        if (answer.http_status == 201) {
                operation_assert_end(&f->p.b, json_text(document, "id"), FERRY_ERRORED, &operation);
                assert_string_equal(operation.error_code, "peer-refused");
                assert_int_equal(operation.bytes_done, 0);
                ferry_operation_clear(&operation);
        } else {
                assert_int_equal(answer.http_status, 400);
                assert_string_equal(json_text(document, "code"), "invalid-metadata");
        }
        ferry_answer_clear(&answer);
}

/* Every position of a text member gets another character of the same alphabet. */
static void change_text(struct fixture *f, const char *name)
{
        char *text = strdup(json_text(json_parse(f->passive.metadata), name));

        for (size_t i = 0; text[i]; i++) {
                char was = text[i];
                const char *changed;

                text[i] = was == 'A' ? 'Q' : 'A';
                changed = metadata_with(f->passive.metadata, name, json_object_new_string(text));
                assert_never_completes(f, changed);
                text[i] = was;
        }
        free(text);
}

static void change_descriptor(struct fixture *f, const char *name, struct json_object *value)
{
        struct json_object *metadata = json_parse(f->passive.metadata);

        json_object_object_add(json_object_array_get_idx(json_member(metadata, "descriptors"), 0), name, value);
        assert_never_completes(f, json_object_to_json_string(metadata));
}

FOR_EACH (metadata_changed_in_any_byte_never_completes) {
        struct json_object *metadata = json_parse(f->passive.metadata);
        int64_t ptr = (int64_t)json_number(json_object_array_get_idx(json_member(metadata, "descriptors"), 0), "ptr");

        change_text(f, "nixl_metadata");
        change_text(f, "notification_key");
        change_descriptor(f, "ptr", json_object_new_int64(ptr + 1));
        change_descriptor(f, "size", json_object_new_int64(SIZE + 1));
        change_descriptor(f, "device", json_object_new_string("cpt"));
        change_descriptor(f, "device", json_object_new_string("cuda:0"));
        assert_never_completes(f, metadata_with(f->passive.metadata, "operation_kind",
                                                json_object_new_int(f->passive.kind == FERRY_READABLE ? 2 : 1)));
        assert_still_good(f);
}

/* ---- metadata whose time is over ---- */

FOR_EACH (metadata_serves_once) {
        assert_still_good(f);
        assert_fails(f, active_name(f), f->passive.metadata, FERRY_ERRORED, FERRY_E_ALREADY_CLAIMED);
        pair_assert_serving(&f->p);
}

FOR_EACH (metadata_of_an_ended_offer_tells_how_it_ended) {
        enum ferry_kind kind = (enum ferry_kind)f->passive.kind;

        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->passive.id, NULL), 0);
        assert_fails(f, active_name(f), f->passive.metadata, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        assert_int_equal(ferry_delete_operation(f->p.a.client, f->passive.id), 0);
        assert_fails(f, active_name(f), f->passive.metadata, FERRY_ERRORED, FERRY_E_STALE_METADATA);
        fixture_offer(f, kind);
        assert_int_equal(ferry_delete_operation(f->p.a.client, f->passive.id), 0);
        assert_fails(f, active_name(f), f->passive.metadata, FERRY_ERRORED, FERRY_E_STALE_METADATA);
        fixture_offer(f, kind);
        assert_still_good(f);
}

FOR_EACH (expired_metadata_is_refused) {
        const enum ferry_kind kind = (enum ferry_kind)f->passive.kind;
        OPERATION brief;

        /* The metadata says so itself. */
        OFFER(&f->p.a, f->offered, &brief, .kind = kind, .ttl_ms = 20);
        operation_assert_error(&f->p.a, brief.id, FERRY_CANCELLED, FERRY_E_EXPIRED);
        assert_refused(f, 410, active_name(f), brief.metadata, "metadata-expired");
        ferry_operation_clear(&brief);
        /* The offer was given less time later. */
        offer_make(&f->p.a, kind, f->offered, &brief);
        assert_int_equal(ferry_renew_operation(f->p.a.client, brief.id, 1, NULL), 0);
        operation_assert_error(&f->p.a, brief.id, FERRY_CANCELLED, FERRY_E_EXPIRED);
        assert_fails(f, active_name(f), brief.metadata, FERRY_CANCELLED, FERRY_E_EXPIRED);
        assert_still_good(f);
}

/* ---- the worker is not there any more ---- */

/* connected: there was an endpoint, whose loss may be what is noticed first. */
static void story_gone(struct fixture *f, bool connected)
{
        struct json_object *operation;
        OPERATION end;
        uint64_t start;

        worker_kill(&f->p.a);
        start = now_ms();
        operation = begin(f, 201, active_name(f), f->passive.metadata);
        operation_assert_end(&f->p.b, json_text(operation, "id"), FERRY_ERRORED, &end);
        if (!connected || end.error != FERRY_E_PEER_LOST)
                assert_string_equal(end.error_code, "peer-unreachable");
        assert_true(now_ms() - start < 8000);
        worker_clean(&f->p.a);
}

CASE(a_worker_that_is_gone_is_unreachable_within_seconds)
{
        static const enum ferry_kind kinds[] = { FERRY_READABLE, FERRY_WRITABLE };

        for (int i = 0; i < 4; i++) {
                fixture_start(f, i & 1, kinds[i >> 1]);
                if (i >> 1)
                        pair_assert_serving(&f->p); /* with and without a connection from before */
                story_gone(f, i >> 1);
                worker_start(&f->p.a, "a", f->p.network ? tcp_flags : NULL);
                pair_assert_serving(&f->p);
                fixture_stop(f);
        }
}

/* data NULL: over the local transport. */
static void start_at(struct worker *w, const char *http, const char *data)
{
        const char *flags[] = { "--listen", http, data ? "--data-listen" : NULL, data, "--local", "off", "--transports",
                                "tcp,self", NULL };

        worker_start_plain(w, "a", flags);
        worker_connect(w, NULL, NULL);
}

/* The same ports, another process: the old metadata finds it, and is told that it is stale. */
CASE(metadata_of_a_restarted_worker_is_stale)
{
        static const enum ferry_kind kinds[] = { FERRY_READABLE, FERRY_WRITABLE };

        for (int i = 0; i < 4; i++) {
                const char *http = address_hold(), *data = i & 1 ? address_hold() : NULL;

                start_at(&f->p.a, http, data);
                worker_start(&f->p.b, "b", data ? tcp_flags : NULL);
                fixture_fill(f, kinds[i >> 1]);
                if (i >> 1)
                        pair_assert_serving(&f->p);
                worker_kill(&f->p.a);
                worker_clean(&f->p.a);
                start_at(&f->p.a, http, data);
                /* Locally nobody of that epoch is there: its successor says so over HTTP, as on the network. */
                assert_fails(f, active_name(f), f->passive.metadata, FERRY_ERRORED, FERRY_E_STALE_METADATA);
                pair_assert_serving(&f->p);
                fixture_stop(f);
        }
}
