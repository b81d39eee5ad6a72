/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sys/stat.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine_fixture.h"
#include "failing_memory.h"
#include "move/local.h"
#include "unit.h"

/* Ends that come at awkward moments, and to those who ask for too much. */

/* ---- a cancel while the connection is being made ---- */

static struct end greeted;

static void note_greeting(void *context, const struct engine_connection *connection)
{
        assert_int_equal(connection->error, 0);
        end_note(&greeted, NULL);
}

/* Until the passive side has heard all that was sent to it before. */
static void await_peer(struct world *w, int n)
{
        const struct engine_connect connect = {
                .peer = { .epoch = w->epoch[1], .data = engine_get_facts(w->engine[1])->data_address },
                .connected = note_greeting,
        };

        assert_int_equal(engine_connect(w->engine[0], &connect), 0);
        end_wait(&greeted, n);
}

static void pause_us(uint64_t us)
{
        for (uint64_t until_us = clock_now_us() + us; clock_now_us() < until_us;)
                ;
}

/* Neither side is left to a limit of its own. */
TEST(a_cancel_while_a_connection_is_made_ends_both_sides)
{
        enum { ROUNDS = 24, STEP_US = 100 };

        end_init(&greeted);
        for (int round = 0; round < ROUNDS; round++) {
                enum engine_direction direction = round % 2 ? ENGINE_WRITE : ENGINE_READ;
                struct world *w = world_new(NETWORK, round % 3 ? 1 << 20 : 4096);
                uint64_t id;

                world_offer(w, direction);
                id = world_start(w, direction, false);
                pause_us((uint64_t)round / 4 * STEP_US);
                engine_transfer_cancel(w->engine[0], id, FERRY_E_CANCELLED);
                end_wait(&w->active, 1);
                await_peer(w, round + 1);
                if (w->passive.claims > 0)
                        end_wait(&w->passive, 1);
                if (w->active.outcome.error != 0) {
                        assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED);
                        assert_true(w->passive.claims == 0 || w->passive.outcome.error == FERRY_E_CANCELLED_BY_PEER);
                }
                world_free(w);
        }
}

/* ---- a peer that asks for too much ---- */

struct stranger {
        struct transport *transport;
        struct link *link;
        uint64_t epoch;
        uint64_t transfer;          /* of what it asks for */
        uint32_t status;            /* of the DONE_ACK that came, or of a DATA that is none */
        const struct stream *place; /* for the payload of a DATA; NULL = it is refused */
        bool took;                  /* it is on its way there */
        bool has_another_key;
        uint32_t answered; /* DATA that came, in the order of their requests … */
        bool out_of_order; /* … and whether one came in another */
};

static void on_message(void *context, struct link *link, const struct wire_header *header, struct payload *payload)
{
        struct stranger *s = context;

        if (header->type == WIRE_DONE_ACK || header->status)
                s->status = header->status;
        if (header->type == WIRE_DATA && !header->status)
                s->out_of_order |= header->seq != s->answered++;
        if (header->type == WIRE_DATA && s->place) {
                struct message *m = message_new(s->transport);

                m->stream = s->place;
                m->length = payload->length;
                m->transfer = header->transfer;
                s->transport->ops->receive(link, m, payload);
                s->took = true;
        }
}

static bool on_accepted(void *context, struct link *link)
{
        return false;
}

static void on_ended(void *context, struct link *link)
{
        link_free(link);
}

static void on_room(void *context, struct link *link)
{
}

static void stranger_come(struct stranger *s, const struct world *w)
{
        const struct transport_handlers handlers = {
                .context = s, .message = on_message, .accepted = on_accepted, .ended = on_ended, .room = on_room
        };
        const struct local_config config = { .epoch = s->epoch = random_id(), .directory = local_directory() };
        const struct transport_peer peer = { .epoch = w->epoch[1] };
        int error = 0;

        s->transfer = 9;
        assert_int_equal(local_transport_new(&config, &handlers, 0, &s->transport), 0);
        s->link = s->transport->ops->connect(s->transport, &peer, &error);
        assert_non_null(s->link);
        while (link_is_connecting(s->link))
                (void)s->transport->ops->progress(s->transport);
        assert_int_equal(s->link->state, LINK_UP);
}

