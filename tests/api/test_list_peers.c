/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"

/* GET /v1/peers: b is connected to a, by what, and why not by something better. */

enum { SIZE = 5000, MANY = 3 };

#define NOT_HTTP "[\"shm\",\"tcp\",\"rdma\"]"

static void connect_to(struct worker *w, const struct worker *peer)
{
        struct ferry_peer connected;

        assert_int_equal(ferry_connect_peer(w->client, peer->url, &connected), 0);
        ferry_peer_clear(&connected);
}

/* The only peer that the worker knows. */
static struct json_object *only_peer(struct worker *w)
{
        struct json_object *peers = json_member(call_json(w, 200, "GET", "/v1/peers", NULL), "peers");

        assert_int_equal(json_object_array_length(peers), 1);
        return json_object_array_get_idx(peers, 0);
}

/* Until the worker's only peer has that status. */
static struct json_object *await_status(struct worker *w, const char *status)
{
        struct json_object *peer;

        WAIT_UNTIL(strcmp(json_text(peer = only_peer(w), "status"), status) == 0);
        return peer;
}

/* The transports that are not used, joined by blanks. */
static const char *unused_of(struct json_object *peer)
{
        struct json_object *list = json_member(peer, "unused");
        const char *text = "";

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                const char *name = json_text(json_object_array_get_idx(list, i), "transport");

                assert_true(*json_text(json_object_array_get_idx(list, i), "reason") != '\0');
                text = text_format("%s%s%s", text, *text ? " " : "", name);
        }
        return text;
}

static void assert_unused(struct json_object *peer, const char *transports)
{
        assert_string_equal(unused_of(peer), transports);
}

static void assert_reason(struct json_object *peer, const char *transport, const char *reason)
{
        struct json_object *list = json_member(peer, "unused");

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *element = json_object_array_get_idx(list, i);

                if (strcmp(json_text(element, "transport"), transport) != 0)
                        continue;
                assert_string_equal(json_text(element, "reason"), reason);
                return;
        }
        fail_msg("%s is not in %s", transport, json_object_to_json_string(list));
}

static void assert_http(struct json_object *peer, const char *url)
{
        struct json_object *http = json_member(json_member(peer, "addresses"), "http");

        assert_int_equal(json_object_array_length(http), url ? 1 : 0);
        if (url)
                assert_string_equal(json_object_get_string(json_object_array_get_idx(http, 0)), url);
}

ON_WORKER(nobody_is_an_empty_list)
{
        struct ferry_peer_list list;

        assert_int_equal(ferry_list_peers(w->client, 0, NULL, &list), 0);
        assert_int_equal(list.n, 0);
        assert_null(list.next);
        ferry_peer_list_clear(&list);
}

ON_PAIR(both_sides_tell_of_a_local_link)
{
        struct json_object *peer;
        struct ferry_peer_list list;

        connect_to(&p->b, &p->a);
        peer = only_peer(&p->b);
        assert_string_equal(json_text(peer, "worker"), "a");
        assert_string_equal(json_text(peer, "epoch"), p->a.epoch);
        assert_string_equal(json_text(peer, "status"), "connected");
        assert_string_equal(json_text(peer, "transport"), "shm");
        assert_string_equal(json_text(peer, "opened_by"), "this-worker");
        assert_in_range(json_number(peer, "connect_us"), 1, WAIT_MS * 1000);
        assert_int_equal(json_number(peer, "transfers"), 0);
        assert_int_equal(strlen(json_text(peer, "connected_at")), strlen("2026-11-20T11:01:52.123Z"));
        assert_http(peer, p->a.url);
        assert_unused(peer, "");

        peer = only_peer(&p->a); /* which was told no more than who it is */
        assert_string_equal(json_text(peer, "worker"), "b");
        assert_string_equal(json_text(peer, "epoch"), p->b.epoch);
        assert_string_equal(json_text(peer, "status"), "connected");
        assert_string_equal(json_text(peer, "transport"), "shm");
        assert_string_equal(json_text(peer, "opened_by"), "peer");
        assert_http(peer, NULL);
        assert_unused(peer, "");

        assert_int_equal(ferry_list_peers(p->b.client, 0, NULL, &list), 0);
        assert_int_equal(list.n, 1);
        assert_string_equal(list.items[0].worker, "a");
        assert_string_equal(list.items[0].transport, "shm");
        assert_non_null(strstr(list.json, "\"unused\":[]"));
        ferry_peer_list_clear(&list);
}

