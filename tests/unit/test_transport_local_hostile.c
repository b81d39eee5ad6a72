/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <ferry/error.h>

#include "local_hostile.h"
#include "local_internal.h"

/* What peers send that are broken or hostile: it ends their own link, and nothing else. */

/* ---- what it does ---- */

struct bad_peer {
        const char *what;
        void (*act)(const struct bad_peer *bad);
        bool greets;        /* before: the worker above hears of its end */
        size_t n;           /* descriptors that come with the greeting; datagrams before the message */
        struct frame frame; /* what sends_frame changes in a good one */
        uint64_t length;    /* of the message that names the extent */
        struct frame_extent extent;
        const char *reason; /* that the worker sees, in part */
};

static void says_noise(const struct bad_peer *bad)
{
        raw_send("GET / HTTP/1.1\r\n\r\n", 18, NULL, 0);
}

static void says_one_byte(const struct bad_peer *bad)
{
        raw_send("F", 1, NULL, 0);
}

static void sends_a_message(const struct bad_peer *bad)
{
        send_inline(0, FERRY_PROTOCOL, 0);
}

static void greets_with_a_small_page(const struct bad_peer *bad)
{
        send_frame(FRAME_OF(FRAME_HELLO), file_of(PAGE - 1, F_SEAL_SHRINK));
}

static void greets_with_a_page_that_can_shrink(const struct bad_peer *bad)
{
        send_frame(FRAME_OF(FRAME_HELLO), file_of(PAGE, 0));
}

static void greets_with_a_pipe(const struct bad_peer *bad)
{
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        send_frame(FRAME_OF(FRAME_HELLO), ends[0]);
        (void)close(ends[1]);
}

static void greets_with_descriptors(const struct bad_peer *bad)
{
        struct frame frame = FRAME_OF(FRAME_HELLO);
        int fds[8];

        for (size_t i = 0; i < bad->n; i++)
                fds[i] = file_of(PAGE, F_SEAL_SHRINK);
        raw_send(&frame, sizeof(frame), fds, bad->n);
        for (size_t i = 0; i < bad->n; i++)
                (void)close(fds[i]);
}

static void greets(const struct bad_peer *bad)
{
        greet();
}

static void sends_frame(const struct bad_peer *bad)
{
        struct frame frame = FRAME_OF(bad->frame.type);

        frame.gpu_path = bad->frame.gpu_path;
        frame.id = bad->frame.id;
        frame.number = bad->frame.number;
        frame.slot = bad->frame.slot;
        send_frame(frame, -1);
}

static void sends_half_a_frame(const struct bad_peer *bad)
{
        struct frame frame = FRAME_OF(FRAME_UNMAP);

        raw_send(&frame, sizeof(frame) / 2, NULL, 0);
}

static void sends_descriptors_with_nothing(const struct bad_peer *bad)
{
        int fd = file_of(PAGE, F_SEAL_SHRINK);

        raw_send("x", 1, &fd, 1);
        (void)close(fd);
}

static void sends_a_foreign_message(const struct bad_peer *bad)
{
        struct frame frame = FRAME_OF(FRAME_MESSAGE);
        uint8_t bytes[FRAME_PAYLOAD] = { 0 };

        memcpy(bytes, &frame, sizeof(frame));
        raw_send(bytes, sizeof(bytes), NULL, 0);
}

static void sends_less_than_it_says(const struct bad_peer *bad)
{
        send_inline(100, FERRY_PROTOCOL, 1);
}

static void sends_more_than_a_datagram_holds(const struct bad_peer *bad)
{
        send_inline(FRAME_INLINE_MAX + 1, FERRY_PROTOCOL, 0);
}

static void maps_what_can_shrink(const struct bad_peer *bad)
{
        map_memory(1, PAGE, file_of(PAGE, 0));
}

static void maps_page_as(const struct bad_peer *bad)
{
        map_memory(1, bad->length, file_of(PAGE, F_SEAL_SHRINK));
}

