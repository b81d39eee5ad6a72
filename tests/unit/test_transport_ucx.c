/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx_fixture.h"

static uint32_t next_seq;
static int out_of_order;

static void note_order(struct node *node, const struct wire_header *header, struct payload *payload)
{
        out_of_order += header->seq != next_seq++;
        if (next_seq == 1)
                send_header(node, WIRE_HELLO_ACK);
}

/* Those that are sent while it is being made, too, however far that has come: UCX itself does not keep their order. */
TEST(messages_over_a_new_link_keep_their_order)
{
        enum { ROUNDS = 40, N = 24 };

        for (int round = 0; round < ROUNDS; round++) {
                struct pair *p = pair_new();
                int error = 0;

                next_seq = 0;
                p->n[1].on_message = note_order;
                p->n[0].link = pair_link(p, &error);
                assert_non_null(p->n[0].link);
                for (uint32_t i = 0; i < N; i++) {
                        struct message *m = message_new(p->n[0].transport);

                        m->header = make_header(WIRE_HELLO, 0, 0);
                        m->header.seq = i;
                        m->transfer = TRANSFER;
                        p->n[0].transport->ops->send(p->n[0].link, m);
                        for (int step = 0; step < round; step++)
                                pair_progress(p);
                }
                AWAIT(p, next_seq == N);
                assert_int_equal(out_of_order, 0);
                pair_free(p);
        }
}

TEST(the_facts_name_what_ucx_has)
{
        struct pair *p = pair_new();
        const struct ucx_facts *facts = ucx_transport_facts(p->n[0].transport);
        bool tcp = false;

        for (size_t i = 0; i < facts->n_transports; i++) {
                tcp |= strcmp(facts->transports[i], "tcp") == 0;
                assert_null(strstr(facts->transports[i], "ud_"));
        }
        assert_true(tcp);
        assert_memory_equal(facts->data_address, "127.0.0.1:", 10);
}

TEST(moves_every_size_both_ways)
{
        struct pair *p = pair_connected();

        FOR_EACH (size_t, size, 1, 4096, WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1, 60 << 10, 64 << 10, (64 << 10) + 1,
                  (256 << 10) - 1, 256 << 10, (4 << 20) + 1, MEMORY_SIZE)
                for (int from = 0; from < 2; from++) {
                        forget_bytes(&p->n[!from]);
                        move(p, from, size);
                }
}

/* UCX 1.13 aborts on a message of 16 pieces over TCP, and only of so many. */
TEST(moves_pieces_of_any_number)
{
        struct pair *p = pair_connected();

        FOR_EACH (size_t, each, 10, 300, 4000, 16 << 10, 100 << 10, 300 << 10)
                for (size_t n = 1; n <= 40; n++)
                        for (int from = 0; from < 2; from++) {
                                size_t size = each, other = n % 2 ? 1 : n;

                                if (n * (size + 3) > MEMORY_SIZE)
                                        continue;
                                node_set_stream(&p->n[from], n, size, size + 3);
                                node_set_stream(&p->n[!from], other, n * size / other, n * size / other + 5);
                                move(p, from, n * size);
                        }
}

TEST(a_refused_payload_leaves_the_link_usable)
{
        struct pair *p = pair_connected();

        FOR_EACH (size_t, size, 100, 1 << 20) {
                struct outcome o = { 0 };
                int before = p->n[1].messages;

                p->n[1].take = false;
                post(&p->n[0], WIRE_DATA, 0, size, &o);
                AWAIT(p, o.done == 1 && p->n[1].messages == before + 1);
                assert_int_equal(o.result, MESSAGE_OK);
                assert_int_equal(p->n[1].bytes[1], 0);
                p->n[1].take = true;
                move(p, 0, size);
                forget_bytes(&p->n[1]);
        }
}

TEST(what_is_not_wanted_any_more_does_not_begin)
{
        struct pair *p = pair_connected();
        struct outcome o = { .unwanted = true };

        post(&p->n[0], WIRE_DATA, 0, 1 << 20, &o);
        assert_int_equal(o.done, 1);
        assert_int_equal(o.result, MESSAGE_CANCELLED);
        o = (struct outcome){ 0 };
        p->n[1].received.unwanted = true;
        post(&p->n[0], WIRE_DATA, 0, 1 << 20, &o);
        AWAIT(p, o.done == 1);
        assert_int_equal(p->n[1].received.begun, 1);
        assert_int_equal(p->n[1].received.done, 0);
        assert_int_equal(p->n[1].bytes[1], 0);
}

static void take_and_cancel(struct node *node, const struct wire_header *header, struct payload *payload)
{
        take(node, header, payload);
        node->transport->ops->cancel(node->link, header->transfer);
}

TEST(a_receive_that_waits_is_taken_back)
{
        struct pair *p = pair_connected();
        struct outcome o = { 0 };

        p->n[1].on_message = take_and_cancel;
        post(&p->n[0], WIRE_DATA, 0, 1 << 20, &o);
        AWAIT(p, o.done == 1);
        assert_int_equal(p->n[1].received.begun, 0);
        assert_int_equal(p->n[1].received.done, 0);
        p->n[1].on_message = NULL;
        move(p, 0, 1 << 20);
}

