/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <ferry/encoding.h>

#include "base/space.h"
#include "http_moved.h"
#include "message/stream.h"

/* Peers that send too little, too much or nonsense, and memory that fails. */

enum { SIZE = 8 };

/* Memory of a transfer, and what lies behind it. */
struct place {
        uint8_t bytes[2 * SIZE];
        struct segment segment;
};

static struct place *place_new(void)
{
        struct place *place = test_keep(calloc(1, sizeof(*place)), free);

        memcpy(place->bytes, "abcdefghijklmnop", sizeof(place->bytes));
        place->segment = (struct segment){ .address = place->bytes, .size = SIZE };
        return place;
}

/* To the end; the peer gives one answer to the range, and says that all is COMPLETE. */
static void read_range(struct moved *moved, const struct segment *segment, const char *answer)
{
        struct answering_peer *peer = answering_peer_new(test_row(answer));

        peer->later = COMPLETE;
        peer->keep_alive = true;
        read_begin(moved, segment, answering_peer_go(peer)->port);
        read_end(moved);
}

#define HEAD_OF(length) "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-7/8\r\nContent-Length: " length "\r\n\r\n"

TEST(a_range_of_another_length_is_no_success_and_stored_nowhere_else)
{
        FOR_EACH_TEXT (answer, HEAD_OF("12") "0123456789AB", HEAD_OF("4") "0123") {
                struct place *place = place_new();
                struct moved moved;

                read_range(&moved, &place->segment, answer);
                assert_int_equal(moved.outcome.error, FERRY_E_TRANSFER_FAILED);
                assert_memory_equal(place->bytes + SIZE, "ijklmnop", SIZE);
        }
}

TEST(an_answer_that_is_not_a_range_may_be_of_any_length)
{
        FOR_EACH (size_t, length, 0, 1, 2047, 2048, 2049, 100000) {
                struct answering_peer *peer =
                        answering_peer_new(text_format("HTTP/1.1 404 No\r\nContent-Length: %zu\r\n\r\n", length));
                struct moved moved;

                peer->fill = length;
                read_begin(&moved, &place_new()->segment, answering_peer_go(peer)->port);
                read_end(&moved);
                assert_int_equal(moved.outcome.error, FERRY_E_TRANSFER_FAILED);
        }
}

TEST(a_head_without_end_ends_the_transfer)
{
        struct moved moved;

        read_range(&moved, &place_new()->segment,
                   text_format("HTTP/1.1 206 Part\r\nContent-Range: bytes 0-7/8\r\nX-Filler: %080000d\r\n"
                               "Content-Length: 8\r\n\r\n01234567",
                               0));
        assert_int_equal(moved.outcome.error, FERRY_E_INVALID_METADATA);
        assert_non_null(strstr(moved.outcome.detail, "too large"));
}

/* ---- what a peer says of the end ---- */