static void maps_huge_pages(const struct bad_peer *bad)
{
        int fd = memfd_create("ferry-hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

        if (fd < 0) { /* a kernel without huge pages: anything else that is refused for the same reason */
                maps_what_can_shrink(bad);
                return;
        }
        assert_int_equal(ftruncate(fd, 1 << 30), 0); /* of any size of huge page */
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        map_memory(1, PAGE, fd);
}

static void maps_a_device(const struct bad_peer *bad)
{
        map_memory(1, 4096, open("/dev/zero", O_RDONLY | O_CLOEXEC));
}

static void maps_many(const struct bad_peer *bad)
{
        for (uint64_t i = 0; i < bad->n; i++) {
                map_memory(bad->frame.id ?: i + 1, PAGE, file_of(PAGE, F_SEAL_SHRINK));
                worker_step(&a, NULL);
        }
}

static void maps_too_much(const struct bad_peer *bad)
{
        map_memory(1, UINT64_C(1) << 43, file_of(UINT64_C(1) << 43, F_SEAL_SHRINK));
        map_memory(2, (UINT64_C(1) << 43) + 1, file_of((UINT64_C(1) << 43) + 1, F_SEAL_SHRINK));
}

/* Of no bytes, but larger than any address space. */
static void maps_a_world(const struct bad_peer *bad)
{
        map_memory(1, UINT64_C(1) << 60, file_of(UINT64_C(1) << 60, F_SEAL_SHRINK));
}

/* Lends memory 1, and sends what is in that extent. */
static void names(const struct bad_peer *bad)
{
        map_memory(1, PAGE, file_of(PAGE, F_SEAL_SHRINK));
        send_mapped(bad->frame.slot, 1, bad->length, bad->extent);
}

/* With so many digests, which it announces unless the frame has a size. */
static void digests(const struct bad_peer *bad)
{
        map_memory(1, PAGE, file_of(PAGE, F_SEAL_SHRINK));
        send_digested(0, 1, 10, (struct frame_extent){ 1, 0, 10 }, bad->frame.size ? 0 : WIRE_VERIFY, bad->n);
}

static void names_memory_that_it_took_back(const struct bad_peer *bad)
{
        struct frame frame = FRAME_OF(FRAME_UNMAP);

        map_memory(1, PAGE, file_of(PAGE, F_SEAL_SHRINK));
        frame.id = 1;
        send_frame(frame, -1);
        send_mapped(0, 1, 10, (struct frame_extent){ 1, 0, 10 });
}

/* As memory 1; no driver can open it. */
static void map_gpu_memory(void)
{
        struct frame frame = FRAME_OF(FRAME_MAP_GPU);
        uint8_t bytes[sizeof(frame) + sizeof(struct gpu_share)] = { 0 };

        frame.id = 1;
        frame.size = PAGE;
        memcpy(bytes, &frame, sizeof(frame));
        raw_send(bytes, sizeof(bytes), NULL, 0);
}

static void names_gpu_memory_that_is_not_open(const struct bad_peer *bad)
{
        map_gpu_memory();
        send_mapped(0, 1, 10, (struct frame_extent){ 1, 0, 10 });
}

/* A frame, as the first message of its mailbox. */
static void puts_frame(const struct bad_peer *bad)
{
        struct mail_record *record = (void *)raw_page->mailbox.bytes;
        struct frame frame = FRAME_OF(bad->frame.type, .id = bad->frame.id);

        record->after = bad->n;
        record->size = bad->length;
        memcpy(record->bytes, &frame, sizeof(frame));
        atomic_store(&raw_page->mailbox.put, 1);
}

static const struct bad_peer bad_peers[] = {
        { "noise", says_noise },
        { "one byte", says_one_byte },
        { "a message first", sends_a_message },
        { "no page", sends_frame, .frame = { .type = FRAME_HELLO, .id = 1 } },
        { "a small page", greets_with_a_small_page },
        { "a page that can shrink", greets_with_a_page_that_can_shrink },
        { "a pipe", greets_with_a_pipe },
        { "two descriptors", greets_with_descriptors, .n = 2 },
        { "three descriptors", greets_with_descriptors, .n = 3 },
        { "eight descriptors", greets_with_descriptors, .n = 8 },
        { "two greetings", greets, true },
        { "an unknown type", sends_frame, true, .frame = { .type = FRAME_TYPE_END } },
        { "reserved bits", sends_frame, true, .frame = { .type = FRAME_UNMAP, .gpu_path = 1 } },
        { "half a frame", sends_half_a_frame, true },
        { "descriptors with nothing", sends_descriptors_with_nothing, true },
        { "a foreign message", sends_a_foreign_message, true },
        { "less than it says", sends_less_than_it_says, true },
        { "more than a datagram holds", sends_more_than_a_datagram_holds, true },
        { "memory that can shrink", maps_what_can_shrink, true },
        { "more memory than there is", maps_page_as, true, .length = PAGE + 1 },
        { "no memory", maps_page_as, true, .length = 0 },
        { "a device", maps_a_device, true },
        { "huge pages", maps_huge_pages, true, .reason = "not sealed" },
        { "the same twice", maps_many, true, .n = 2, .frame.id = 1 },
        { "too many", maps_many, true, .n = FRAME_MEMORIES_MAX + 1 },
        { "too much", maps_too_much, true },
        { "a world", maps_a_world, true },
        { "memory that it did not have mapped", names, true, .length = 10, .extent = { 5, 0, 10 } },
        { "bytes outside", names, true, .length = 10, .extent = { 1, PAGE - 9, 10 } },
        { "bytes that wrap around", names, true, .length = 10, .extent = { 1, UINT64_MAX - 4, 10 } },
        { "an empty extent", names, true, .length = 10, .extent = { 1, 0, 0 } },
        { "extents that are too short", names, true, .length = 11, .extent = { 1, 0, 10 } },
        { "extents that are too long", names, true, .length = 9, .extent = { 1, 0, 10 } },
        { "a slot outside the page", names, true, .frame.slot = FRAME_LEASES, .length = 10, .extent = { 1, 0, 10 } },
        { "memory that it took back", names_memory_that_it_took_back, true },
        { "no digest, which it announces", digests, true, .n = 0, .reason = "digests" },
        { "a digest that it does not announce", digests, true, .n = 1, .frame.size = 1, .reason = "digests" },
        { "more digests than pieces", digests, true, .n = 2 },
        { "GPU memory that is not open", names_gpu_memory_that_is_not_open, true },
        { "a greeting without a descriptor", puts_frame, true, .n = 1, .frame.type = FRAME_HELLO,
          .length = sizeof(struct frame) },
        { "a message of nothing", puts_frame, true, .n = 1, .frame.type = FRAME_WAKE, .length = 0,
          .reason = "its mailbox" },
        { "a message beyond the mailbox", puts_frame, true, .n = 1, .frame.type = FRAME_WAKE, .length = MAILBOX_SIZE,
          .reason = "its mailbox" },
        { "a message before the greeting", puts_frame, true, .n = 0, .frame.type = FRAME_WAKE,
          .length = sizeof(struct frame), .reason = "its mailbox" },
        { "half a frame in the mailbox", puts_frame, true, .n = 1, .frame.type = FRAME_WAKE,
          .length = sizeof(struct frame) / 2 },
        { "to unmap by the mailbox what it did not", puts_frame, true, .n = 1,
          .frame = { .type = FRAME_UNMAP, .id = 1 }, .length = sizeof(struct frame) },
        { "to unmap what it did not have mapped", sends_frame, true, .frame = { .type = FRAME_UNMAP, .id = 1 } },
        { "to release a lease that it does not hold", sends_frame, true,
          .frame = { .type = FRAME_RELEASE, .number = 1 } },
        { "to release a slot outside the page", sends_frame, true,
          .frame = { .type = FRAME_RELEASE, .number = 1, .slot = FRAME_LEASES } },
};

TEST_WITH(whoever_breaks_the_protocol_loses_the_link_and_nobody_else, hostile_setup, hostile_teardown)
{
        for (size_t i = 0; i < UNIT_COUNT(bad_peers); i++) {
                const struct bad_peer *bad = &bad_peers[i];
                int ended = a.ended;

                test_row(bad->what);
                if (i > 0)
                        raw_connect();
                a.n = 0;
                if (bad->greets)
                        greet();
                bad->act(bad);
                RUN_UNTIL(&a, &good, raw_is_closed());
                assert_int_equal(a.n, 0);
                assert_int_equal(a.ended - ended, bad->greets);
                if (bad->greets)
                        assert_int_equal(a.error, FERRY_E_PEER_LOST);
                if (bad->reason)
                        assert_non_null(strstr(a.detail, bad->reason));
                if (i + 1 < UNIT_COUNT(bad_peers))
                        (void)close(raw);
        }
}

/* A TCP connection whose last close lingers for 20 s: *ret_other does not read. */
static int lingering_socket(int *ret_other)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const struct linger linger = { .l_onoff = 1, .l_linger = 20 };
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        static const char bytes[1 << 16];
        socklen_t size = sizeof(address);

        assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
        assert_int_equal(listen(listener, 1), 0);
        (void)connect(fd, (struct sockaddr *)&address, sizeof(address));
        *ret_other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(*ret_other >= 0);
        (void)close(listener);
        while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
                ;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        return fd;
}

