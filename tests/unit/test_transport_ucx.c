/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <ucs/config/types.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "ucx_internal.h"
#include "unit.h"

/* Two transports in one process, over loopback; a[0] connects, a[1] listens. Each is driven by progress(). */

enum { TIMEOUT_US = 10 * 1000 * 1000, PIECES_MAX = 1000, MEMORY_SIZE = 24 << 20, TRANSFER = 7 };

/* What became of a message. */
struct outcome {
        int begun, done;
        enum message_result result;
        bool unwanted; /* begin says no */
};

struct node {
        struct transport *transport;
        struct link *link; /* the latest */
        uint8_t *bytes;
        struct memory memory;
        struct segment segments[PIECES_MAX];
        struct stream stream;
        int messages, accepted, ended, rooms;
        bool refuse_links, take;   /* receives payloads into the stream at the header's offset */
        struct wire_header header; /* the latest */
        struct outcome received;
        uint64_t received_bytes;
        void (*on_message)(struct node *node, const struct wire_header *header, struct payload *payload);
};

struct pair {
        struct node n[2];
};

static bool on_begin(struct message *message)
{
        struct outcome *o = message->owner;

        o->begun++;
        return !o->unwanted;
}

static void on_done(struct message *message, enum message_result result)
{
        struct outcome *o = message->owner;

        o->done++;
        o->result = result;
}

static struct node *node_of(struct message *message)
{
        return FERRY_CONTAINER_OF((struct outcome *)message->owner, struct node, received);
}

static void on_received(struct message *message, enum message_result result)
{
        if (result == MESSAGE_OK)
                node_of(message)->received_bytes += message->length;
        on_done(message, result);
}

static void take(struct node *node, const struct wire_header *header, struct payload *payload)
{
        struct message *m = message_new(node->transport);

        m->stream = &node->stream;
        m->offset = header->offset;
        m->length = payload->length;
        m->transfer = header->transfer;
        m->begin = on_begin;
        m->done = on_received;
        m->owner = &node->received;
        node->transport->ops->receive(node->link, m, payload);
}

static void on_message(void *context, struct link *link, const struct wire_header *header, struct payload *payload)
{
        struct node *node = context;

        node->messages++;
        node->header = *header;
        node->link = link;
        if (node->on_message)
                node->on_message(node, header, payload);
        else if (node->take && payload->length > 0)
                take(node, header, payload);
}

static bool on_accepted(void *context, struct link *link)
{
        struct node *node = context;

        if (node->refuse_links)
                return false;
        node->accepted++;
        node->link = link;
        return true;
}

static void on_ended(void *context, struct link *link)
{
        struct node *node = context;

        assert_int_equal(link->state, LINK_ENDED);
        node->ended++;
}

static void on_room(void *context, struct link *link)
{
        ((struct node *)context)->rooms++;
}

static int node_open_with(struct node *node, const struct ucx_config *config)
{
        const struct transport_handlers handlers = {
                .context = node,
                .message = on_message,
                .accepted = on_accepted,
                .ended = on_ended,
                .room = on_room,
        };

        return ucx_transport_new(config, &handlers, 1, &node->transport);
}

static void node_set_stream(struct node *node, size_t n, size_t piece, size_t stride)
{
        stream_clear(&node->stream);
        for (size_t i = 0; i < n; i++)
                node->segments[i] = (struct segment){ node->bytes + (i * 7 % n) * stride, piece, &node->memory };
        assert_int_equal(stream_init(&node->stream, node->segments, n), 0);
}