static void stranger_send(struct stranger *s, const struct world *w, enum wire_type type, uint32_t seq, uint64_t length)
{
        static uint8_t bytes[4096];
        static struct segment segment = { .address = bytes, .size = sizeof(bytes) };
        static struct stream stream;
        struct message *m = message_new(s->transport);

        m->header = (struct wire_header){ .type = type,
                                          .to_epoch = w->epoch[1],
                                          .from_epoch = s->epoch,
                                          .operation = OPERATION,
                                          .transfer = s->transfer,
                                          .seq = seq,
                                          .offset = seq * length,
                                          .length = length,
                                          .total = w->total,
                                          .whole = w->total };
        memcpy(m->header.key, w->key, sizeof(w->key));
        m->header.key[5] ^= s->has_another_key;
        if (type == WIRE_WRITE) {
                assert_int_equal(stream_init(&stream, &segment, 1), 0);
                m->stream = &stream;
                m->length = length;
        }
        s->transport->ops->send(s->link, m);
}

static void stranger_read(struct stranger *s, const struct world *w, uint32_t seq, uint64_t length)
{
        stranger_send(s, w, WIRE_READ, seq, length);
}

static void stranger_say_done(struct stranger *s, const struct world *w)
{
        stranger_send(s, w, WIRE_DONE, 0, w->total);
}

static void stranger_hears(struct stranger *s, uint32_t status)
{
        WAIT_UNTIL(((void)s->transport->ops->progress(s->transport), s->status));
        assert_int_equal(s->status, status);
}

static void stranger_go(struct stranger *s)
{
        s->transport->ops->shut_down(s->transport, 0);
        s->transport->ops->free(s->transport);
}

/* Not the first one alone, which claims. */
TEST(each_request_of_a_transfer_needs_the_key)
{
        enum { LENGTH = 4096 };
        struct world *w = world_new(BOUNCED, 2 * LENGTH);
        struct stranger s = { 0 };

        world_offer(w, ENGINE_READ);
        stranger_come(&s, w);
        stranger_read(&s, w, 0, LENGTH);
        s.has_another_key = true;
        stranger_read(&s, w, 1, LENGTH);
        stranger_hears(&s, FERRY_E_PEER_REFUSED);
        assert_int_equal(w->passive.claims, 1);
        stranger_go(&s);
        end_wait(&w->passive, 1);
        assert_int_equal(w->passive.outcome.bytes, LENGTH);
}

TEST(a_write_is_not_done_before_all_of_it_has_come)
{
        enum { LENGTH = 4096 };
        struct world *w = world_new(BOUNCED, 2 * LENGTH);
        struct stranger s = { 0 };

        world_offer(w, ENGINE_WRITE);
        stranger_come(&s, w);
        stranger_send(&s, w, WIRE_WRITE, 0, LENGTH);
        stranger_say_done(&s, w);
        stranger_hears(&s, FERRY_E_SIZE_MISMATCH);
        end_wait(&w->passive, 1);
        assert_int_equal(w->passive.outcome.error, FERRY_E_TRANSFER_FAILED);
        assert_int_equal(w->passive.outcome.bytes, LENGTH);
        stranger_go(&s);
}