/* The socket is the only or the last descriptor of a message, or in one that is never read. */
TEST_WITH(a_descriptor_that_takes_long_to_close_holds_up_nobody, hostile_setup, hostile_teardown)
{
        enum { ALONE, LAST, EMPTY, UNREAD, CASES };
        static const char noise[] = "x";

        for (int i = 0; i < CASES; i++) {
                int fds[RIGHTS_MAX], other, fd = lingering_socket(&other);
                const size_t n = i == LAST ? RIGHTS_MAX : 1;
                uint64_t start_us;

                test_row(text_format("%d", i));
                if (i > 0)
                        raw_connect();
                if (i >= EMPTY)
                        raw_send(noise, 1, NULL, 0);
                if (i == UNREAD)
                        raw_send(noise, 0, NULL, 0);
                for (size_t k = 0; k < n; k++)
                        fds[k] = k + 1 < n ? STDERR_FILENO : fd;
                raw_send(noise, i == EMPTY ? 0 : 1, fds, n);
                (void)close(fd);
                start_us = clock_now_us();
                RUN_UNTIL(&a, &good, raw_is_closed());
                assert_true(clock_now_us() < start_us + 5000000);
                (void)close(other);
                if (i + 1 < CASES)
                        (void)close(raw);
        }
}

/* ---- descriptors whose close blocks, as that of a FUSE file does whose server does not answer ---- */