TEST(only_a_peer_that_has_every_byte_makes_it_a_success)
{
        static const struct {
                const char *later;
                int error;
        } rows[] = {
                { COMPLETE, 0 },
                { "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"status\":\"IN_PROGRESS\"}",
                  FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 202 No\r\nContent-Length: 21\r\n\r\n{\"status\":\"COMPLETE\"}", FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 410 Gone\r\nContent-Length: 15\r\n\r\n{\"code\":\"gone\"}", FERRY_E_CANCELLED_BY_PEER },
        };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct answering_peer *peer = answering_peer_new(HEAD_OF("8") "01234567");
                struct moved moved;

                peer->later = test_row(rows[i].later);
                peer->keep_alive = true;
                read_begin(&moved, &place_new()->segment, answering_peer_go(peer)->port);
                read_end(&moved);
                assert_int_equal(moved.outcome.error, rows[i].error);
        }
}

/* It has never been claimed. */
TEST(an_operation_that_is_gone_at_first_is_stale)
{
        struct moved moved;

        read_range(&moved, &place_new()->segment, "HTTP/1.1 410 Gone\r\nContent-Length: 15\r\n\r\n{\"code\":\"gone\"}");
        assert_int_equal(moved.outcome.error, FERRY_E_STALE_METADATA);
}

TEST(the_code_of_a_refusal_is_the_reason)
{
        static const struct {
                int said, error;
        } rows[] = {
                { FERRY_E_ALREADY_CLAIMED, FERRY_E_ALREADY_CLAIMED },
                { FERRY_E_CANCELLED_BY_PEER, FERRY_E_CANCELLED_BY_PEER },
                { FERRY_E_EXPIRED, FERRY_E_EXPIRED },
                { FERRY_E_KIND_MISMATCH, FERRY_E_KIND_MISMATCH },
                { FERRY_E_CHECKSUM_MISMATCH, FERRY_E_CHECKSUM_MISMATCH },
                { FERRY_E_NOT_FOUND, FERRY_E_STALE_METADATA },
                { FERRY_E_UNAUTHENTICATED, FERRY_E_PEER_REFUSED },
                { FERRY_E_FORBIDDEN, FERRY_E_PEER_REFUSED },
                { FERRY_E_INVALID_JSON, FERRY_E_TRANSFER_FAILED },
        };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                const char *body = text_format("{\"code\":\"%s\"}", ferry_error_code(rows[i].said));
                struct moved moved;

                read_range(&moved, &place_new()->segment,
                           text_format("HTTP/1.1 400 No\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body));
                assert_int_equal(moved.outcome.error, rows[i].error);
        }
}

/* ---- digests ---- */

static uint64_t n_arrived;

static void count_arrived(void *context, uint64_t offset, uint64_t length)
{
        n_arrived += length;
}

TEST(bytes_are_passed_on_once_their_digest_is_right)
{
        uint8_t bytes[] = "01234567";
        const struct segment right = { bytes, SIZE, NULL };
        struct stream stream;
        char text[FERRY_DIGEST_TEXT_SIZE];
        uint64_t checksum;

        assert_int_equal(stream_init(&stream, &right, 1), 0);
        assert_int_equal(stream_checksum(&stream, 0, SIZE, &checksum), 0);
        ferry_digest_format(checksum, text);
        const struct {
                const char *digest;
                int error;
        } rows[] = { { text_format("Content-Digest: %s\r\n", text), 0 },
                     { DIGEST("AAAAAAAAAAA="), FERRY_E_CHECKSUM_MISMATCH },
                     { "Content-Digest: xxh3=:?:\r\n", FERRY_E_TRANSFER_FAILED },
                     { "", FERRY_E_TRANSFER_FAILED } };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct answering_peer *peer = answering_peer_new(text_format(
                        "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-7/8\r\n%sContent-Length: 8\r\n\r\n01234567",
                        test_row(rows[i].digest)));
                struct place *place = place_new();
                struct engine_transfer spec;
                struct moved moved;

                peer->later = COMPLETE;
                peer->keep_alive = true;
                spec = read_of(&moved, &place->segment, answering_peer_go(peer)->port);
                spec.verify = true;
                spec.arrived = count_arrived;
                n_arrived = 0;
                transfer_begin(&moved, &spec);
                read_end(&moved);
                assert_int_equal(moved.outcome.error, rows[i].error);
                assert_int_equal(n_arrived, rows[i].error ? 0 : SIZE);
        }
}

/* ---- writes ---- */

static struct engine_transfer write_of(struct moved *moved, const struct segment *segment, unsigned port)
{
        struct engine_transfer spec = read_of(moved, segment, port);

        spec.direction = ENGINE_WRITE;
        return spec;
}

static int fail_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                     size_t size)
{
        return -EFAULT;
}

static int finish_nothing(const struct space *space)
{
        return 0;
}

/* While the digest is made, or when the bytes are sent. */
TEST(a_write_from_memory_that_fails_says_so)
{
        static const struct space_ops ops = { .copy = fail_copy, .finish = finish_nothing };
        static const struct space space = { .ops = &ops };

        FOR_EACH (int, verify, false, true) {
                struct answering_peer *peer = answering_peer_start("HTTP/1.1 204 Stored\r\n\r\n");
                struct segment segment = { .address = (uint8_t *)4096, .size = SIZE, .space = &space };
                struct moved moved;
                struct engine_transfer spec = write_of(&moved, &segment, peer->port);

                spec.verify = verify;
                transfer_begin(&moved, &spec);
                read_end(&moved);
                assert_int_equal(moved.outcome.error, FERRY_E_TRANSFER_FAILED);
                assert_string_equal(moved.outcome.detail, space_error(-EFAULT));
        }
}