static void node_start(struct node *node, const char *listen, int fill)
{
        const struct ucx_config config = { .data_listen = listen };

        *node = (struct node){ .take = true };
        assert_int_equal(node_open_with(node, &config), 0);
        node->bytes = unit_alloc(MEMORY_SIZE);
        for (size_t i = 0; i < MEMORY_SIZE; i++)
                node->bytes[i] = (uint8_t)(fill ? (i * 31 + i / 4093) : 0);
        node->memory = (struct memory){ .address = node->bytes, .size = MEMORY_SIZE, .id = 1, .fd = -1 };
        assert_int_equal(node->transport->ops->register_memory(node->transport, &node->memory), 0);
        assert_non_null(node->memory.handles[1]);
        node_set_stream(node, 1, MEMORY_SIZE, 0);
}

static void node_stop(struct node *node)
{
        struct link *link, *next;

        if (node->transport) {
                node->transport->ops->deregister_memory(node->transport, &node->memory);
                node->transport->ops->shut_down(node->transport, clock_now_us() + 100000);
                DL_FOREACH_SAFE (node->transport->links, link, next)
                        node->transport->ops->release(link);
                node->transport->ops->free(node->transport);
        }
        stream_clear(&node->stream);
        free(node->bytes);
}

static void pair_release(void *object)
{
        struct pair *p = object;

        node_stop(&p->n[0]);
        node_stop(&p->n[1]);
        free(p);
}

/* Until the end of the test, or until pair_free. */
static struct pair *pair_new_at(const char *first, const char *second)
{
        struct pair *p = unit_alloc(sizeof(*p));

        node_start(&p->n[0], first, true);
        node_start(&p->n[1], second, false);
        return test_keep(p, pair_release);
}

static struct pair *pair_new(void)
{
        return pair_new_at("127.0.0.1:0", "127.0.0.1:0");
}

static void pair_free(struct pair *p)
{
        test_release(p);
}

static void pair_progress(struct pair *p)
{
        for (int i = 0; i < 2; i++)
                if (p->n[i].transport)
                        (void)p->n[i].transport->ops->progress(p->n[i].transport);
}

#define AWAIT(p, condition)                                                                                            \
        do {                                                                                                           \
                uint64_t deadline_us_ = clock_now_us() + TIMEOUT_US;                                                   \
                while (!(condition) && clock_now_us() < deadline_us_)                                                  \
                        pair_progress(p);                                                                              \
                assert_true(condition);                                                                                \
        } while (0)

static struct link *connect_to(struct node *node, const char *text, int *ret_error)
{
        char host[TRANSPORT_ADDRESS_SIZE], *colon;
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found;
        struct transport_peer peer = { .epoch = 1, .text = text };
        struct link *link;

        (void)snprintf(host, sizeof(host), "%s", text[0] == '[' ? text + 1 : text);
        colon = strrchr(host, ':');
        *colon = '\0';
        if (colon[-1] == ']')
                colon[-1] = '\0';
        assert_int_equal(getaddrinfo(host, colon + 1, &hints, &found), 0);
        peer.address = found->ai_addr;
        peer.address_length = found->ai_addrlen;
        link = node->transport->ops->connect(node->transport, &peer, ret_error);
        freeaddrinfo(found);
        return link;
}

static struct wire_header make_header(enum wire_type type, uint64_t offset, uint64_t length)
{
        return (struct wire_header){ .type = type,
                                     .to_epoch = 1,
                                     .from_epoch = 2,
                                     .operation = 3,
                                     .transfer = TRANSFER,
                                     .offset = offset,
                                     .length = length,
                                     .total = offset + length };
}

/* A message to be sent, with [offset, offset + length) of the node's stream. */
static struct message *make_message(struct node *node, enum wire_type type, uint64_t offset, uint64_t length,
                                    struct outcome *outcome)
{
        struct message *m = message_new(node->transport);

        assert_non_null(m);
        m->header = make_header(type, offset, length);
        m->stream = length ? &node->stream : NULL;
        m->offset = offset;
        m->length = length;
        m->transfer = TRANSFER;
        m->begin = on_begin;
        m->done = on_done;
        m->owner = outcome;
        return m;
}

