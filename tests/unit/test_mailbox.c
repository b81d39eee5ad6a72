/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "base/clock.h"
#include "mailbox.h"
#include "unit.h"

/* Messages in memory between two ends. */

static struct mailbox boxes[2];
static struct mail to_peer, from_peer; /* the end that sends, and the other one */

static int setup(void **state)
{
        memset(boxes, 0, sizeof(boxes));
        to_peer = (struct mail){ .own = &boxes[0], .peer = &boxes[1] };
        from_peer = (struct mail){ .own = &boxes[1], .peer = &boxes[0] };
        mail_set_watched(&from_peer, true);
        return 0;
}

/* Of the message with that number. */
static uint8_t byte_at(uint64_t number, size_t at)
{
        return (uint8_t)(number * 131 + at + at / 251);
}

/* In three pieces, of which two may be empty. */
static bool put(uint64_t number, size_t size)
{
        static uint8_t bytes[MAILBOX_MESSAGE_MAX + 1];
        size_t first = size / 3, second = size / 7;
        struct iovec pieces[] = { { bytes, first },
                                  { bytes + first, second },
                                  { bytes + first + second, size - first - second } };
        bool wake = true;

        for (size_t i = 0; i < size; i++)
                bytes[i] = byte_at(number, i);
        if (!mail_put(&to_peer, pieces, 3, &wake))
                return false;
        assert_false(wake);
        return true;
}

static void take(uint64_t number, size_t size)
{
        static uint8_t bytes[MAILBOX_MESSAGE_MAX];

        assert_true(mail_is_there(&from_peer));
        assert_int_equal(mail_take(&from_peer, bytes), size);
        for (size_t i = 0; i < size; i++)
                if (bytes[i] != byte_at(number, i))
                        fail_msg("message %llu of %zu bytes: byte %zu", (unsigned long long)number, size, i);
}

static void take_none(int result)
{
        static uint8_t bytes[MAILBOX_MESSAGE_MAX];

        assert_int_equal(mail_take(&from_peer, bytes), result);
}

static uint64_t next(uint64_t *random)
{
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        return *random >> 33;
}

/* A size of all orders of magnitude. */
static size_t any_size(uint64_t *random)
{
        return 1 + (size_t)(next(random) % (1u << (next(random) % 14)) % MAILBOX_MESSAGE_MAX);
}

TEST_WITH(messages_are_taken_whole_and_in_order, setup, NULL)
{
        enum { STEPS = 200000 };
        size_t sizes[MAILBOX_MESSAGES_MAX];
        uint64_t n_put = 0, n_taken = 0, refused = 0, random = 1;

        for (int i = 0; i < STEPS; i++) {
                size_t size = any_size(&random);

                if (next(&random) % 2) {
                        if (put(n_put + 1, size))
                                sizes[n_put++ % MAILBOX_MESSAGES_MAX] = size;
                        else
                                refused++;
                } else if (n_taken < n_put) {
                        take(n_taken + 1, sizes[n_taken % MAILBOX_MESSAGES_MAX]);
                        n_taken++;
                } else {
                        assert_false(mail_is_there(&from_peer));
                        take_none(0);
                }
        }
        assert_true(refused > 0 && n_taken > STEPS / 8);
}

/* A payload may have any bytes, also the number of its message or of the next one. */
TEST_WITH(bytes_of_a_payload_are_never_taken_for_a_message, setup, NULL)
{
        for (uint64_t n = 1; n <= 64; n++) {
                uint64_t words[256], taken[MAILBOX_MESSAGE_MAX / sizeof(uint64_t)];
                struct iovec piece = { words, n % 2 ? sizeof(words) : 3 * sizeof(words[0]) };
                bool wake;

                for (size_t i = 0; i < UNIT_COUNT(words); i++)
                        words[i] = n + n / 2 % 2;
                assert_true(mail_put(&to_peer, &piece, 1, &wake));
                assert_int_equal(mail_take(&from_peer, (uint8_t *)taken), piece.iov_len);
                assert_memory_equal(taken, words, piece.iov_len);
                assert_false(mail_is_there(&from_peer));
                take_none(0);
        }
}

TEST_WITH(what_does_not_fit_is_not_put, setup, NULL)
{
        const size_t size = MAILBOX_MESSAGE_MAX;
        unsigned n = 0;

        assert_false(put(1, size + 1));
        assert_false(mail_is_there(&from_peer));
        while (put(n + 1, size))
                n++;
        assert_true(n >= MAILBOX_SIZE / size - 1);
        take(1, size);
        assert_false(put(n + 1, size)); /* only once all were taken */
        for (unsigned i = 2; i <= n; i++)
                take(i, size);
        assert_true(put(n + 1, size));
        take(n + 1, size);
}