static ino_t slow_file; /* the close of this file tells slow_told[1], and blocks until slow_gate[1] is closed */
static int slow_told[2], slow_gate[2];

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
        const pid_t pid = getpid();
        struct stat st;
        char byte;

        if (slow_file && fstat(fd, &st) == 0 && st.st_ino == slow_file) {
                (void)!write(slow_told[1], &pid, sizeof(pid));
                (void)!read(slow_gate[0], &byte, 1);
        }
        return __real_close(fd);
}

/* A file that closes slowly from now on. */
static int slow_file_new(void)
{
        int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        struct stat st;

        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(pipe2(slow_told, O_CLOEXEC), 0);
        assert_int_equal(pipe2(slow_gate, O_CLOEXEC), 0);
        slow_file = st.st_ino;
        return fd;
}

/* Lets all that wait go on. */
static void slow_file_end(int fd)
{
        slow_file = 0;
        (void)close(slow_gate[1]);
        (void)close(slow_told[0]);
        (void)close(slow_told[1]);
        (void)close(fd);
}

/* One more process, and not this one, closes the file. */
static void await_closing(void)
{
        pid_t pid = 0;

        assert_int_equal(read(slow_told[0], &pid, sizeof(pid)), sizeof(pid));
        assert_int_not_equal(pid, 0);
        assert_int_not_equal(pid, getpid());
}

static void pass_slow_file(int fd, int how)
{
        struct frame frame = FRAME_OF(FRAME_HELLO, .id = 4711);
        const int many[] = { fd, fd, fd };

        if (how == 0)
                raw_send(&frame, sizeof(frame), &fd, 1);
        else if (how == 1)
                raw_send(&frame, sizeof(frame), many, 3);
        else
                raw_send("x", 1, NULL, 0); /* ends the link before the next one is read */
        if (how == 2)
                raw_send("x", 0, &fd, 1);
}