static void post(struct node *node, enum wire_type type, uint64_t offset, uint64_t length, struct outcome *outcome)
{
        node->transport->ops->send(node->link, make_message(node, type, offset, length, outcome));
}

static void send_header(struct node *node, enum wire_type type)
{
        struct message *m = message_new(node->transport);

        m->header = make_header(type, 0, 0);
        node->transport->ops->send(node->link, m);
}

/* Of n[0], to n[1]. */
static struct link *pair_link(struct pair *p, int *ret_error)
{
        return connect_to(&p->n[0], ucx_transport_facts(p->n[1].transport)->data_address, ret_error);
}

static void pair_connect(struct pair *p)
{
        int error = 0;

        p->n[0].messages = p->n[1].messages = 0;
        p->n[0].link = pair_link(p, &error);
        assert_non_null(p->n[0].link);
        send_header(&p->n[0], WIRE_HELLO);
        AWAIT(p, p->n[1].messages == 1);
        send_header(&p->n[1], WIRE_HELLO_ACK);
        AWAIT(p, p->n[0].messages == 1);
        assert_int_equal(p->n[0].link->state, LINK_UP);
        assert_int_equal(p->n[1].link->state, LINK_UP);
        for (int i = 0; i < 2; i++)
                p->n[i].messages = p->n[i].rooms = 0;
}

static struct pair *pair_connected(void)
{
        struct pair *p = pair_new();

        pair_connect(p);
        return p;
}

/* Sends as the engine does: as fit says. */
static void move(struct pair *p, int from, uint64_t length)
{
        struct node *sender = &p->n[from], *receiver = &p->n[!from];
        struct outcome o[400] = { 0 };
        size_t n = 0;

        receiver->received_bytes = 0;
        for (uint64_t offset = 0; offset < length;) {
                bool inside;
                uint64_t size =
                        sender->transport->ops->fit(sender->link, &sender->stream, offset, length - offset, &inside);
                struct message *m = make_message(sender, WIRE_DATA, offset, size, &o[n]);

                assert_true(n < UNIT_COUNT(o) && size > 0);
                m->inside = inside;
                sender->transport->ops->send(sender->link, m);
                offset += size;
                n++;
        }
        AWAIT(p, receiver->received_bytes == length && o[n - 1].done == 1);
        for (size_t i = 0; i < n; i++) {
                AWAIT(p, o[i].done == 1);
                assert_int_equal(o[i].begun, 1);
                assert_int_equal(o[i].result, MESSAGE_OK);
        }
        for (uint64_t offset = 0; offset < length;) {
                uint8_t *a, *b;
                uint64_t run = stream_run(&p->n[0].stream, offset, length - offset, &a);

                run = stream_run(&p->n[1].stream, offset, run, &b);
                assert_memory_equal(a, b, run);
                offset += run;
        }
}

static void forget_bytes(struct node *node)
{
        memset(node->bytes, 0, MEMORY_SIZE);
}

/* ---- tests ---- */

TEST(connects)
{
        struct pair *p = pair_connected();

        assert_int_equal(p->n[1].accepted, 1);
        assert_true(p->n[1].link->accepted);
        assert_false(p->n[0].link->accepted);
        assert_int_not_equal(p->n[0].link->connect_us, 0);
        assert_string_equal(p->n[0].transport->ops->carrier(p->n[0].link), "tcp");
        assert_string_equal(p->n[1].transport->ops->carrier(p->n[1].link), "tcp");
}

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
        static const size_t sizes[] = { 1,         4096,          WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1,
                                        60 << 10,  64 << 10,      (64 << 10) + 1,  (256 << 10) - 1,
                                        256 << 10, (4 << 20) + 1, MEMORY_SIZE };
        struct pair *p = pair_connected();

        for (size_t i = 0; i < UNIT_COUNT(sizes); i++)
                for (int from = 0; from < 2; from++) {
                        forget_bytes(&p->n[!from]);
                        move(p, from, sizes[i]);
                }
}

