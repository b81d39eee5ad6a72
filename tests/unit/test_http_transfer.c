/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/space.h"
#include "base/util.h"
#include "http_moved.h"

TEST(another_range_than_was_asked_for_is_no_success)
{
        static const struct {
                const char *answer;
                int error;
        } cases[] = {
                { PART("Content-Range: bytes 0-7/8\r\n"), 0 },
                { PART("content-range:  bytes 0-7/8\r\n"), 0 },
                { PART("Content-Range: bytes 8-15/16\r\n"), FERRY_E_TRANSFER_FAILED },
                { PART("Content-Range: bytes 0-15/16\r\n"), FERRY_E_TRANSFER_FAILED },
                { PART("Content-Range: bytes 0-70/80\r\n"), FERRY_E_TRANSFER_FAILED },
                { PART("Content-Range: lines 0-7/8\r\n"), FERRY_E_TRANSFER_FAILED },
                { PART("Content-Range: \r\n"), FERRY_E_TRANSFER_FAILED },
                { PART(""), FERRY_E_TRANSFER_FAILED },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                struct answering_peer *peer = answering_peer_new(test_row(cases[i].answer));
                uint8_t memory[8] = "abcdefg";
                struct segment segment = { .address = memory, .size = sizeof(memory) };
                struct moved moved;

                peer->later = COMPLETE;
                read_begin(&moved, &segment, answering_peer_go(peer)->port);
                read_end(&moved);
                assert_int_equal(moved.outcome.error, cases[i].error);
                assert_memory_equal(memory, cases[i].error ? "abcdefg" : "01234567", 8);
                if (cases[i].error)
                        assert_string_equal(moved.outcome.detail, "The peer sent a range that was not requested");
        }
}

/* What an earlier answer on the connection has said of its own range is no word on a later one. */
TEST(a_later_answer_must_name_its_range_too)
{
        enum { FIRST = 1 << 20, SIZE = FIRST + 8 };
        struct answering_peer *peer = answering_peer_new(
                text_format("HTTP/1.1 206 Part\r\nContent-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n\r\n%*s",
                            FIRST - 1, SIZE, FIRST, FIRST, ""));
        uint8_t *memory = test_keep(calloc(1, SIZE), free);
        struct segment segment = { .address = memory, .size = SIZE };
        struct moved moved;

        peer->later = PART("");
        peer->keep_alive = true;
        read_begin(&moved, &segment, answering_peer_go(peer)->port);
        read_end(&moved);
        assert_int_equal(moved.outcome.error, FERRY_E_TRANSFER_FAILED);
        assert_string_equal(moved.outcome.detail, "The peer sent a range that was not requested");
        assert_memory_equal(memory + FIRST, "\0\0\0\0\0\0\0", 8);
}

/* Its listener is full, so that SYNs are dropped. The default is 3 s. */
TEST(a_host_that_does_not_answer_is_given_up_in_time)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), first = socket(AF_INET, SOCK_STREAM, 0);
        uint64_t begun_us = clock_now_us();
        uint8_t memory[8] = { 0 };
        struct segment segment = { .address = memory, .size = sizeof(memory) };
        struct engine_transfer spec;
        struct moved moved;

        assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(listener, 0), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
        assert_int_equal(connect(first, (struct sockaddr *)&address, sizeof(address)), 0);
        spec = read_of(&moved, &segment, ntohs(address.sin_port));
        spec.connect_ms_max = 50;
        transfer_begin(&moved, &spec);
        read_end(&moved);
        assert_int_equal(moved.outcome.error, FERRY_E_PEER_UNREACHABLE);
        assert_in_range(clock_now_us() - begun_us, 50 * 1000, 2500 * 1000);
        close(first);
        close(listener);
}

/* ---- a peer that the test plays ---- */

/* It may have counted every byte as moved. */
TEST(the_peer_is_told_why_a_transfer_is_given_up)
{
        struct answering_peer *peer = answering_peer_new(NULL);
        uint8_t memory[8] = { 0 };
        struct segment segment = { .address = memory, .size = sizeof(memory) };
        struct moved moved;
        struct engine_transfer spec = read_of(&moved, &segment, peer->port);
        char request[REQUEST_SIZE];
        int fd;

        spec.verify = true;
        transfer_begin(&moved, &spec);
        fd = accept(peer->fd, NULL, NULL);
        take_request(fd, request);
        assert_null(strstr(request, "Ferry-Error"));
        assert_non_null(strstr(request, "\r\nWant-Content-Digest: xxh3=10\r\n"));
        answer(fd, PART("Content-Range: bytes 0-7/8\r\n" DIGEST("AAAAAAAAAAA=")));
        await_end(&moved);
        assert_int_equal(moved.outcome.error, FERRY_E_CHECKSUM_MISMATCH);
        take_request(fd, request);
        assert_non_null(strstr(request, "DELETE "));
        assert_non_null(strstr(request, "\r\nFerry-Error: checksum-mismatch\r\n"));
        read_end(&moved);
        close(fd);
}