TEST(parts_that_wait_are_taken_back)
{
        enum { N = 200 };
        struct pair *p = pair_connected();
        struct outcome o[N] = { 0 };
        int cancelled = 0, done = 0;

        node_set_stream(&p->n[0], 1000, 16 << 10, (16 << 10) + 3);
        for (int i = 0; i < N; i++) {
                struct message *m =
                        make_message(&p->n[0], WIRE_DATA, (uint64_t)i * UCX_FRAGMENT_SIZE, UCX_FRAGMENT_SIZE, &o[i]);

                m->force_inline = true;
                p->n[0].transport->ops->send(p->n[0].link, m);
        }
        (void)p->n[0].transport->ops->progress(p->n[0].transport);
        p->n[0].transport->ops->cancel(p->n[0].link, TRANSFER);
        for (int i = 0; i < N; i++)
                cancelled += o[i].done && o[i].result == MESSAGE_CANCELLED;
        assert_in_range(cancelled, 100, N - 1);
        for (int i = 0; i < N; i++) {
                AWAIT(p, o[i].done == 1);
                done += o[i].result == MESSAGE_OK;
        }
        assert_int_equal(done + cancelled, N);
        AWAIT(p, p->n[1].received_bytes == (uint64_t)done * UCX_FRAGMENT_SIZE);
}

TEST(a_failed_link_ends_once_after_its_messages)
{
        struct pair *p = pair_connected();
        struct outcome o[3] = { 0 };

        for (int i = 0; i < 3; i++)
                post(&p->n[0], WIRE_DATA, 0, 4 << 20, &o[i]);
        (p->n[0].transport->ops->fail)(p->n[0].link, FERRY_E_STALLED,
                                       "nothing moved"); /* cmocka has a macro of that name */
        (p->n[0].transport->ops->fail)(p->n[0].link, FERRY_E_TIMEOUT, "a later reason");
        assert_int_equal(p->n[0].ended, 0);
        AWAIT(p, p->n[0].ended == 1);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(o[i].done, 1);
                assert_int_equal(o[i].result, MESSAGE_LOST);
        }
        assert_int_equal(p->n[0].link->error, FERRY_E_STALLED);
        assert_string_equal(p->n[0].link->detail, "nothing moved");
        o[0] = (struct outcome){ 0 };
        post(&p->n[0], WIRE_DATA, 0, 10, &o[0]);
        assert_int_equal(o[0].result, MESSAGE_LOST);
        AWAIT(p, p->n[1].ended == 1);
        assert_int_equal(p->n[1].link->error, FERRY_E_PEER_LOST);
        link_free(p->n[0].link);
        link_free(p->n[1].link);
        pair_connect(p);
        assert_int_equal(p->n[0].ended, 1);
}

static void keep(struct node *node, const struct wire_header *header, struct payload *payload)
{
        take(node, header, payload);
}

/* The peer goes without a word while bytes move both carriers. */
TEST(a_peer_that_goes_loses_what_is_in_flight)
{
        struct pair *p = pair_connected();
        struct outcome o[4] = { 0 }, back = { 0 };

        p->n[1].on_message = keep;
        for (int i = 0; i < 4; i++)
                post(&p->n[0], WIRE_DATA, 0, MEMORY_SIZE, &o[i]);
        post(&p->n[1], WIRE_DATA, 0, MEMORY_SIZE, &back);
        AWAIT(p, p->n[1].received.begun == 1 && p->n[0].received.begun == 1);
        p->n[1].transport->ops->shut_down(p->n[1].transport, 0);
        p->n[1].transport->ops->deregister_memory(p->n[1].transport, &p->n[1].memory);
        assert_int_equal(p->n[1].ended, 1);
        assert_int_equal(p->n[1].received.done, 1);
        assert_int_equal(back.done, 1);
        link_free(p->n[1].link);
        p->n[1].transport->ops->free(p->n[1].transport);
        p->n[1].transport = NULL;
        AWAIT(p, p->n[0].ended == 1);
        assert_int_equal(p->n[0].link->error, FERRY_E_PEER_LOST);
        for (int i = 0; i < 4; i++)
                assert_int_equal(o[i].done, 1);
        assert_int_equal(o[3].result, MESSAGE_LOST);
        assert_int_equal(p->n[0].received.done, 1);
}

static int cache_off(void **state)
{
        return setenv("UCX_RCACHE_ENABLE", "n", 1);
}

static int cache_on(void **state)
{
        return unsetenv("UCX_RCACHE_ENABLE");
}

/* UCX 1.16 to 1.21 crash without their cache, unless they are given our own registrations. */
TEST_WITH(without_ucxs_cache_links_carry_and_end_all_the_same, cache_off, cache_on)
{
        moves_every_size_both_ways();
        moves_pieces_of_any_number();
        a_failed_link_ends_once_after_its_messages();
        a_peer_that_goes_loses_what_is_in_flight();
}

static ucs_status_t tell_no_address(ucp_listener_h listener, ucp_listener_attr_t *attr)
{
        return UCS_ERR_IO_ERROR;
}

TEST(a_listener_that_cannot_tell_its_address_is_closed)
{
        struct ucx_config config = { .data_listen = "127.0.0.1:0" };
        __typeof__(ucp_listener_query) *query;
        char address[TRANSPORT_ADDRESS_SIZE];
        struct node node = { 0 };

        assert_int_equal(node_open_with(&node, &config), 0);
        (void)snprintf(address, sizeof(address), "%s", ucx_transport_facts(node.transport)->data_address);
        node.transport->ops->free(node.transport);
        config.data_listen = address;
        query = ucp.listener_query;
        ucp.listener_query = tell_no_address;
        assert_int_equal(node_open_with(&node, &config), -EIO);
        ucp.listener_query = query;
        assert_int_equal(node_open_with(&node, &config), 0);
        node.transport->ops->free(node.transport);
}