/* UCX 1.13 aborts on a message of 16 pieces over TCP, and only of so many. */
TEST(moves_pieces_of_any_number)
{
        static const size_t sizes[] = { 10, 300, 4000, 16 << 10, 100 << 10, 300 << 10 };
        struct pair *p = pair_connected();

        for (size_t i = 0; i < UNIT_COUNT(sizes); i++)
                for (size_t n = 1; n <= 40; n++)
                        for (int from = 0; from < 2; from++) {
                                size_t size = sizes[i], other = n % 2 ? 1 : n;

                                if (n * (size + 3) > MEMORY_SIZE)
                                        continue;
                                node_set_stream(&p->n[from], n, size, size + 3);
                                node_set_stream(&p->n[!from], other, n * size / other, n * size / other + 5);
                                move(p, from, n * size);
                        }
}

TEST(moves_a_thousand_pieces)
{
        struct pair *p = pair_connected();

        for (int from = 0; from < 2; from++) {
                node_set_stream(&p->n[0], 1000, 16 << 10, (16 << 10) + 3);
                node_set_stream(&p->n[1], 1000, 16 << 10, (16 << 10) + 7);
                move(p, from, 1000 * (16 << 10));
        }
}

TEST(a_refused_payload_leaves_the_link_usable)
{
        static const size_t sizes[] = { 100, 1 << 20 };
        struct pair *p = pair_connected();

        for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
                struct outcome o = { 0 };
                int before = p->n[1].messages;

                p->n[1].take = false;
                post(&p->n[0], WIRE_DATA, 0, sizes[i], &o);
                AWAIT(p, o.done == 1 && p->n[1].messages == before + 1);
                assert_int_equal(o.result, MESSAGE_OK);
                assert_int_equal(p->n[1].bytes[1], 0);
                p->n[1].take = true;
                move(p, 0, sizes[i]);
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
                        make_message(&p->n[0], WIRE_DATA, (uint64_t)i * UCX_PART_SIZE, UCX_PART_SIZE, &o[i]);

                m->inside = true;
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
        AWAIT(p, p->n[1].received_bytes == (uint64_t)done * UCX_PART_SIZE);
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
        p->n[0].transport->ops->release(p->n[0].link);
        p->n[1].transport->ops->release(p->n[1].link);
        pair_connect(p);
        assert_int_equal(p->n[0].ended, 1);
}

static void keep(struct node *node, const struct wire_header *header, struct payload *payload)
{
        take(node, header, payload);
}

/* The peer goes without a word while bytes move both ways. */
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
        p->n[1].transport->ops->release(p->n[1].link);
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

TEST(a_shut_down_flushes_what_was_sent)
{
        struct pair *p = pair_connected();
        struct outcome o = { 0 };

        post(&p->n[0], WIRE_DATA, 0, 100, &o);
        p->n[0].transport->ops->shut_down(p->n[0].transport, clock_now_us() + 100000);
        assert_int_equal(o.done, 1);
        assert_int_equal(o.result, MESSAGE_OK);
        assert_int_equal(p->n[0].ended, 1);
        AWAIT(p, p->n[1].received_bytes == 100 && p->n[1].ended == 1);
}

/* A header of other bytes, beneath the transport. */
/* The peer stands still while it connects: UCX has nobody to flush to, and aborts when it is made to wait. */
TEST(a_shut_down_does_not_wait_for_a_peer_that_never_spoke)
{
        enum { PATIENCE_US = 100000 };
        struct pair *p = pair_new();
        int error = 0;

        assert_non_null(pair_link(p, &error));
        AWAIT(p, p->n[1].accepted == 1);
        p->n[1].transport->ops->shut_down(p->n[1].transport, clock_now_us() + PATIENCE_US);
        assert_int_equal(p->n[1].ended, 1);
}