/* Alone, with others, or in a message that is never read. */
TEST_WITH(a_descriptor_whose_close_blocks_holds_up_nobody, hostile_setup, hostile_teardown)
{
        struct outcome outcome = { 0 };
        int fd = slow_file_new();

        for (int how = 0; how < 3; how++) {
                test_row(text_format("%d", how));
                if (how > 0)
                        raw_connect();
                pass_slow_file(fd, how);
                RUN_UNTIL(&a, &good, raw_is_closed());
                await_closing();
                a.n = 0;
                worker_send(good_to_a, message_make(&good, NULL, 0, 0, 7, &outcome));
                RUN_UNTIL(&a, &good, a.n >= 1);
                if (how < 2)
                        (void)close(raw);
        }
        slow_file_end(fd);
        (void)close(slow_gate[0]);
}

/* Until one of them has been closed: a peer cannot start processes without end. */
TEST_WITH(no_peer_is_taken_while_too_many_descriptors_do_not_close, hostile_setup, hostile_teardown)
{
        int fd = slow_file_new();

        for (size_t i = 0; i < CLOSER_CHILDREN; i++) {
                if (i > 0)
                        raw_connect();
                pass_slow_file(fd, 0);
                RUN_UNTIL(&a, &good, raw_is_closed());
                await_closing();
                (void)close(raw);
        }
        raw_connect();
        pass_slow_file(fd, 0);
        /* Its socket waits in the listener's queue, and the listener for its time. */
        RUN_UNTIL(&a, &good, a.transport->ops->deadline(a.transport) != UINT64_MAX);
        assert_int_equal(local_of(a.transport)->n_accepted, 1);
        slow_file_end(fd);
        RUN_UNTIL(&a, &good, raw_is_closed());
        (void)close(slow_gate[0]);
}

TEST_WITH(a_slot_serves_one_message_at_a_time, hostile_setup, hostile_teardown)
{
        struct block block;
        struct segment segment;
        struct stream place;

        block_new(&block, &a, PAGE, false);
        segment = (struct segment){ block.memory.address, PAGE, &block.memory };
        assert_int_equal(stream_init(&place, &segment, 1), 0);
        a.place = &place;
        greet();
        map_memory(1, PAGE, file_of(PAGE, F_SEAL_SHRINK));
        send_mapped(3, 1, 10, (struct frame_extent){ 1, 0, 10 });
        send_mapped(3, 2, 10, (struct frame_extent){ 1, 0, 10 });
        RUN_UNTIL(&a, NULL, a.ended);
        assert_int_equal(a.n, 1);
        assert_int_equal(a.received.done, 0); /* it had not begun */
        a.place = NULL;
        block_free(&block);
}

static uint64_t told;

static void note_told(struct message *message)
{
        told = message->copied;
}

static void assert_told(uint64_t said, uint64_t wanted)
{
        const struct local *local = local_of(a.transport);
        uint64_t look_at_us = local->look_at_us;

        atomic_store(&raw_page->copied[0], said);
        RUN_UNTIL(&a, NULL, local->look_at_us != look_at_us); /* it has looked */
        assert_true(told == wanted);
}

TEST_WITH(progress_that_cannot_be_is_not_told, hostile_setup, hostile_teardown)
{
        enum { SIZE = 8 << 20 };
        struct link *before = a.link;
        struct segment segment;
        struct stream stream;
        struct message *message;
        struct outcome outcome = { 0 };
        struct block block;

        greet();
        RUN_UNTIL(&a, NULL, a.link != before);
        block_new(&block, &a, SIZE, true);
        segment = (struct segment){ block.memory.address, SIZE, &block.memory };
        assert_int_equal(stream_init(&stream, &segment, 1), 0);
        message = message_make(&a, &stream, 0, SIZE, 1, &outcome);
        message->piece_done = note_told;
        told = 0;
        worker_send(a.link, message);
        assert_told(SIZE + 1, 0);
        assert_told(UINT64_MAX, 0);
        assert_told(5, 5);
        assert_told(4, 5);
        a.transport->ops->cancel(a.link, 1);
        assert_int_equal(outcome.result, MESSAGE_CANCELLED);
        assert_told(SIZE, 5);
        block_free(&block);
}

TEST_WITH(another_version_of_the_framing_is_named, hostile_setup, hostile_teardown)
{
        struct frame frame = FRAME_OF(FRAME_HELLO);
        struct frame answer;

        frame.protocol = FERRY_PROTOCOL + 1;
        send_frame(frame, file_of(10, 0));
        RUN_UNTIL(&a, NULL, recv(raw, &answer, sizeof(answer), 0) == sizeof(answer));
        assert_int_equal(answer.protocol, FERRY_PROTOCOL); /* so the peer can tell as well */
        RUN_UNTIL(&a, NULL, raw_is_closed());
        assert_int_equal(a.ended, 0);
}