/* ---- retries ---- */

TEST(a_peer_that_is_never_there_is_given_up)
{
        struct answering_peer *peer = answering_peer_start("HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n");
        struct moved moved;

        read_begin(&moved, &place_new()->segment, peer->port);
        read_end(&moved);
        assert_int_equal(moved.outcome.error, FERRY_E_TRANSFER_FAILED);
        assert_true(atomic_load(&peer->requests) > 2); /* it was tried again */
}

/* Its refusal is no part of what it says later, and a write has its bytes again. */
TEST(a_peer_that_is_busy_at_first_makes_it_a_success)
{
        FOR_EACH (int, direction, ENGINE_READ, ENGINE_WRITE) {
                struct answering_peer *peer = answering_peer_new(NULL);
                struct place *place = place_new();
                struct moved moved;
                struct engine_transfer spec = read_of(&moved, &place->segment, peer->port);
                char request[REQUEST_SIZE];
                int fd;

                spec.direction = direction;
                transfer_begin(&moved, &spec);
                fd = accept(peer->fd, NULL, NULL);
                take_whole(fd, request);
                answer(fd, "HTTP/1.1 429 Busy\r\nContent-Length: 4\r\n\r\nbusy");
                take_whole(fd, request);
                if (direction == ENGINE_READ) {
                        answer(fd, PART("Content-Range: bytes 0-7/8\r\n"));
                } else {
                        assert_non_null(strstr(request, "\r\nContent-Range: bytes 0-7/8\r\n"));
                        assert_string_equal(strstr(request, "\r\n\r\n"), "\r\n\r\nabcdefgh");
                        answer(fd, "HTTP/1.1 204 Stored\r\n\r\n");
                }
                take_whole(fd, request);
                answer(fd, COMPLETE);
                read_end(&moved);
                assert_int_equal(moved.outcome.error, 0);
                (void)close(fd);
        }
}

static int stop_at_once(void *context)
{
        return FERRY_E_CANCELLED;
}

TEST(what_was_cancelled_before_it_began_asks_for_nothing)
{
        struct answering_peer *peer = answering_peer_start(COMPLETE);
        struct moved moved;
        struct engine_transfer spec = read_of(&moved, &place_new()->segment, peer->port);

        spec.stopping = stop_at_once;
        transfer_begin(&moved, &spec);
        read_end(&moved);
        assert_int_equal(moved.outcome.error, FERRY_E_CANCELLED);
        assert_int_equal(atomic_load(&peer->requests), 0);
}

/* The answer to a write, and the one to the end of its transfer. */
static void say_stored(int fd)
{
        char request[REQUEST_SIZE];

        answer(fd, "HTTP/1.1 204 Stored\r\n\r\n");
        take_whole(fd, request);
        answer(fd, COMPLETE);
}

/* The peer has closed the connection that an earlier transfer left, and has read the bytes, maybe. */
TEST(a_write_on_a_connection_that_was_closed_is_sent_again_from_its_beginning)
{
        struct answering_peer *peer = answering_peer_new(NULL);
        struct place *place = place_new();
        struct moved first, second = { .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };
        struct engine_transfer spec = write_of(&first, &place->segment, peer->port);
        char request[REQUEST_SIZE], detail[256];
        int fd;

        transfer_begin(&first, &spec);
        fd = accept(peer->fd, NULL, NULL);
        take_whole(fd, request);
        say_stored(fd);
        await_end(&first);
        spec.context = &second;
        assert_int_equal(http_mover_start(first.client.mover, &spec, detail, sizeof(detail)), 0);
        take_whole(fd, request);
        (void)close(fd);
        fd = accept(peer->fd, NULL, NULL);
        take_whole(fd, request);
        assert_string_equal(strstr(request, "\r\n\r\n"), "\r\n\r\nabcdefgh");
        say_stored(fd);
        await_end(&second);
        assert_int_equal(second.outcome.error, 0);
        read_end(&first);
        (void)close(fd);
}