static void send_raw(struct node *node, const void *header, size_t size)
{
        ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY };
        ucs_status_ptr_t request =
                ucp_am_send_nbx(ucx_link_of(node->link)->endpoint, UCX_AM_ID, header, size, NULL, 0, &param);

        if (UCS_PTR_IS_PTR(request))
                ucp_request_free(request);
}

TEST(foreign_bytes_are_dropped)
{
        static const char foreign[WIRE_SIZE] = "this is no message of ours";
        struct pair *p = pair_connected();

        send_raw(&p->n[0], foreign, sizeof(foreign));
        send_raw(&p->n[0], foreign, 3);
        move(p, 0, 100);
        assert_int_equal(p->n[1].messages, 1);
}

TEST(another_version_ends_the_link_and_is_named)
{
        struct pair *p = pair_connected();
        struct wire_header header = make_header(WIRE_HELLO, 0, 0);
        uint8_t bytes[WIRE_SIZE];

        wire_encode(&header, bytes);
        bytes[4] = 1;
        send_raw(&p->n[0], bytes, sizeof(bytes));
        AWAIT(p, p->n[1].ended == 1 && p->n[0].ended == 1);
        assert_int_equal(p->n[1].link->error, FERRY_E_TRANSFER_FAILED);
        assert_string_equal(p->n[1].link->detail, "the peer speaks version 1 of the protocol, this worker version 2");
        assert_int_equal(p->n[1].messages, 0);
}

TEST(nobody_is_unreachable)
{
        struct pair *p = pair_new();
        struct outcome o = { 0 };
        int error = 0;

        p->n[0].link = connect_to(&p->n[0], "127.0.0.1:1", &error);
        if (p->n[0].link) {
                post(&p->n[0], WIRE_HELLO, 0, 0, &o);
                AWAIT(p, p->n[0].ended == 1);
                assert_int_equal(p->n[0].link->error, FERRY_E_PEER_UNREACHABLE);
                assert_int_equal(o.done, 1);
                assert_int_equal(o.result, MESSAGE_LOST);
        } else {
                assert_int_equal(error, -EHOSTUNREACH);
        }
}

TEST(a_link_that_the_engine_refuses_is_unreachable)
{
        struct pair *p = pair_new();
        int error;

        p->n[1].refuse_links = true;
        p->n[0].link = pair_link(p, &error);
        send_header(&p->n[0], WIRE_HELLO);
        AWAIT(p, p->n[0].ended == 1);
        assert_int_equal(p->n[0].link->error, FERRY_E_PEER_UNREACHABLE);
        assert_null(p->n[1].transport->links);
}

TEST(every_way_to_write_loopback_carries_bytes)
{
        FOR_EACH_TEXT (address, "127.0.0.1:0", "lo:0", "localhost:0") {
                struct pair *p = pair_new_at("127.0.0.1:0", address);

                pair_connect(p);
                move(p, 0, 1 << 20);
                pair_free(p);
        }
}

/* UCX before 1.14 takes no lane of IPv6 on loopback. */
TEST(ipv6_loopback_carries_bytes_or_is_refused)
{
        const struct ucx_config config = { .data_listen = "[::1]:0" };
        struct node node = { 0 };
        struct pair *p;

        if (ucx_is_before(14)) {
                assert_int_equal(node_open_with(&node, &config), -EADDRNOTAVAIL);
                return;
        }
        p = pair_new_at("[::1]:0", "[::1]:0");
        pair_connect(p);
        move(p, 0, 1 << 20);
}

/* UCX would write beyond its memory. */
TEST(a_peer_of_another_address_family_is_refused)
{
        struct pair *p = pair_new();
        int error = 0;

        assert_null(connect_to(&p->n[0], "[::1]:9400", &error));
        assert_int_equal(error, -EAFNOSUPPORT);
}