TEST_WITH(another_version_of_the_protocol_is_named, hostile_setup, hostile_teardown)
{
        greet();
        send_inline(0, FERRY_PROTOCOL + 1, 0);
        RUN_UNTIL(&a, NULL, a.ended);
        assert_int_equal(a.error, FERRY_E_PROTOCOL_MISMATCH);
        assert_string_equal(a.detail,
                            "the peer speaks protocol 9, this worker protocol 8: upgrade this worker, which is older");
}

/* A listener under some epoch's name that answers as it likes. */
static int false_listener(uint64_t epoch)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%016llx.sock", fixture_directory,
                       (unsigned long long)epoch);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 1), 0);
        return fd;
}

static void connect_falsely(uint64_t epoch, struct frame answer, int error)
{
        int listener = false_listener(epoch);
        struct link *link = worker_connect(&a, epoch);

        (void)close(raw);
        raw = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        send_frame(answer, file_of(PAGE, F_SEAL_SHRINK));
        RUN_UNTIL(&a, NULL, a.ended == 1);
        assert_int_equal(a.error, error);
        (void)close(listener);
        assert_int_equal(unlink(text_format("%s/%016llx.sock", fixture_directory, (unsigned long long)epoch)), 0);
        (void)link;
}

TEST_WITH(another_worker_that_answers_is_not_taken, hostile_setup, hostile_teardown)
{
        struct frame frame = FRAME_OF(FRAME_HELLO);

        frame.id = 8;
        connect_falsely(9, frame, FERRY_E_PEER_UNREACHABLE);
        assert_string_equal(a.detail, "another worker answered");
}

TEST_WITH(a_listener_of_another_version_is_named, hostile_setup, hostile_teardown)
{
        struct frame frame = FRAME_OF(FRAME_HELLO);

        frame.protocol = 9;
        connect_falsely(9, frame, FERRY_E_PROTOCOL_MISMATCH);
        assert_non_null(strstr(a.detail, "protocol 9"));
}

TEST_WITH(a_peer_that_never_greets_is_dropped_in_time, hostile_setup, hostile_teardown)
{
        uint64_t deadline_us;

        RUN_UNTIL(&a, NULL, a.transport->ops->deadline(a.transport) != UINT64_MAX);
        deadline_us = a.transport->ops->deadline(a.transport);
        assert_in_range(deadline_us, clock_now_us(), clock_now_us() + 10000000);
}

TEST_WITH(memory_that_is_unmapped_leaves_its_place_to_other_memory, hostile_setup, hostile_teardown)
{
        struct frame unmap = FRAME_OF(FRAME_UNMAP);
        const struct mappings *mappings;

        greet();
        map_memory(1, PAGE, file_of(PAGE, F_SEAL_SHRINK));
        unmap.id = 1;
        send_frame(unmap, -1);
        send_inline(0, FERRY_PROTOCOL, 0);
        RUN_UNTIL(&a, NULL, a.n == 1);
        mappings = &channel_of(a.link)->mappings;
        assert_true(mappings->n == 0 && mappings->bytes == 0);
}

TEST_WITH(gpu_memory_may_be_unmapped_while_it_is_opened, hostile_setup, hostile_teardown)
{
        struct frame frame = FRAME_OF(FRAME_UNMAP);

        greet();
        map_gpu_memory();
        frame.id = 1;
        send_frame(frame, -1);
        FOR_EACH (uint8_t, type, FRAME_HELLO, FRAME_MAPPED, FRAME_UNMAPPED) {
                RUN_UNTIL(&a, NULL, recv(raw, &frame, sizeof(frame), 0) > 0);
                assert_int_equal(frame.type, type);
                assert_int_equal(frame.id, type == FRAME_HELLO ? a.epoch : 1);
        }
        assert_int_equal(a.ended, 0);
}