TEST_WITH(who_does_not_look_is_sent_nothing, setup, NULL)
{
        mail_set_watched(&from_peer, false);
        assert_false(put(1, 10));
        mail_set_watched(&from_peer, true);
        assert_true(put(1, 10));
}

TEST_WITH(datagrams_and_messages_keep_their_order, setup, NULL)
{
        assert_true(put(1, 10));
        to_peer.n_posted++;
        assert_true(put(2, 10));
        assert_true(put(3, 10));
        to_peer.n_posted += 2;
        assert_true(put(4, 10));
        take(1, 10);
        assert_false(mail_is_there(&from_peer));
        take_none(0);
        from_peer.n_read++;
        take(2, 10);
        take(3, 10);
        take_none(0);
        from_peer.n_read++;
        take_none(0);
        from_peer.n_read++;
        take(4, 10);
        take_none(0);
}

TEST_WITH(what_no_peer_puts_is_refused, setup, NULL)
{
        static const struct {
                size_t at;
                uint64_t after, size;
        } rows[] = {
                { 0, 1, 0 },
                { 0, 1, MAILBOX_MESSAGE_MAX + 1 },
                { 0, 1, UINT64_MAX },
                { 0, 1, UINT64_MAX - 80 },
                { 0, 0, 10 }, /* sent before the datagram that was read */
                { MAILBOX_SIZE - MAIL_ALIGNMENT, 1, 100 },
                { MAILBOX_SIZE - MAIL_ALIGNMENT, 1, 49 },
        };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct mail_record *record = (void *)(boxes[0].bytes + rows[i].at);

                setup(NULL);
                from_peer.n_read = 1;
                from_peer.next = rows[i].at;
                record->after = rows[i].after;
                record->size = rows[i].size;
                atomic_store(&boxes[0].put, 1);
                assert_true(mail_is_there(&from_peer));
                take_none(-EBADMSG);
        }
        setup(NULL);
        from_peer.next = MAILBOX_SIZE; /* after one that filled it */
        atomic_store(&boxes[0].put, 1);
        take_none(0);
}

/* ---- two threads ---- */

/* Each round needs both threads to run in turn, which takes 20 ms of a processor that others use as well. */
enum { ROUNDS = 10000, LONGEST_US = 5000000 };

static sem_t wakes; /* a datagram for who sleeps */

/* Each message once the one before was taken; the last one says so. */
static void *send_rounds(void *context)
{
        const uint64_t end_us = clock_now_us() + LONGEST_US;
        bool last = false;

        for (uint64_t n = 1; !last;) {
                struct iovec pieces[2] = { { &n, sizeof(n) }, { &last, sizeof(last) } };
                bool wake;

                last = n >= ROUNDS || clock_now_us() >= end_us;
                if (!mail_put(&to_peer, pieces, 2, &wake)) {
                        int value;

                        last = false;
                        /* It would be a datagram, which wakes. */
                        if (sem_getvalue(&wakes, &value) == 0 && value == 0)
                                (void)sem_post(&wakes);
                        (void)sched_yield();
                        continue;
                }
                if (wake)
                        (void)sem_post(&wakes);
                while (atomic_load(&boxes[1].taken) != n)
                        (void)sched_yield();
                n++;
        }
        return NULL;
}

static void sleep_until_woken(void)
{
        struct timespec end;

        (void)clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 10;
        while (sem_timedwait(&wakes, &end) < 0)
                if (errno != EINTR)
                        fail_msg("not woken for a message that was put");
}

/* The receiver stops to look after a few looks, often while the next message is being put. */
TEST_WITH(who_stops_to_look_is_woken_for_what_it_has_not_seen, setup, NULL)
{
        unsigned looks = 0, slept = 0;
        bool last = false;
        pthread_t thread;

        assert_int_equal(sem_init(&wakes, 0, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, send_rounds, NULL), 0);
        for (uint64_t n = 1; !last;) {
                uint8_t bytes[MAILBOX_MESSAGE_MAX];

                if (mail_take(&from_peer, bytes) > 0) {
                        assert_memory_equal(bytes, &n, sizeof(n));
                        memcpy(&last, bytes + sizeof(n), sizeof(last));
                        n++;
                        looks = 0;
                } else if (++looks > n % 64) {
                        mail_set_watched(&from_peer, false);
                        if (!mail_is_there(&from_peer)) {
                                sleep_until_woken();
                                slept++;
                        }
                        mail_set_watched(&from_peer, true);
                        looks = 0;
                } else {
                        (void)sched_yield();
                }
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)sem_destroy(&wakes);
        assert_true(slept > 0);
}