TEST(an_address_that_ucx_cannot_serve_is_refused)
{
        static const struct {
                const char *listen;
                int error;
        } cases[] = {
                { "127.0.0.5:0", -EADDRNOTAVAIL }, /* UCX serves 127.0.0.1 alone */
                { "127.0.0.1", -EINVAL },
                { "127.0.0.1:", -EINVAL },
        };

        for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
                const struct ucx_config config = { .data_listen = cases[i].listen };
                struct node node = { 0 };

                assert_int_equal(node_open_with(&node, &config), cases[i].error);
        }
}

TEST(short_payloads_and_pieces_travel_in_parts)
{
        struct pair *p = pair_connected();
        struct node *n = &p->n[0];
        const struct transport_ops *ops = n->transport->ops;
        bool inside;

        assert_int_equal(ops->fit(n->link, &n->stream, 0, WIRE_INLINE_MAX, &inside), WIRE_INLINE_MAX);
        assert_false(inside);
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 512 << 10, &inside), UCX_PART_SIZE);
        assert_true(inside);
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &inside), 4 << 20);
        assert_false(inside);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, MEMORY_SIZE), 4 << 20);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, 1000), 1000);
        assert_int_equal(ops->window(n->link), 16 << 20);
        node_set_stream(n, 1000, 16 << 10, 20 << 10);
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &inside), UCX_PART_SIZE);
        assert_true(inside);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, 16000 << 10), 2 << 20);
}

/* As if the link were a long one. */
TEST(the_chunk_grows_with_the_round_trip)
{
        struct pair *p = pair_connected();
        struct ucx_link *link = ucx_link_of(p->n[0].link);
        const struct transport_ops *ops = p->n[0].transport->ops;

        assert_in_range(link->rtt_us, 0, TIMEOUT_US);
        link->rtt_us = TIMEOUT_US;
        move(p, 0, 4 << 20);
        assert_int_equal(ops->window(p->n[0].link), 16 << 20); /* on loopback it never does */
        ucx_of(p->n[0].transport)->listen.loopback = false;
        move(p, 0, 4 << 20);
        AWAIT(p, p->n[0].rooms == 1);
        assert_int_equal(ops->request_size(p->n[0].link, &p->n[0].stream, 0, MEMORY_SIZE), MEMORY_SIZE);
        assert_int_equal(ops->window(p->n[0].link), 4 * (uint64_t)WIRE_CHUNK_MAX);
        link->rtt_us = 1;
        link->chunk = 8 << 20;
        move(p, 0, 8 << 20);
        assert_int_equal(ops->window(p->n[0].link), 16 << 20);
}

TEST(the_chunk_stays_within_what_was_asked_for)
{
        static const uint32_t wrong[] = { 1, UCX_CHUNK_MIN - 1, WIRE_CHUNK_MAX + 1 };
        struct ucx_config config = { .data_listen = "127.0.0.1:0", .chunk_size = UCX_CHUNK_MIN, .window = 2 };
        struct node node = { 0 };
        struct ucx_link *link;

        assert_int_equal(node_open_with(&node, &config), 0);
        link = ucx_link_new(ucx_of(node.transport), false);
        assert_int_equal(ucx_window(&link->base), 2 * UCX_CHUNK_MIN);
        ucx_of(node.transport)->listen.loopback = false;
        link->rtt_us = TIMEOUT_US;
        ucx_pace_bulk(link, UCX_CHUNK_MIN, clock_now_us());
        assert_int_equal(ucx_window(&link->base), 2 * UCX_CHUNK_MIN);
        ucx_link_free(link);
        node.transport->ops->free(node.transport);
        for (size_t i = 0; i < UNIT_COUNT(wrong); i++) {
                config.chunk_size = wrong[i];
                assert_int_equal(node_open_with(&node, &config), -EINVAL);
        }
}

static unsigned fake_minor; /* 0 = none */

void __real_ucp_get_version(unsigned *major, unsigned *minor, unsigned *release);
void __wrap_ucp_get_version(unsigned *major, unsigned *minor, unsigned *release);