/* Of the whole range anew where its digest is asked for. */
TEST(a_range_that_broke_off_is_asked_for_from_where_it_stopped)
{
        enum { CLAIM = 1 << 20, ALL = CLAIM + SIZE };
        uint8_t *zeros = test_keep(calloc(1, ALL), free), *memory = test_keep(malloc(ALL), free);
        const char *digests[2];

        for (size_t i = 0; i < 2; i++) {
                const struct segment segment = { zeros, i ? SIZE : CLAIM, NULL };
                struct stream stream;
                char text[FERRY_DIGEST_TEXT_SIZE];
                uint64_t checksum;

                assert_int_equal(stream_init(&stream, &segment, 1), 0);
                assert_int_equal(stream_checksum(&stream, 0, segment.size, &checksum), 0);
                ferry_digest_format(checksum, text);
                digests[i] = text_format("%s", text);
        }
        FOR_EACH (int, verify, false, true) {
                struct answering_peer *peer = answering_peer_new(NULL);
                struct segment segment = { .address = memory, .size = ALL };
                unsigned rest = verify ? SIZE : SIZE - 3;
                struct moved moved;
                struct engine_transfer spec = read_of(&moved, &segment, peer->port);
                char request[REQUEST_SIZE];
                int fd;

                memset(memory, 0xff, ALL);
                spec.verify = verify;
                transfer_begin(&moved, &spec);
                fd = accept(peer->fd, NULL, NULL);
                take_request(fd, request);
                answer(fd, text_format("HTTP/1.1 206 Part\r\nContent-Range: bytes 0-%d/%d\r\nContent-Digest: %s\r\n"
                                       "Content-Length: %d\r\n\r\n",
                                       CLAIM - 1, ALL, digests[0], CLAIM));
                for (size_t sent = 0; sent < CLAIM;) {
                        ssize_t n = write(fd, zeros + sent, CLAIM - sent);

                        assert_true(n > 0);
                        sent += (size_t)n;
                }
                take_request(fd, request);
                answer(fd, text_format("HTTP/1.1 206 Part\r\nContent-Range: bytes %d-%d/%d\r\nContent-Digest: %s\r\n"
                                       "Content-Length: %d\r\n\r\n",
                                       CLAIM, ALL - 1, ALL, digests[1], SIZE));
                assert_int_equal(write(fd, zeros, 3), 3);
                (void)close(fd);
                fd = accept(peer->fd, NULL, NULL);
                take_request(fd, request);
                assert_non_null(strstr(request, text_format("\r\nRange: bytes=%u-%d\r\n", ALL - rest, ALL - 1)));
                answer(fd, text_format("HTTP/1.1 206 Part\r\nContent-Range: bytes %u-%d/%d\r\nContent-Digest: %s\r\n"
                                       "Content-Length: %u\r\n\r\n",
                                       ALL - rest, ALL - 1, ALL, digests[1], rest));
                assert_int_equal(write(fd, zeros, rest), rest);
                take_request(fd, request);
                assert_non_null(strstr(request, "DELETE "));
                answer(fd, COMPLETE);
                read_end(&moved);
                (void)close(fd);
                assert_int_equal(moved.outcome.error, 0);
                assert_memory_equal(memory, zeros, ALL);
        }
}

/* ---- kept connections ---- */

enum { KEPT_MAX = 16, KEPT_MADE = 20 };

/* What is asked for over kept connections: a transfer, or the metadata of an operation. */
struct asked {
        const char *name;
        int direction; /* of a transfer; -1 = metadata */
};

static const struct asked all_asked[] = { { "read", ENGINE_READ }, { "write", ENGINE_WRITE }, { "metadata", -1 } };

static void on_metadata(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        on_ended(context, &(struct engine_outcome){ .error = error });
}

/* Asks once; to be waited for. The transfer's memory is a place of its own. */
static struct moved *ask(const struct client *client, const struct asked *asked, unsigned port)
{
        struct moved *moved = test_keep(calloc(1, sizeof(*moved)), free);
        struct engine_transfer spec;
        char detail[256];