WITH_PAIR(the_network_side_says_why_it_is_not_shared_memory)
{
        struct json_object *peer;

        pair_start(p, true);
        connect_to(&p->b, &p->a);
        peer = only_peer(&p->b);
        assert_string_equal(json_text(peer, "transport"), "tcp");
        assert_string_equal(json_text(json_member(peer, "addresses"), "data"), p->a.data);
        assert_unused(peer, "shm rdma");
        assert_reason(peer, "shm", "the local transport is off (--local)");
        assert_reason(peer, "rdma", "--transports names no RDMA transport that is available");
        peer = only_peer(&p->a);
        assert_string_equal(json_text(peer, "worker"), "b");
        assert_string_equal(json_text(peer, "transport"), "tcp");
        assert_string_equal(json_text(peer, "opened_by"), "peer");
        assert_unused(peer, "shm rdma");
        assert_reason(peer, "shm", "the peer chose this link: its GET /v1/peers says why");
}

WITH_PAIR(workers_with_other_directories_do_not_see_each_others_sockets)
{
        const char *directory = text_format("%s/other", worker_directory());
        const char *const flags[] = { "--data-listen", "127.0.0.1:0", NULL };
        const char *const elsewhere[] = { "--data-listen", "127.0.0.1:0", "--local", directory, NULL };
        struct json_object *peer;

        worker_start(&p->a, "a", flags);
        worker_start(&p->b, "b", elsewhere);
        connect_to(&p->b, &p->a);
        peer = only_peer(&p->b);
        assert_string_equal(json_text(peer, "transport"), "tcp");
        assert_reason(peer, "shm", "the peer's socket is not in this worker's --local directory");
}

ON_EACH_PAIR(running_transfers_are_counted_on_both_sides)
{
        struct json_object *peer;
        struct running running;

        running_start(p, FERRY_READABLE, 64 * STEPS_MIB, 3, &p->a, &running);
        peer = only_peer(&p->b);
        assert_int_equal(json_number(peer, "transfers"), 1);
        assert_string_equal(json_text(peer, "status"), "connected");
        worker_resume(&p->a);
        operation_assert_end(&p->b, running.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, running.passive, FERRY_COMPLETE, NULL);
        peer = only_peer(&p->a);
        assert_int_equal(json_number(peer, "transfers"), 0);
        running_drop(p, &running);
}

ON_EACH_PAIR(a_dead_peer_is_told_of_with_the_reason)
{
        struct json_object *peer;

        connect_to(&p->b, &p->a);
        worker_kill(&p->a);
        peer = await_status(&p->b, "disconnected");
        assert_string_equal(json_text(peer, "worker"), "a");
        assert_false(json_object_object_get_ex(peer, "transport", NULL));
        assert_string_equal(json_text(json_member(peer, "error"), "code"), "peer-lost");
        assert_true(*json_text(peer, "disconnected_at") != '\0');
}

/* b reads what a offers by these transports, which ends with peer-unreachable and that detail. */
static void assert_unreachable(struct pair *p, const char *transports, const char *detail)
{
        OPERATION passive, end;
        struct json_object *active;

        worker_expect(&p->b, "error=peer-unreachable");
        const char *offered = region_make(&p->a, SIZE, 1);
        const char *local = region_make(&p->b, SIZE, 0);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        active = call_json(&p->b, 201, "POST", "/v1/operations",
                           text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],"
                                       "\"transports\":%s,\"remote_metadata\":%s}",
                                       local, transports, passive.metadata));
        operation_assert_end(&p->b, json_text(active, "id"), FERRY_ERRORED, &end);
        assert_string_equal(end.error_detail, detail);
}

WITH_PAIR(who_could_not_be_reached_is_listed_with_every_reason)
{
        static const char *const off[] = { "--local", "off", "--data-listen", "127.0.0.1:0", NULL };
        static const char detail[] =
                "the local transport is off (--local); the peer has no network address (its --data-listen)";
        struct json_object *peer;

        worker_start(&p->a, "a", NULL);
        worker_start(&p->b, "b", off);
        assert_unreachable(p, NOT_HTTP, detail);
        peer = only_peer(&p->b);
        assert_string_equal(json_text(peer, "worker"), "a");
        assert_string_equal(json_text(peer, "status"), "disconnected");
        assert_string_equal(json_text(json_member(peer, "error"), "code"), "peer-unreachable");
        assert_string_equal(json_text(json_member(peer, "error"), "detail"), detail);
        assert_unused(peer, "shm rdma tcp");
        assert_reason(peer, "shm", "the local transport is off (--local)");
        assert_reason(peer, "tcp", "the peer has no network address (its --data-listen)");
}