void __wrap_ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
        __real_ucp_get_version(major, minor, release);
        if (fake_minor)
                *minor = fake_minor;
}

TEST(a_version_that_cannot_connect_is_refused)
{
        const struct ucx_config config = { .data_listen = "127.0.0.1:0" };
        struct node node = { 0 };

        fake_minor = 20;
        assert_int_equal(node_open_with(&node, &config), -ENOTSUP);
        fake_minor = 0;
}

static int saved_stderr = -1;

static void stderr_catch(int *ret_file)
{
        char path[] = "/tmp/test_transport_ucx.XXXXXX";

        *ret_file = mkstemp(path);
        saved_stderr = dup(STDERR_FILENO);
        assert_true(*ret_file >= 0 && saved_stderr >= 0);
        (void)unlink(path);
        (void)dup2(*ret_file, STDERR_FILENO);
}

/* What was written meanwhile; to be freed. */
static char *stderr_release(int file)
{
        enum { SIZE = 1 << 20 };
        char *text = unit_alloc(SIZE);
        ssize_t size;

        (void)dup2(saved_stderr, STDERR_FILENO);
        (void)close(saved_stderr);
        size = pread(file, text, SIZE - 1, 0);
        assert_true(size >= 0);
        text[size] = '\0';
        (void)close(file);
        return text;
}

TEST(ucx_cannot_flood_the_log)
{
        static ucs_log_component_config_t component = { .log_level = UCS_LOG_LEVEL_WARN, .name = "TEST" };
        size_t lines = 0;
        char *text;
        int file;

        log_setup(LOG_INFO, LOG_LOGFMT);
        ucx_log_setup();
        stderr_catch(&file);
        for (int i = 0; i < 10000; i++)
                ucs_log_dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_ERROR, &component, "line %d", i);
        text = stderr_release(file);
        for (const char *at = text; (at = strstr(at, "text=")); at++)
                lines++;
        assert_in_range(lines, 1, 2 * UCX_LOG_BURST); /* of one second, or of two */
        free(text);
}

/* tests/network/run has it come. */
TEST(an_address_that_is_not_there_is_waited_for)
{
        FOR_EACH_TEXT (item, "198.51.100.77:0", "[2001:db8::77]:0", "nosuch0:0") {
                static uint8_t page[4096];
                struct memory memory = { .address = page, .size = sizeof(page), .id = 1, .fd = -1 };
                const struct ucx_config config = { .data_listen = item };
                struct node node = { 0 };
                char *text;
                int file, error = 0;

                stderr_catch(&file);
                assert_int_equal(node_open_with(&node, &config), 0);
                text = stderr_release(file);
                assert_non_null(strstr(text, "network transport waits"));
                assert_non_null(strstr(text, item));
                free(text);
                assert_string_equal(ucx_transport_facts(node.transport)->data_address, "");
                assert_int_equal(node.transport->ops->register_memory(node.transport, &memory), 0);
                assert_null(connect_to(&node, "127.0.0.1:9", &error));
                assert_int_equal(error, -ENETDOWN);
                (void)node.transport->ops->progress(node.transport);
                assert_true(node.transport->ops->arm(node.transport));
                node.transport->ops->deregister_memory(node.transport, &memory);
                node.transport->ops->free(node.transport);
        }
}

/* The names of a transport's settings are others from 1.17 on; one that UCX does not know has no effect. */
TEST(ucx_knows_every_setting)
{
        char *text;
        int file;

        stderr_catch(&file);
        log_setup(LOG_DEBUG, LOG_LOGFMT);
        pair_free(pair_connected());
        log_setup(LOG_INFO, LOG_LOGFMT);
        text = stderr_release(file);
        assert_int_not_equal(text[0], '\0');
        assert_null(strstr(text, "UCX setting unknown"));
        assert_null(strstr(text, "invalid configuration")); /* UCX's own words about those of transports */
        free(text);
}