TEST(a_cancel_ends_a_range_whose_rest_does_not_come)
{
        struct answering_peer *peer = answering_peer_new(NULL);
        struct pollfd p = { .fd = peer->fd, .events = POLLIN };
        uint8_t memory[8] = { 0 };
        struct segment segment = { .address = memory, .size = sizeof(memory) };
        struct moved moved;
        char request[REQUEST_SIZE];
        int fds[2];

        read_begin(&moved, &segment, peer->port);
        fds[0] = accept(peer->fd, NULL, NULL);
        take_request(fds[0], request);
        answer(fds[0], "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-7/8\r\nContent-Length: 8\r\n\r\n0123");
        http_mover_cancel(moved.client.mover, 2, FERRY_E_TIMEOUT); /* another one */
        http_mover_cancel(moved.client.mover, 1, FERRY_E_CANCELLED);
        await_end(&moved);
        assert_int_equal(moved.outcome.error, FERRY_E_CANCELLED);
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        fds[1] = accept(peer->fd, NULL, NULL);
        take_request(fds[1], request);
        assert_non_null(strstr(request, "DELETE "));
        assert_non_null(strstr(request, "\r\nFerry-Error: cancelled\r\n"));
        read_end(&moved);
        close(fds[0]);
        close(fds[1]);
}

/* Its answer decides, as both sides are to tell the same end. */
TEST(a_cancel_after_the_last_byte_waits_for_what_the_peer_says)
{
        static const struct {
                const char *answer;
                int error;
        } rows[] = { { COMPLETE, 0 },
                     { "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"status\":\"CANCELLED\"}", FERRY_E_TIMEOUT },
                     { NULL, FERRY_E_PEER_LOST } };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                struct answering_peer *peer = answering_peer_new(NULL);
                uint8_t memory[8] = { 0 };
                struct segment segment = { .address = memory, .size = sizeof(memory) };
                struct moved moved, later = { .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };
                struct engine_transfer spec = read_of(&later, &segment, peer->port);
                char request[REQUEST_SIZE], detail[256];
                int fds[2];

                read_begin(&moved, &segment, peer->port);
                fds[0] = accept(peer->fd, NULL, NULL);
                take_request(fds[0], request);
                answer(fds[0], PART("Content-Range: bytes 0-7/8\r\n"));
                take_request(fds[0], request);
                assert_non_null(strstr(request, "DELETE "));
                stops_with = FERRY_E_TIMEOUT;
                http_mover_cancel(moved.client.mover, 1, FERRY_E_TIMEOUT);
                spec.id = 2;
                spec.stopping = go_on;
                assert_int_equal(http_mover_start(moved.client.mover, &spec, detail, sizeof(detail)), 0);
                fds[1] = accept(peer->fd, NULL, NULL); /* the thread looks at the cancel before it reads again */
                if (rows[i].answer)
                        answer(fds[0], rows[i].answer);
                else
                        close(fds[0]);
                read_end(&moved);
                stops_with = 0;
                assert_int_equal(moved.outcome.error, rows[i].error);
                if (rows[i].answer)
                        close(fds[0]);
                close(fds[1]);
        }
}

/* ---- two ranges at once ---- */

/*
 * Memory whose first copy after the claim fails, once a later range has arrived as well: libcurl then gives the later
 * one to its lane, whose copies succeed, before the first lane's failure is looked at.
 */
struct one_fault {
        struct space space;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool armed, failing, sent;
};

static int fault_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                      size_t size)
{
        struct one_fault *fault = FERRY_CONTAINER_OF(to_space, struct one_fault, space);
        int r = 0;

        pthread_mutex_lock(&fault->lock);
        if (fault->armed && !fault->failing) {
                fault->failing = true;
                pthread_cond_signal(&fault->changed);
                WAIT_SIGNAL(&fault->changed, &fault->lock, fault->sent);
                r = -EFAULT;
        }
        pthread_mutex_unlock(&fault->lock);
        return r;
}

static int fault_finish(const struct space *space)
{
        return 0;
}

static const struct space_ops fault_ops = { .copy = fault_copy, .finish = fault_finish };

enum { CLAIM = 1 << 20, RANGE = 16 << 20, SENT = 4096 };

/* Sends the first size bytes of the range from first to before end. */
static void answer_range(int fd, unsigned first, unsigned end, size_t size)
{
        const char *head =
                text_format("HTTP/1.1 206 Part\r\nContent-Range: bytes %u-%u/%u\r\nContent-Length: %u\r\n\r\n", first,
                            end - 1, CLAIM + 2 * RANGE, end - first);
        char *bytes = test_keep(calloc(1, size), free);

        assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
        for (size_t sent = 0; sent < size;) {
                ssize_t n = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);

                assert_true(n > 0);
                sent += (size_t)n;
        }
}

/* The claim has arrived; each connection is asked for one more range. */
static void ask_for_two_ranges(struct answering_peer *peer, int fds[2])
{
        char request[REQUEST_SIZE];

        fds[0] = accept(peer->fd, NULL, NULL);
        take_request(fds[0], request);
        answer_range(fds[0], 0, CLAIM, CLAIM);
        take_request(fds[0], request);
        fds[1] = accept(peer->fd, NULL, NULL);
        take_request(fds[1], request);
}

