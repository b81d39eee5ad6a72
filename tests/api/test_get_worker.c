/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <ferry/protocol.h>

#include "wire.h"

static struct json_object *worker_json(struct worker *w)
{
        return call_json(w, 200, "GET", "/v1/worker", NULL);
}

static const char *address_text(struct json_object *worker, const char *name)
{
        struct json_object *addresses = json_member(worker, "addresses"), *list;

        if (strcmp(name, "data") == 0)
                return json_text(addresses, name);
        list = json_member(addresses, name);
        assert_true(json_object_array_length(list) > 0);
        return json_object_get_string(json_object_array_get_idx(list, 0));
}

WITH_WORKER(it_says_who_the_worker_is)
{
        struct ferry_worker_info info;
        struct json_object *worker;

        worker_start(w, "alice", NULL);
        worker = worker_json(w);
        assert_string_equal(json_text(worker, "name"), "alice");
        assert_string_equal(json_text(worker, "version"), ferry_version());
        assert_false(json_object_object_get_ex(worker, "ucx_version", NULL)); /* it is not loaded */
        assert_int_equal(json_number(worker, "pid"), w->pid);
        assert_true(json_truth(worker, "local"));
        assert_int_equal(strlen(json_text(worker, "epoch")), 16);
        assert_int_equal(strspn(json_text(worker, "epoch"), "0123456789abcdef"), 16);
        assert_int_equal(strlen(json_text(worker, "started_at")), strlen("2026-01-31T12:00:00.000Z"));

        /* The library reads the same. */
        assert_int_equal(ferry_get_worker(w->client, &info), 0);
        assert_string_equal(info.name, "alice");
        assert_string_equal(info.epoch, json_text(worker, "epoch"));
        assert_int_equal(info.protocol, FERRY_PROTOCOL);
        assert_int_equal(json_number(worker, "protocol"), FERRY_PROTOCOL);
        if (*info.commit)
                assert_true(strspn(info.commit, "0123456789abcdef") >= 12);
        assert_true(info.uptime_ms >= json_number(worker, "uptime_ms"));
        ferry_worker_info_clear(&info);
}

WITH_WORKER(it_gives_the_addresses_of_the_ready_line)
{
        struct json_object *worker;

        worker_start(w, "w", NULL);
        worker = worker_json(w);
        assert_string_equal(address_text(worker, "http"), w->url);
        assert_false(json_object_object_get_ex(json_member(worker, "addresses"), "data", NULL));
        worker_stop(w);

        worker_start(w, "w", STRINGS("--data-listen", "127.0.0.1:0", "--transports", "tcp,self", "--local", "off"));
        worker = worker_json(w);
        assert_string_equal(address_text(worker, "http"), w->url);
        assert_string_equal(address_text(worker, "data"), w->data);
        assert_false(json_truth(worker, "local"));
        assert_true(json_text(worker, "ucx_version")[0] >= '1');
}

WITH_WORKER(it_gives_the_advertised_host)
{
        static const struct {
                const char *advertise, *wanted;
        } rows[] = { { "ferry.example", "ferry.example" }, { "fd00::1", "[fd00::1]" }, { "[fd00::1]", "[fd00::1]" } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct json_object *worker;
                const char *wanted;

                test_row(rows[i].advertise);
                worker_start(w, "w", STRINGS("--advertise", rows[i].advertise, "--data-listen", "127.0.0.1:0"));
                worker = worker_json(w);
                wanted = text_format("http://%s%s", rows[i].wanted, strrchr(w->url, ':'));
                assert_string_equal(address_text(worker, "http"), wanted);
                wanted = text_format("%s%s", rows[i].wanted, strrchr(w->data, ':'));
                assert_string_equal(address_text(worker, "data"), wanted);
                worker_stop(w);
        }
}

WITH_WORKER(each_start_has_an_epoch_of_its_own)
{
        char first[sizeof(w->epoch)];

        worker_start(w, "w", NULL);
        memcpy(first, w->epoch, sizeof(first));
        worker_stop(w);
        worker_start(w, "w", NULL);
        assert_string_not_equal(w->epoch, first);
}
