/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UCX_FIXTURE_H
#define UCX_FIXTURE_H

#include <netdb.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/clock.h"
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

static inline bool on_begin(struct message *message)
{
        struct outcome *o = message->owner;

        o->begun++;
        return !o->unwanted;
}

static inline void on_done(struct message *message, enum message_result result)
{
        struct outcome *o = message->owner;

        o->done++;
        o->result = result;
}

static inline struct node *node_of(struct message *message)
{
        return FERRY_CONTAINER_OF((struct outcome *)message->owner, struct node, received);
}

static inline void on_received(struct message *message, enum message_result result)
{
        if (result == MESSAGE_OK)
                node_of(message)->received_bytes += message->length;
        on_done(message, result);
}

static inline void take(struct node *node, const struct wire_header *header, struct payload *payload)
{
        struct message *m = message_new(node->transport);

        m->stream = &node->stream;
        m->offset = header->offset;
        m->length = payload->length;
        m->transfer = header->transfer;
        m->begin = on_begin;
        m->done = on_received;
        m->owner = &node->received;
        if (!payload->bytes) {
                node->transport->ops->receive(node->link, m, payload);
                return;
        }
        if (on_begin(m)) { /* the engine stores such bytes itself */
                (void)stream_store(m->stream, m->offset, payload->bytes, m->length);
                on_received(m, MESSAGE_OK);
        }
        message_free(m);
}

static inline void on_message(void *context, struct link *link, const struct wire_header *header,
                              struct payload *payload)
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

static inline bool on_accepted(void *context, struct link *link)
{
        struct node *node = context;

        if (node->refuse_links)
                return false;
        node->accepted++;
        node->link = link;
        return true;
}

static inline void on_ended(void *context, struct link *link)
{
        struct node *node = context;

        assert_int_equal(link->state, LINK_ENDED);
        node->ended++;
}

static inline void on_room(void *context, struct link *link)
{
        ((struct node *)context)->rooms++;
}

static inline int node_open_with(struct node *node, const struct ucx_config *config)
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

static inline void node_set_stream(struct node *node, size_t n, size_t piece, size_t stride)
{
        stream_clear(&node->stream);
        for (size_t i = 0; i < n; i++)
                node->segments[i] = (struct segment){ node->bytes + (i * 7 % n) * stride, piece, &node->memory };
        assert_int_equal(stream_init(&node->stream, node->segments, n), 0);
}

static inline void node_start(struct node *node, const char *listen, int fill)
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

static inline void node_stop(struct node *node)
{
        struct link *link, *next;

        if (node->transport) {
                node->transport->ops->deregister_memory(node->transport, &node->memory);
                node->transport->ops->shut_down(node->transport, clock_now_us() + 100000);
                DL_FOREACH_SAFE (node->transport->links, link, next)
                        link_free(link);
                node->transport->ops->free(node->transport);
        }
        stream_clear(&node->stream);
        free(node->bytes);
}

static inline void pair_release(void *object)
{
        struct pair *p = object;

        node_stop(&p->n[0]);
        node_stop(&p->n[1]);
        free(p);
}

/* Until the end of the test, or until pair_free. */
static inline struct pair *pair_new_at(const char *first, const char *second)
{
        struct pair *p = unit_alloc(sizeof(*p));

        node_start(&p->n[0], first, true);
        node_start(&p->n[1], second, false);
        return test_keep(p, pair_release);
}

static inline struct pair *pair_new(void)
{
        return pair_new_at("127.0.0.1:0", "127.0.0.1:0");
}

static inline void pair_free(struct pair *p)
{
        test_release(p);
}

static inline void pair_progress(struct pair *p)
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

static inline struct link *connect_to(struct node *node, const char *text, int *ret_error)
{
        char host[TRANSPORT_ADDRESS_SIZE], *colon;
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found;
        struct transport_peer peer = { .epoch = 1 };
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

static inline struct wire_header make_header(enum wire_type type, uint64_t offset, uint64_t length)
{
        return (struct wire_header){ .type = type,
                                     .to_epoch = 1,
                                     .from_epoch = 2,
                                     .operation = 3,
                                     .transfer = TRANSFER,
                                     .offset = offset,
                                     .length = length,
                                     .total = offset + length,
                                     .whole = offset + length };
}

/* A message to be sent, with [offset, offset + length) of the node's stream. */
static inline struct message *make_message(struct node *node, enum wire_type type, uint64_t offset, uint64_t length,
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

static inline void post(struct node *node, enum wire_type type, uint64_t offset, uint64_t length,
                        struct outcome *outcome)
{
        node->transport->ops->send(node->link, make_message(node, type, offset, length, outcome));
}

static inline void send_header(struct node *node, enum wire_type type)
{
        struct message *m = message_new(node->transport);

        m->header = make_header(type, 0, 0);
        node->transport->ops->send(node->link, m);
}

/* Of n[0], to n[1]. */
static inline struct link *pair_link(struct pair *p, int *ret_error)
{
        return connect_to(&p->n[0], ucx_transport_facts(p->n[1].transport)->data_address, ret_error);
}

static inline void pair_connect(struct pair *p)
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

static inline struct pair *pair_connected(void)
{
        struct pair *p = pair_new();

        pair_connect(p);
        return p;
}

/* Sends as the engine does: as fit says. */
static inline void move(struct pair *p, int from, uint64_t length)
{
        struct node *sender = &p->n[from], *receiver = &p->n[!from];
        struct outcome o[400] = { 0 };
        size_t n = 0;

        receiver->received_bytes = 0;
        for (uint64_t offset = 0; offset < length;) {
                bool force_inline;
                uint64_t size = sender->transport->ops->fit(sender->link, &sender->stream, offset, length - offset,
                                                            &force_inline);
                struct message *m = make_message(sender, WIRE_DATA, offset, size, &o[n]);

                assert_true(n < UNIT_COUNT(o) && size > 0);
                m->force_inline = force_inline;
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

static inline void forget_bytes(struct node *node)
{
        memset(node->bytes, 0, MEMORY_SIZE);
}

#endif