WITH_PAIR(an_address_that_is_not_admitted_is_the_reason)
{
        static const char *const flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off", NULL };
        static const char *const only_other[] = { "--data-listen", "127.0.0.1:0",  "--local", "off",
                                                  "--allow-peer",  "192.0.2.0/24", NULL };
        struct json_object *peer;

        worker_start(&p->a, "a", flags);
        worker_start(&p->b, "b", only_other);
        assert_unreachable(
                p, NOT_HTTP,
                "the local transport is off (--local); --allow-peer does not admit the peer's network address");
        peer = only_peer(&p->b);
        assert_reason(peer, "tcp", "--allow-peer does not admit the peer's network address");
}

WITH_PAIR(a_url_that_is_not_admitted_leaves_no_transfer_behind)
{
        static const char *const flags[] = { "--local", "off", "--allow-peer", "192.0.2.0/24", NULL };
        static const struct {
                const char *transports, *detail;
        } cases[] = {
                { "[\"http\"]", "this host is not one that --allow-peer admits" },
                { "[\"tcp\",\"http\"]",
                  "\"transports\" allows no shared memory; the peer has no network address (its --data-listen); "
                  "HTTP: this host is not one that --allow-peer admits" },
        };
        struct json_object *peer;

        worker_start(&p->a, "a", NULL);
        worker_start(&p->b, "b", flags);
        worker_expect(&p->b, "no transport but HTTP");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_unreachable(p, cases[i].transports, cases[i].detail);
                peer = only_peer(&p->b);
                assert_string_equal(json_text(peer, "status"), "disconnected");
                assert_int_equal(json_number(peer, "transfers"), 0);
                assert_string_equal(json_text(json_member(peer, "error"), "detail"), cases[i].detail);
        }
}

/* As behind a firewall: a's data port is not open at the address that its metadata name. */
WITH_PAIR(a_network_address_that_cannot_be_reached_is_the_reason_for_http)
{
        static const char *const network[] = { "--data-listen", "127.0.0.1:0", "--local", "off", NULL };
        struct ferry_operation offer, active;
        struct json_object *peer;

        worker_start_plain(&p->a, "a",
                           STRINGS("--listen", "127.0.0.9:0", "--advertise", "127.0.0.9", "--data-listen",
                                   "127.0.0.1:0", "--local", "off"));
        assert_int_equal(ferry_new(p->a.url, NULL, &p->a.client), 0);
        worker_start(&p->b, "b", network);
        offer_make(&p->a, FERRY_READABLE, region_make(&p->a, SIZE, 7), &offer);
        begin_make(&p->b, FERRY_READ, region_make(&p->b, SIZE, 0), offer.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        peer = only_peer(&p->b);
        assert_string_equal(json_text(peer, "transport"), "http");
        assert_unused(peer, "shm rdma tcp");
        assert_reason(peer, "tcp", "the peer's network address cannot be reached: a firewall, or no route?");
        ferry_operation_clear(&offer);
        ferry_operation_clear(&active);
}

/* Takes connections for a's data port, and says nothing, as behind a firewall that drops. */
static int silent_at(const char *host, const struct worker *a)
{
        struct sockaddr_in address = { .sin_family = AF_INET };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
        address.sin_port = htons((uint16_t)strtoul(strrchr(a->data, ':') + 1, NULL, 10));
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 5), 0);
        return fd;
}

/* How long a read by b took, in ms, which went over HTTP. */
static uint64_t read_over_http_ms(struct pair *p)
{
        OPERATION offer, active, end;
        uint64_t begun_ms;

        offer_make(&p->a, FERRY_READABLE, region_make(&p->a, SIZE, 7), &offer);
        begun_ms = now_ms();
        begin_make(&p->b, FERRY_READ, region_make(&p->b, SIZE, 0), offer.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, &end);
        assert_string_equal(end.transport, "http");
        return now_ms() - begun_ms;
}