/* It says that it is lost, so that a requester whose link broke comes again with a transfer of its own. */
TEST(a_transfer_is_served_to_the_peer_that_claimed_it)
{
        enum { LENGTH = 4096 };
        struct world *w = world_new(BOUNCED, 2 * LENGTH);
        struct stranger s = { 0 }, other = { 0 };

        world_offer(w, ENGINE_READ);
        stranger_come(&s, w);
        stranger_come(&other, w);
        stranger_read(&s, w, 0, LENGTH);
        WAIT_UNTIL(w->passive.claims == 1);
        stranger_read(&other, w, 1, LENGTH);
        stranger_hears(&other, FERRY_E_PEER_LOST);
        stranger_go(&other);
        stranger_go(&s);
        end_wait(&w->passive, 1);
        assert_int_equal(w->passive.claims, 1);
}

/* Nobody can cancel a transfer that is complete. */
TEST(a_peer_that_is_done_and_keeps_its_leases_is_not_waited_for)
{
        enum { SIZE = 4 << 20 }; /* more than is copied at once */

        struct world *w = world_new(MAPPED, SIZE);
        struct segment segment = { .address = unit_alloc(SIZE), .size = SIZE };
        struct stranger s = { 0 };
        struct stream place;

        assert_int_equal(stream_init(&place, &segment, 1), 0);
        s.place = &place;
        world_offer(w, ENGINE_READ);
        stranger_come(&s, w);
        stranger_read(&s, w, 0, SIZE);
        while (!s.took)
                (void)s.transport->ops->progress(s.transport);
        stranger_say_done(&s, w);
        end_wait(&w->passive, 1);
        assert_int_equal(w->passive.outcome.error, 0);
        stranger_go(&s);
        free(segment.address);
}

/* What is asked for and not taken is bounded; the peer loses its transfer, and the worker nothing. */
TEST(a_peer_that_asks_for_too_much_ends_its_transfer)
{
        enum { LENGTH = 128 << 10, READS = 150 };

        FOR_EACH (enum carrier, carrier, BOUNCED, MAPPED) {
                struct world *w = world_new(carrier, READS * LENGTH);
                struct stranger s = { 0 };

                world_offer(w, ENGINE_READ);
                stranger_come(&s, w);
                for (uint32_t seq = 0; seq < READS; seq++)
                        stranger_read(&s, w, seq, LENGTH);
                end_wait(&w->passive, 1);
                assert_int_equal(w->passive.outcome.error, FERRY_E_TRANSFER_FAILED);
                assert_non_null(strstr(w->passive.outcome.detail, "more chunks at once"));
                stranger_hears(&s, FERRY_E_LIMIT_REACHED);
                world_start(w, ENGINE_READ, true);
                end_wait(&w->active, 1);
                assert_int_equal(w->active.outcome.error, 0);
                stranger_go(&s);
                world_free(w);
        }
}

/* A short READ behind long ones that wait for the window. */
TEST(reads_are_answered_in_their_order)
{
        enum { LENGTH = 256 << 10, LONG = 20, SHORT = 100 };

        FOR_EACH (enum carrier, carrier, BOUNCED, MAPPED) {
                struct world *w = world_new(carrier, LONG * LENGTH);
                struct stranger s = { 0 };

                world_offer(w, ENGINE_READ);
                stranger_come(&s, w);
                for (uint32_t seq = 0; seq < LONG; seq++)
                        stranger_read(&s, w, seq, LENGTH);
                stranger_read(&s, w, LONG, SHORT);
                WAIT_UNTIL(((void)s.transport->ops->progress(s.transport), s.answered == LONG + 1));
                assert_false(s.out_of_order);
                stranger_go(&s);
                end_wait(&w->passive, 1);
                world_free(w);
        }
}