        *moved = (struct moved){ .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };
        if (asked->direction < 0) {
                const char *url = text_format("http://127.0.0.1:%u/v1/operations/op_0123456789abcdef/metadata", port);

                assert_int_equal(
                        peers_fetch_metadata(client->peers, url, on_metadata, NULL, moved, detail, sizeof(detail)), 0);
                return moved;
        }
        spec = read_of(moved, &place_new()->segment, port);
        spec.direction = (enum engine_direction)asked->direction;
        assert_int_equal(http_mover_start(client->mover, &spec, detail, sizeof(detail)), 0);
        return moved;
}

/* Answers one request; metadata are not to be had. */
static void answer_asked(int fd, const char *request)
{
        if (strncmp(request, "PUT", 3) == 0)
                answer(fd, "HTTP/1.1 204 Stored\r\n\r\n");
        else if (strncmp(request, "DELETE", 6) == 0)
                answer(fd, COMPLETE);
        else if (strstr(request, "/content "))
                answer(fd, PART("Content-Range: bytes 0-7/8\r\n"));
        else
                answer(fd, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
}

/* As a proxy does that has forgotten the connection. */
static void wire_reset(int fd)
{
        struct linger linger = { .l_onoff = 1 };

        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        (void)close(fd);
}

/* Peers with connections to a listener that all stand open: so many requests were under way at once. */
struct kept {
        struct client client;
        size_t n;
        int fds[KEPT_MADE + 1]; /* -1 = closed */
};

/* Forgets those that the peers have closed. Returns how many are open. */
static size_t kept_count(struct kept *kept)
{
        size_t n = 0;

        for (size_t i = 0; i < kept->n; i++) {
                ssize_t r = 1;
                char byte;

                if (kept->fds[i] >= 0)
                        r = recv(kept->fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK);
                if (r == 0 || (r < 0 && errno != EAGAIN)) { /* closed, or reset */
                        (void)close(kept->fds[i]);
                        kept->fds[i] = -1;
                }
                n += kept->fds[i] >= 0;
        }
        return n;
}

/* The next connection with a request on it, or that is made: its index, or KEPT_MADE. */
static size_t kept_next(struct kept *kept, const struct answering_peer *peer)
{
        for (;;) {
                struct pollfd fds[KEPT_MADE + 1];

                (void)kept_count(kept);
                for (size_t i = 0; i < KEPT_MADE; i++)
                        fds[i] = (struct pollfd){ .fd = kept->fds[i], .events = POLLIN };
                fds[KEPT_MADE] = (struct pollfd){ .fd = peer->fd, .events = POLLIN };
                assert_true(poll(fds, KEPT_MADE + 1, WAIT_MS) > 0);
                (void)kept_count(kept);
                for (size_t i = 0; i <= KEPT_MADE; i++)
                        if (fds[i].revents && (i == KEPT_MADE || kept->fds[i] >= 0))
                                return i;
        }
}

/* Makes n connections at once, KEPT_MADE at most, and answers over all of them. */
static void kept_make(struct kept *kept, size_t n, const struct asked *asked, const struct answering_peer *peer)
{
        struct moved *moved[KEPT_MADE];
        char request[REQUEST_SIZE];

        *kept = (struct kept){ .n = n };
        for (size_t i = n; i <= KEPT_MADE; i++)
                kept->fds[i] = -1;
        client_open(&kept->client);
        for (size_t i = 0; i < kept->n; i++)
                moved[i] = ask(&kept->client, asked, peer->port);
        for (size_t i = 0; i < kept->n; i++)
                kept->fds[i] = accept(peer->fd, NULL, NULL);
        for (size_t left = kept->n * (asked->direction < 0 ? 1 : 2); left; left--) {
                int fd = kept->fds[kept_next(kept, peer)];

                take_whole(fd, request);
                answer_asked(fd, request);
        }
        for (size_t i = 0; i < kept->n; i++)
                await_end(moved[i]);
}

static void kept_free(struct kept *kept)
{
        for (size_t i = 0; i < kept->n; i++)
                if (kept->fds[i] >= 0)
                        (void)close(kept->fds[i]);
        client_close(&kept->client);
}

/*
 * More than five: libcurl by itself tries a request over so many dead ones, and a write over one. No more than are
 * kept: libcurl 8.23 takes one that was ended a moment ago for alive.
 */
TEST(of_dead_kept_connections_one_is_tried_and_the_others_go_with_it)
{
        for (size_t i = 0; i < UNIT_COUNT(all_asked); i++) {
                struct answering_peer *peer = answering_peer_new(NULL);
                const struct asked *asked = &all_asked[i];
                char request[REQUEST_SIZE];
                struct moved *moved;
                struct kept kept;
                size_t at;

                test_row(asked->name);
                assert_int_equal(listen(peer->fd, KEPT_MADE), 0);
                kept_make(&kept, KEPT_MAX, asked, peer);
                assert_true(kept_count(&kept) > 5);
                moved = ask(&kept.client, asked, peer->port);
                at = kept_next(&kept, peer);
                assert_int_not_equal(at, KEPT_MADE);
                take_request(kept.fds[at], request);
                wire_reset(kept.fds[at]);
                kept.fds[at] = -1;
                kept.fds[kept.n] = accept(peer->fd, NULL, NULL);
                do {
                        take_whole(kept.fds[kept.n], request);
                        answer_asked(kept.fds[kept.n], request);
                } while (asked->direction >= 0 && strncmp(request, "DELETE", 6) != 0);
                await_end(moved);
                assert_int_equal(moved->outcome.error, asked->direction < 0 ? FERRY_E_STALE_METADATA : 0);
                kept.n++;
                WAIT_UNTIL(kept_count(&kept) <= 1); /* the kernel may deliver their ends later than the answer */
                assert_int_equal(kept_count(&kept), 1);
                kept_free(&kept);
        }
}

TEST(few_connections_are_kept)
{
        struct answering_peer *peer = answering_peer_new(NULL);
        struct kept kept;

        assert_int_equal(listen(peer->fd, KEPT_MADE), 0);
        kept_make(&kept, KEPT_MADE, &all_asked[0], peer);
        WAIT_UNTIL(kept_count(&kept) <= KEPT_MAX); /* the last operation ends a moment before its connection is idle */
        assert_in_range(kept_count(&kept), 1, KEPT_MAX);
        kept_free(&kept);
}

/* The peer may have the claim: it then refuses the next one until it has noticed the end of the connection. */
TEST(a_connection_that_breaks_before_the_claim_is_made_anew)
{
        static const char refusal[] = "HTTP/1.1 409 No\r\nContent-Length: 26\r\n\r\n{\"code\":\"already-claimed\"}";

        for (size_t i = 0; i < 2; i++) {
                struct answering_peer *peer = answering_peer_new(NULL);
                struct place *place = place_new();
                struct moved moved;
                struct engine_transfer spec = read_of(&moved, &place->segment, peer->port);
                char request[REQUEST_SIZE];
                int fd;

                test_row(all_asked[i].name);
                spec.direction = (enum engine_direction)all_asked[i].direction;
                transfer_begin(&moved, &spec);
                fd = accept(peer->fd, NULL, NULL);
                take_request(fd, request);
                wire_reset(fd);
                fd = accept(peer->fd, NULL, NULL);
                take_whole(fd, request);
                answer(fd, refusal);
                for (size_t n = 0; n < 2; n++) {
                        take_whole(fd, request);
                        answer_asked(fd, request);
                }
                read_end(&moved);
                assert_int_equal(moved.outcome.error, 0);
                (void)close(fd);
        }
}

/* Its number is the next one that the process gives to another file. */
TEST(a_socket_that_did_not_connect_is_forgotten)
{
        struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(nobody);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, and no listener */
        struct kept kept = { 0 };
        struct moved *moved;

        assert_int_equal(bind(fd, (struct sockaddr *)&nobody, size), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&nobody, &size), 0);
        client_open(&kept.client);
        moved = ask(&kept.client, &(struct asked){ "metadata", -1 }, ntohs(nobody.sin_port)); /* nothing follows it */
        await_end(moved);
        assert_int_equal(moved->outcome.error, FERRY_E_PEER_UNREACHABLE);
        assert_null(kept.client.thread->multi.sockets);
        close(fd);
        kept_free(&kept);
}