/* The time to connect is 3.5 s. */
WITH_PAIR(only_the_first_transfer_waits_for_a_data_port_that_does_not_answer)
{
        enum { WAITED_MS = 3000 };
        static const char *const network[] = { "--data-listen", "127.0.0.1:0", "--local", "off", NULL };
        struct json_object *unused;
        int fd;

        worker_start_plain(&p->a, "a",
                           STRINGS("--listen", "127.0.0.10:0", "--advertise", "127.0.0.10", "--data-listen",
                                   "127.0.0.1:0", "--local", "off"));
        assert_int_equal(ferry_new(p->a.url, NULL, &p->a.client), 0);
        fd = silent_at("127.0.0.10", &p->a);
        worker_start(&p->b, "b", network);
        assert_in_range(read_over_http_ms(p), WAITED_MS, 60000);
        for (int i = 0; i < 5; i++)
                assert_in_range(read_over_http_ms(p), 0, WAITED_MS - 1);
        unused = json_member(only_peer(&p->b), "unused");
        assert_string_equal(unused_of(only_peer(&p->b)), "shm rdma tcp");
        assert_int_equal(strlen(json_text(json_object_array_get_idx(unused, 2), "retry_at")),
                         strlen("2026-11-20T11:01:52.123Z"));
        assert_unreachable(p, "[\"tcp\"]", "no answer within the connect time"); /* which is tried, and waited for */
        (void)close(fd);
}

WITH_PAIR(pages_give_each_peer_once)
{
        struct worker others[MANY] = { 0 };
        struct ferry_peer_list list;
        char *after = NULL;

        worker_start(&p->b, "b", NULL);
        for (size_t i = 0; i < MANY; i++) {
                worker_start(&others[i], "other", NULL);
                connect_to(&p->b, &others[i]);
        }
        for (size_t i = 0; i < MANY; i++) {
                assert_int_equal(ferry_list_peers(p->b.client, 1, after, &list), 0);
                assert_int_equal(list.n, 1);
                assert_string_equal(list.items[0].epoch, others[i].epoch);
                assert_int_equal(list.next != NULL, i + 1 < MANY);
                free(after);
                after = list.next ? strdup(list.next) : NULL;
                ferry_peer_list_clear(&list);
        }
        for (size_t i = 0; i < MANY; i++)
                worker_stop(&others[i]);
}

/* A peer that is reached by HTTP alone is a peer like others, on both sides. */
WITH_PAIR(transfers_over_http_are_counted_on_both_sides)
{
        struct worker *sides[] = { &p->b, &p->a };

        pair_start_apart(p);
        for (int i = 0; i < MANY; i++)
                bytes_move(&p->a, &p->b, FERRY_READABLE, SIZE, false, "http");
        for (int i = 0; i < 2; i++) {
                struct json_object *peer = only_peer(sides[i]);

                assert_string_equal(json_text(peer, "worker"), sides[!i]->name);
                assert_string_equal(json_text(peer, "epoch"), sides[!i]->epoch);
                assert_string_equal(json_text(peer, "status"), "connected");
                assert_string_equal(json_text(peer, "transport"), "http");
                assert_string_equal(json_text(peer, "opened_by"), i ? "peer" : "this-worker");
                assert_int_equal(json_number(peer, "transfers"), 0);
                assert_int_equal(json_number(peer, "transfers_completed"), MANY);
                assert_int_equal(json_number(peer, "bytes_done"), MANY * SIZE);
                assert_unused(peer, "shm rdma tcp");
                assert_reason(peer, "shm",
                              i ? "the peer chose HTTP: its GET /v1/peers says why"
                                : "the local transport is off (--local)");
                assert_reason(peer, "tcp",
                              i ? "the peer chose HTTP: its GET /v1/peers says why"
                                : "the peer has no network address (its --data-listen)");
        }
}

/* b reads what a offers, by these transports (a list in JSON; NULL = all), which ends with that status. */
static void read_by(struct pair *p, const struct ferry_operation *offer, const char *local, const char *transports,
                    enum ferry_status status)
{
        const char *restriction = transports ? text_format("\"transports\":%s,", transports) : "";
        const char *body =
                text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],%s\"remote_metadata\":%s}", local,
                            restriction, offer->metadata);
        struct json_object *active = call_json(&p->b, 201, "POST", "/v1/operations", body);

        operation_assert_end(&p->b, json_text(active, "id"), status, NULL);
}

static void read_all_by(struct pair *p, const char *transports)
{
        OPERATION offer;
        const char *offered = region_make(&p->a, SIZE, 7);

        offer_make(&p->a, FERRY_READABLE, offered, &offer);
        read_by(p, &offer, region_make(&p->b, SIZE, 0), transports, FERRY_COMPLETE);
}