TEST(more_transfers_at_once_than_allowed_are_refused_and_others_go_on)
{
        enum { SIZE = 4 << 20, CLAIMS = 3 };

        struct world *w = world_new_with(MAPPED, SIZE, (struct world_knobs){ .max_claims = CLAIMS });
        struct stranger s = { 0 };

        world_offer(w, ENGINE_READ);
        stranger_come(&s, w);
        for (int i = 0; i < CLAIMS; i++, s.transfer++)
                stranger_read(&s, w, 0, SIZE);
        stranger_read(&s, w, 0, SIZE);
        stranger_hears(&s, FERRY_E_LIMIT_REACHED);
        assert_int_equal(w->passive.claims, CLAIMS);
        world_start(w, ENGINE_READ, false);
        end_wait(&w->active, 1);
        assert_int_equal(w->active.outcome.error, FERRY_E_LIMIT_REACHED);
        assert_non_null(strstr(w->active.outcome.detail, "claims_max"));
        assert_int_equal(w->passive.ended, 0);
        stranger_go(&s);
        end_wait(&w->passive, CLAIMS);
        world_start(w, ENGINE_READ, false);
        end_wait(&w->active, 2);
        assert_int_equal(w->active.outcome.error, 0);
}

/* ---- a peer that is slow to take messages ---- */

/* Of writes that fit inside a message, more than the socket and the link's queue take: the rest wait for room. */
TEST(short_writes_wait_for_room_on_the_link)
{
        enum { MANY = 200, SIZE = 7936 };
        struct world *w = world_new(BOUNCED, SIZE);
        const struct engine_memory spec = { .address = w->memory[0], .size = SIZE, .fd = -1, .id = 0x99 };
        struct memory *memory;

        w->many = true;
        world_offer(w, ENGINE_WRITE);
        pthread_mutex_lock(&w->gate); /* the peer's thread stands still in the first claim */
        for (int i = 0; i < MANY; i++)
                world_start(w, ENGINE_WRITE, false);
        /* The engine's thread does this after all it was told before. */
        assert_int_equal(engine_memory_register(w->engine[0], &spec, &memory), 0);
        pthread_mutex_unlock(&w->gate);
        end_wait(&w->active, MANY);
        engine_memory_deregister(w->engine[0], memory);
}

/* ---- short memory ---- */

TEST(a_cancel_and_a_revoke_need_no_memory)
{
        enum { MANY = 500 };
        struct world *w = world_new(BOUNCED, 1 << 20);
        uint64_t id;

        world_offer(w, ENGINE_READ);
        pthread_mutex_lock(&w->gate); /* the peer does not answer */
        id = world_start(w, ENGINE_READ, false);
        memory_left = 0;
        for (int i = 0; i < MANY; i++)
                engine_claims_revoke(w->engine[0], OPERATION, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        engine_transfer_cancel(w->engine[0], id, FERRY_E_CANCELLED);
        memory_left = -1;
        end_wait(&w->active, 1);
        pthread_mutex_unlock(&w->gate);
        assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED);
}

/* How many descriptors of this process are of the same file. */
static int count_opened(int file)
{
        DIR *directory = opendir("/proc/self/fd");
        struct stat of, other;
        int n = 0;

        assert_non_null(directory);
        assert_int_equal(fstat(file, &of), 0);
        for (const struct dirent *entry; (entry = readdir(directory));)
                n += entry->d_name[0] != '.' && fstat(atoi(entry->d_name), &other) == 0 && other.st_ino == of.st_ino &&
                     other.st_dev == of.st_dev;
        (void)closedir(directory);
        return n;
}

/* Without a command for the engine's thread the caller does it: else the transports go on with memory that is freed. */
TEST(memory_is_deregistered_without_memory_for_the_command)
{
        struct world *w = world_new(MAPPED, 4096);
        const struct engine_memory spec = { .address = w->memory[0], .size = w->size, .fd = w->file[0], .id = 0x99 };
        const int n_before = count_opened(w->file[0]);
        struct memory *memory;

        assert_int_equal(engine_memory_register(w->engine[0], &spec, &memory), 0);
        assert_int_equal(count_opened(w->file[0]), n_before + 1); /* the one that a peer would map */
        memory_left = 0;
        engine_memory_deregister(w->engine[0], memory);
        memory_left = -1;
        assert_int_equal(count_opened(w->file[0]), n_before);
        world_free(w);
}