/* It was deregistered before the answer came. */
TEST_WITH(an_answer_may_be_about_memory_that_is_gone, hostile_setup, hostile_teardown)
{
        greet();
        FOR_EACH (uint8_t, type, FRAME_MAPPED, FRAME_UNMAPPED, FRAME_IDLE) {
                struct frame frame = FRAME_OF(type);

                frame.id = 1;
                send_frame(frame, -1);
        }
        send_inline(0, FERRY_PROTOCOL, 0);
        a.n = 0;
        RUN_UNTIL(&a, NULL, a.n == 1 || a.ended);
        assert_int_equal(a.ended, 0);
}

/* Of those that have greeted, and of those that have not. */
TEST_WITH(links_that_end_leave_their_places_to_others, hostile_setup, hostile_teardown)
{
        struct frame hello;

        local_of(a.transport)->max_links = 2; /* with the good one */
        for (int i = 0; i < 4; i++) {
                if (i > 0)
                        raw_connect();
                if (i % 2 == 0) {
                        greet();
                        RUN_UNTIL(&a, NULL, recv(raw, &hello, sizeof(hello), 0) > 0);
                }
                RUN_UNTIL(&a, NULL, local_of(a.transport)->n_accepted == 2);
                (void)close(raw);
                RUN_UNTIL(&a, NULL, local_of(a.transport)->n_accepted == 1);
        }
        raw_connect();
}

/* As a worker does that starts. */
TEST_WITH(who_only_looks_whether_it_lives_takes_no_place, hostile_setup, hostile_teardown)
{
        struct frame hello;

        local_of(a.transport)->max_links = 2; /* with the good one */
        (void)close(raw);
        RUN_UNTIL(&a, NULL, local_of(a.transport)->n_accepted == 1);
        raw_connect();
        (void)close(raw);
        raw_connect();
        greet();
        RUN_UNTIL(&a, NULL, recv(raw, &hello, sizeof(hello), 0) > 0);
}

/* The fault is in the mailbox, at which the worker looks only when the datagram after it comes. */
TEST_WITH(what_follows_the_end_of_a_link_is_not_handled, hostile_setup, hostile_teardown)
{
        const struct bad_peer bad = { .n = 1,
                                      .frame = { .type = FRAME_UNMAP, .id = 1 },
                                      .length = sizeof(struct frame) };

        greet();
        RUN_UNTIL(&a, NULL, a.link && a.link->peer_epoch == 4711);
        RUN_UNTIL(&a, NULL, a.transport->ops->arm(a.transport));
        puts_frame(&bad);
        a.n = 0;
        send_inline(0, FERRY_PROTOCOL, 0);
        RUN_UNTIL(&a, NULL, raw_is_closed());
        assert_int_equal(a.n, 0);
        assert_int_equal(a.error, FERRY_E_PEER_LOST);
}

TEST_WITH(a_flood_does_not_starve_the_others, hostile_setup, hostile_teardown)
{
        struct outcome outcome = { 0 };
        int steps = 0;

        greet();
        RUN_UNTIL(&a, NULL, a.link && a.link->peer_epoch == 4711);
        a.n = 0;
        for (int i = 0; i < 200; i++)
                send_inline(0, FERRY_PROTOCOL, 0);
        worker_send(good_to_a, message_make(&good, NULL, 0, 0, 99, &outcome));
        for (bool heard = false; !heard; steps++) {
                worker_step(&a, NULL);
                for (size_t i = 0; i < a.n && i < HEADERS_MAX; i++)
                        heard |= a.headers[i].transfer == 99;
                assert_true(steps < 16);
                a.n = 0;
        }
}

TEST_WITH(lack_of_descriptors_makes_peers_wait, hostile_setup, hostile_teardown)
{
        struct rlimit before, low;
        struct link *link;

        RUN_UNTIL(&a, NULL, a.transport->ops->deadline(a.transport) != UINT64_MAX);
        greet();
        RUN_UNTIL(&a, NULL, a.transport->ops->deadline(a.transport) == UINT64_MAX);
        link = worker_connect(&good, a.epoch);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        low = (struct rlimit){ 3, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        worker_step(&a, NULL);
        worker_step(&a, NULL);
        assert_true(a.transport->ops->deadline(a.transport) != UINT64_MAX);
        assert_false(a.transport->ops->progress(a.transport)); /* no spinning */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        RUN_UNTIL(&a, &good, link->state == LINK_UP);
}