WITH_PAIR(a_restricted_operation_does_not_replace_the_reasons)
{
        const char *directory = text_format("%s/other", worker_directory());
        const char *const flags[] = { "--data-listen", "127.0.0.1:0", NULL };
        const char *const elsewhere[] = { "--data-listen", "127.0.0.1:0", "--local", directory, NULL };
        static const char *const by[] = { "[\"tcp\"]", NULL, "[\"tcp\"]", "[\"http\"]" };
        static const char apart[] = "the peer's socket is not in this worker's --local directory";

        worker_start(&p->a, "a", flags);
        worker_start(&p->b, "b", elsewhere);
        for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
                read_all_by(p, by[i]);
                assert_reason(only_peer(&p->b), "shm", i ? apart : "\"transports\" allows no shared memory");
        }
}

WITH_PAIR(a_restriction_to_http_does_not_replace_the_reasons)
{
        static const char *const by[] = { "[\"http\"]", NULL, "[\"http\"]" };

        pair_start_apart(p);
        for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
                struct json_object *peer;

                read_all_by(p, by[i]);
                peer = only_peer(&p->b);
                assert_string_equal(json_text(peer, "transport"), "http");
                assert_reason(peer, "shm",
                              i ? "the local transport is off (--local)" : "\"transports\" allows nothing else");
                assert_reason(peer, "tcp",
                              i ? "the peer has no network address (its --data-listen)"
                                : "\"transports\" allows nothing else");
        }
}

/* Its successor at the same port answers HTTP 404. */
WITH_PAIR(a_restarted_worker_is_not_connected_by_http_any_more)
{
        static const char *const apart[] = { "--local", "off", NULL };
        const char *const *at = STRINGS("--local", "off", "--listen", address_hold());
        OPERATION stale;
        struct json_object *peer;

        worker_start_plain(&p->a, "a", at);
        worker_connect(&p->a, NULL, NULL);
        worker_start(&p->b, "b", apart);
        worker_expect(&p->a, "no transport but HTTP");
        worker_expect(&p->b, "no transport but HTTP");
        worker_expect(&p->b, "error=stale-metadata");
        read_all_by(p, NULL);
        assert_string_equal(json_text(only_peer(&p->b), "status"), "connected");
        offer_make(&p->a, FERRY_READABLE, region_make(&p->a, SIZE, 7), &stale);
        worker_kill(&p->a);
        worker_clean(&p->a);
        worker_start_plain(&p->a, "a", at);
        worker_expect(&p->a, "no transport but HTTP");
        read_by(p, &stale, region_make(&p->b, SIZE, 0), NULL, FERRY_ERRORED);
        peer = only_peer(&p->b);
        assert_string_equal(json_text(peer, "status"), "disconnected");
        assert_string_equal(json_text(json_member(peer, "error"), "code"), "stale-metadata");
        assert_int_equal(json_number(peer, "transfers_completed"), 1);
}

/* The same fields for what the engine carries. */
ON_EACH_PAIR(transfers_over_links_are_counted_on_both_sides)
{
        struct worker *sides[] = { &p->b, &p->a };

        pair_assert_serving(p);
        for (int i = 0; i < 2; i++) {
                struct json_object *peer = only_peer(sides[i]);

                assert_int_equal(json_number(peer, "transfers_completed"), 1);
                assert_in_range(json_number(peer, "bytes_done"), 1, STEPS_MIB);
        }
}

static void no_more_links_than_allowed(struct pair *p, struct worker *third, bool network)
{
        const char *flags[] = {
                "--max-links", "1", network ? "--local" : NULL, "off", "--data-listen", "127.0.0.1:0", "--transports",
                "tcp,self",    NULL
        };
        struct ferry_peer refused;

        worker_start(&p->a, "a", flags);
        worker_start(&p->b, "b", network ? flags + 2 : NULL);
        worker_start(third, "c", network ? flags + 2 : NULL);
        worker_expect(&p->a, network ? "link refused" : "local peer refused");
        connect_to(&p->b, &p->a);
        assert_int_equal(ferry_connect_peer(third->client, p->a.url, &refused), FERRY_E_PEER_UNREACHABLE);
        worker_stop(&p->b);
        while (ferry_connect_peer(third->client, p->a.url, &refused) != 0) /* a hears of the end a little later */
                ;
        ferry_peer_clear(&refused);
        worker_stop(third);
        worker_stop(&p->a);
}

WITH_PAIR(no_more_links_are_taken_than_max_links_says)
{
        struct worker third = { 0 };

        for (int network = 0; network < 2; network++)
                no_more_links_than_allowed(p, &third, network);
}