TEST(memory_that_fails_in_one_range_is_the_reason_while_another_range_arrives)
{
        struct one_fault fault = { .space.ops = &fault_ops,
                                   .lock = PTHREAD_MUTEX_INITIALIZER,
                                   .changed = PTHREAD_COND_INITIALIZER };
        struct segment segment = { .address = (uint8_t *)4096, .size = CLAIM + 2 * RANGE, .space = &fault.space };
        struct answering_peer *peer = answering_peer_new(NULL);
        struct moved moved;
        int fds[2];

        read_begin(&moved, &segment, peer->port);
        ask_for_two_ranges(peer, fds);
        pthread_mutex_lock(&fault.lock);
        fault.armed = true;
        pthread_mutex_unlock(&fault.lock);
        answer_range(fds[0], CLAIM, CLAIM + RANGE, SENT);
        pthread_mutex_lock(&fault.lock);
        WAIT_SIGNAL(&fault.changed, &fault.lock, fault.failing);
        pthread_mutex_unlock(&fault.lock);
        answer_range(fds[1], CLAIM + RANGE, CLAIM + 2 * RANGE, SENT);
        pthread_mutex_lock(&fault.lock);
        fault.sent = true;
        pthread_cond_signal(&fault.changed);
        pthread_mutex_unlock(&fault.lock);
        read_end(&moved);
        (void)close(fds[0]);
        (void)close(fds[1]);
        assert_int_equal(moved.outcome.error, FERRY_E_TRANSFER_FAILED);
        assert_string_equal(moved.outcome.detail, space_error(-EFAULT));
}

/* Nothing is written into its memory any more. */
TEST(a_range_that_fails_ends_the_others)
{
        const struct timeval patience = { .tv_sec = 10 };
        struct segment segment = { .address = test_keep(calloc(1, CLAIM + 2 * RANGE), free),
                                   .size = CLAIM + 2 * RANGE };
        struct answering_peer *peer = answering_peer_new(NULL);
        struct moved moved;
        char byte;
        int fds[2];

        read_begin(&moved, &segment, peer->port);
        ask_for_two_ranges(peer, fds);
        answer_range(fds[1], CLAIM + RANGE, CLAIM + 2 * RANGE, SENT);
        pthread_mutex_lock(&moved.lock);
        WAIT_SIGNAL(&moved.done, &moved.lock, moved.progress == CLAIM + SENT);
        pthread_mutex_unlock(&moved.lock);
        answer(fds[0], "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
        await_end(&moved);
        assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
        assert_int_equal(read(fds[1], &byte, 1), 0);
        read_end(&moved);
        (void)close(fds[0]);
        (void)close(fds[1]);
}

static uint64_t eight(void *context)
{
        (void)context;
        return 8;
}

static void take_range(int fd, const char *range)
{
        char request[REQUEST_SIZE];

        take_request(fd, request);
        assert_non_null(strstr(request, text_format("\r\nRange: bytes=%s\r\n", range)));
}

/* libcurl takes any connection that is idle. */
static int first_readable(int a, int b)
{
        struct pollfd polled[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };

        assert_true(poll(polled, 2, 10000) > 0);
        return polled[0].revents ? a : b;
}

TEST(a_range_that_is_retried_is_waited_for)
{
        uint8_t memory[24] = { 0 };
        struct segment segment = { .address = memory, .size = sizeof(memory) };
        struct answering_peer *peer = answering_peer_new(NULL);
        struct moved moved;
        struct engine_transfer spec = read_of(&moved, &segment, peer->port);
        char request[REQUEST_SIZE];
        int fds[2], fd;

        spec.request_max = eight;
        transfer_begin(&moved, &spec);
        fds[0] = accept(peer->fd, NULL, NULL);
        take_range(fds[0], "0-7");
        answer(fds[0], PART("Content-Range: bytes 0-7/24\r\n"));
        take_range(fds[0], "8-15");
        fds[1] = accept(peer->fd, NULL, NULL);
        take_range(fds[1], "16-23");
        answer(fds[1], "HTTP/1.1 502 Bad\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        assert_int_equal(read(fds[1], request, 1), 0); /* it was heard */
        (void)close(fds[1]);
        answer(fds[0], PART("Content-Range: bytes 8-15/24\r\n"));
        fds[1] = first_readable(fds[0], peer->fd);
        if (fds[1] == peer->fd)
                fds[1] = accept(peer->fd, NULL, NULL);
        take_range(fds[1], "16-23"); /* no DELETE yet */
        answer(fds[1], PART("Content-Range: bytes 16-23/24\r\n"));
        fd = fds[1] == fds[0] ? fds[0] : first_readable(fds[0], fds[1]);
        take_request(fd, request);
        assert_non_null(strstr(request, "DELETE "));
        answer(fd, COMPLETE);
        read_end(&moved);
        assert_int_equal(moved.outcome.error, 0);
        assert_memory_equal(memory, "012345670123456701234567", sizeof(memory));
        (void)close(fds[0]);
        if (fds[1] != fds[0])
                (void)close(fds[1]);
}
