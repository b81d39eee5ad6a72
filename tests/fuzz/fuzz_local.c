/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/util.h"
#include "fuzz_engines.h"
#include "fuzz_tape.h"
#include "mailbox.h"
#include "message/ranges.h"
#include "rights.h"

/*
 * A hostile peer of the same host, whose datagrams, mailbox, descriptors and order are the input's, against an engine
 * that offers operations to it and has begun some with it. Nothing is stored but into memory of a transfer whose key it
 * has, everything ends, and an honest peer is served afterwards.
 */

enum {
        SOCKETS = 4,
        FDS_MAX = 3,
        MAPPED_SIZE = 256 << 10,
        FLIGHTS_HOSTILE = FLIGHTS_MAX - 1, /* one is left for the honest peer */
        HONEST_PASSES = 40,
};

/* What a datagram may carry. */
enum { FD_PAGE, FD_MAPPED, FD_SHRINKS, FD_SMALL, FD_PIPE, FD_DEVICE, FD_KINDS };

static int kinds[FD_KINDS];
static struct link_page *page; /* of all sockets */

struct hostile {
        struct fuzz_tape tape;
        struct fuzz_engines engines;
        int sockets[SOCKETS];
        uint64_t n_datagrams[SOCKETS], n_mail[SOCKETS]; /* sent */
        bool by_mailbox;                                /* what the step sends */
        int listener;                                   /* where the engines find the peer */
        unsigned at;                                    /* the socket in use */
        struct frame heard;
        char path[256];
};

/* ---- what it has ---- */

static int file_of(size_t size, int seals)
{
        int fd = memfd_create("fuzz-hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
        FUZZ_CHECK(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
        return fd;
}

static void prepare(void)
{
        const size_t size = sizeof(*page);
        int ends[2];

        if (!page) {
                kinds[FD_PAGE] = file_of(size, F_SEAL_SHRINK);
                kinds[FD_MAPPED] = file_of(MAPPED_SIZE, F_SEAL_SHRINK);
                kinds[FD_SHRINKS] = file_of(size, 0);
                kinds[FD_SMALL] = file_of(size - 1, F_SEAL_SHRINK);
                FUZZ_CHECK(pipe2(ends, O_CLOEXEC) == 0);
                kinds[FD_PIPE] = ends[0];
                kinds[FD_DEVICE] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
                page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, kinds[FD_PAGE], 0);
                FUZZ_CHECK(page != MAP_FAILED && kinds[FD_DEVICE] >= 0);
        }
        memset(page, 0, size);
        for (size_t i = 0; i < FRAME_LEASES; i++)
                lease_grant(&page->leases[i], 1 + i % 4);
}

static struct sockaddr_un address_of(uint64_t epoch)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%016llx.sock", engines_directory(),
                       (unsigned long long)epoch);
        return address;
}

static void hostile_open(struct hostile *h)
{
        struct sockaddr_un address = address_of(FUZZ_PEER_EPOCH);

        for (size_t i = 0; i < SOCKETS; i++)
                h->sockets[i] = -1;
        engines_open(&h->engines, tape_byte(&h->tape) & 1);
        memcpy(h->path, address.sun_path, sizeof(address.sun_path));
        h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        FUZZ_CHECK(bind(h->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
        FUZZ_CHECK(listen(h->listener, 8) == 0);
}

static void hostile_close(struct hostile *h)
{
        for (size_t i = 0; i < SOCKETS; i++)
                cleanup_close(&h->sockets[i]);
        cleanup_close(&h->listener);
        (void)unlink(h->path);
}

/* ---- datagrams ---- */

/* Most of the record is right, as in a header. */
static void put_bytes(struct hostile *h, const void *bytes, size_t size)
{
        unsigned wrong = tape_byte(&h->tape);
        size_t at = wrong & 1 ? tape_below(&h->tape, MAILBOX_MESSAGES_MAX) * MAIL_ALIGNMENT : 0;
        struct mail_record *record = (struct mail_record *)(void *)(page->mailbox.bytes + at);
        size_t room = MAILBOX_SIZE - at - sizeof(*record);

        record->after = h->n_datagrams[h->at] + (wrong >> 1 & 3) - (wrong >> 3 & 3);
        record->size = wrong & 32 ? tape_number(&h->tape, 8) : size;
        memcpy(record->bytes, bytes, size < room ? size : room);
        h->n_mail[h->at]++;
        atomic_store(&page->mailbox.first, at == 0 ? h->n_mail[h->at] : 0);
        atomic_store(&page->mailbox.put, wrong & 64 ? tape_byte(&h->tape) : h->n_mail[h->at]);
        atomic_store(&page->mailbox.watched, wrong >> 7);
}

static void send_bytes(struct hostile *h, const void *bytes, size_t size, const int *fds, size_t n_fds)
{
        if (h->by_mailbox)
                put_bytes(h, bytes, size);
        /* A socket that is full or closed takes nothing. */
        else if (rights_send(h->sockets[h->at], bytes, size, fds, n_fds, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
                h->n_datagrams[h->at]++;
}

static void send_frame(struct hostile *h, struct frame frame, int kind)
{
        send_bytes(h, &frame, sizeof(frame), kind >= 0 ? &kinds[kind] : NULL, kind >= 0);
}

static void greet(struct hostile *h)
{
        struct frame frame = FRAME_OF(FRAME_HELLO);
        unsigned how = tape_byte(&h->tape);

        frame.id = how & 0x80 ? h->engines.epoch[1] : FUZZ_PEER_EPOCH;
        send_frame(h, frame, (how & 15) <= FD_KINDS ? (int)(how & 15) - (how & 15 ? 1 : 0) : -1);
}

static void map_memory(struct hostile *h)
{
        struct frame frame = FRAME_OF(FRAME_MAP);
        unsigned how = tape_byte(&h->tape);

        frame.id = how >> 4;
        frame.size = how & 8 ? tape_number(&h->tape, 8) : MAPPED_SIZE;
        send_frame(h, frame, how & 7 ? (int)(how & 7) % FD_KINDS : FD_MAPPED);
}

static void take_back(struct hostile *h)
{
        struct frame frame = FRAME_OF(FRAME_UNMAP);

        frame.id = tape_below(&h->tape, 16);
        send_frame(h, frame, -1);
}

static void release(struct hostile *h)
{
        struct frame frame = FRAME_OF(FRAME_RELEASE);
        unsigned how = tape_byte(&h->tape);

        frame.slot = how & 1 ? tape_byte(&h->tape) : h->heard.slot;
        frame.number = how & 2 ? tape_byte(&h->tape) : h->heard.number;
        send_frame(h, frame, -1);
}

static uint64_t next_length(struct hostile *h, uint64_t whole)
{
        static const uint64_t lengths[] = { 0, 1, 100, WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1, 64 << 10, UINT64_MAX };
        unsigned choice = tape_byte(&h->tape);

        if (choice % 8 == 7)
                return whole;
        return lengths[choice % 8] + (choice >> 7) * tape_byte(&h->tape);
}

/* Most of it is right, so that what is wrong is looked at. */
static struct wire_header next_header(struct hostile *h)
{
        unsigned type = tape_byte(&h->tape), wrong = tape_byte(&h->tape);
        const struct flight *f = &h->engines.flights[tape_below(&h->tape, FLIGHTS_MAX)];
        struct wire_header header = {
                .type = type % (WIRE_TYPE_END - 1) + 1,
                .flags = (uint16_t)(type / 16),
                .to_epoch = wrong & 1 ? 1 : h->engines.epoch[0],
                .from_epoch = FUZZ_PEER_EPOCH,
                .operation = f->operation ?: 1,
                .transfer = (f->id ?: 1) + (wrong >> 1 & 3),
                .seq = tape_byte(&h->tape),
                .status = wrong & 8 ? tape_byte(&h->tape) : 0,
                .total = wrong & 16 ? tape_number(&h->tape, 8) : f->total,
        };

        header.offset = wrong & 32 ? next_length(h, f->total) : 0;
        header.length = next_length(h, f->total);
        header.whole = header.total;
        if (!(wrong & 64))
                memcpy(header.key, f->key, sizeof(header.key));
        return header;
}

/* Returns their size. */
static size_t put_parts(struct hostile *h, uint64_t total, uint8_t *bytes)
{
        size_t n = tape_below(&h->tape, 5);

        for (size_t i = 0; i < n; i++)
                memcpy(bytes + i * RANGE_SIZE, (uint64_t[]){ next_length(h, total), next_length(h, total) },
                       RANGE_SIZE);
        return n * RANGE_SIZE;
}

static void send_inline(struct hostile *h)
{
        static uint8_t bytes[FRAME_DATAGRAM_MAX + 1];
        struct frame frame = FRAME_OF(FRAME_MESSAGE);
        struct wire_header header = next_header(h);
        size_t size = header.length <= FRAME_INLINE_MAX ? header.length : 0;
        struct segment segment = { .address = bytes + FRAME_PAYLOAD, .size = size };
        struct stream stream;

        memset(bytes + FRAME_PAYLOAD, 0xd1, size);
        if (header.type == WIRE_PARTS)
                header.length = segment.size = size = put_parts(h, header.total, bytes + FRAME_PAYLOAD);
        else
                (void)tape_take(&h->tape, bytes + FRAME_PAYLOAD, size < 4 ? size : 4);
        (void)stream_init(&stream, &segment, 1);
        header.flags |= header.type == WIRE_PARTS ? WIRE_VERIFY : 0;
        if (size > 0)
                (void)stream_checksum(&stream, 0, size, &header.checksum);
        frame.size = size;
        memcpy(bytes, &frame, sizeof(frame));
        wire_encode(&header, bytes + sizeof(frame));
        send_bytes(h, bytes, FRAME_PAYLOAD + size, NULL, 0);
}

static void send_mapped(struct hostile *h)
{
        struct wire_header header = next_header(h);
        enum { DIGESTS = 4 };
        uint8_t bytes[FRAME_PAYLOAD + 3 * sizeof(struct frame_extent) + DIGESTS * sizeof(uint64_t)] = { 0 };
        struct frame frame = FRAME_OF(FRAME_MESSAGE);
        unsigned how = tape_byte(&h->tape);
        uint64_t digests = frame_digests(header.length);

        frame.size = header.length;
        frame.slot = tape_byte(&h->tape) + (how & 1 ? FRAME_LEASES : 0);
        frame.number = how & 2 ? tape_byte(&h->tape) : 1 + frame.slot % 4;
        frame.n = how >> 2 & 3;
        if (((header.flags & WIRE_VERIFY) != 0) != ((how & 128) != 0) && digests <= DIGESTS)
                frame.id = digests;
        memcpy(bytes, &frame, sizeof(frame));
        wire_encode(&header, bytes + sizeof(frame));
        for (uint32_t i = 0; i < frame.n; i++) {
                struct frame_extent extent = { .memory = tape_below(&h->tape, 16) };

                extent.offset = how & 16 ? tape_number(&h->tape, 8) : tape_byte(&h->tape);
                extent.size = i + 1 == frame.n ? header.length : how & 32 ? tape_number(&h->tape, 8) : 1;
                if (i + 1 == frame.n && !(how & 64))
                        extent.size -= i;
                memcpy(bytes + FRAME_PAYLOAD + i * sizeof(extent), &extent, sizeof(extent));
        }
        send_bytes(h, bytes, FRAME_PAYLOAD + frame.n * sizeof(struct frame_extent) + frame.id * sizeof(uint64_t), NULL,
                   0);
}

static void send_anything(struct hostile *h)
{
        struct frame frame = FRAME_OF((enum frame_type)tape_below(&h->tape, FRAME_TYPE_END + 1));
        unsigned how = tape_byte(&h->tape);
        int fds[FDS_MAX] = { kinds[how % FD_KINDS], kinds[FD_PAGE], kinds[FD_MAPPED] };
        uint8_t bytes[sizeof(frame) + 256];
        size_t n = tape_byte(&h->tape);

        memcpy(bytes, &frame, sizeof(frame));
        n = tape_take(&h->tape, bytes + (how & 0x80 ? 0 : sizeof(frame)), n);
        send_bytes(h, bytes, (how & 0x80 ? 0 : sizeof(frame)) + n, fds, how / 8 % (FDS_MAX + 1));
}

/* Remembers the last lease, so that it can be released. */
static void hear(struct hostile *h)
{
        static uint8_t bytes[FRAME_DATAGRAM_MAX];
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        } control;
        struct frame frame;

        for (;;) {
                struct iovec piece = { bytes, sizeof(bytes) };
                struct msghdr message = {
                        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
                };
                ssize_t n = recvmsg(h->sockets[h->at], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

                if (n < (ssize_t)sizeof(frame))
                        return;
                if (CMSG_FIRSTHDR(&message)) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
                        (void)close(fd);
                }
                memcpy(&frame, bytes, sizeof(frame));
                if (frame.number != 0)
                        h->heard = frame;
        }
}

/* ---- steps ---- */

static void connect_to_engine(struct hostile *h)
{
        struct sockaddr_un address = address_of(h->engines.epoch[0]);
        int *fd = &h->sockets[h->at];

        cleanup_close(fd);
        h->n_datagrams[h->at] = h->n_mail[h->at] = 0;
        *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        FUZZ_CHECK(connect(*fd, (struct sockaddr *)&address, sizeof(address)) == 0);
        engines_run(&h->engines, 1);
}

/* An engine that has begun something with the peer has connected. */
static void accept_engine(struct hostile *h)
{
        int *fd = &h->sockets[h->at];

        cleanup_close(fd);
        h->n_datagrams[h->at] = h->n_mail[h->at] = 0;
        *fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void begin(struct hostile *h)
{
        static const uint64_t totals[] = { 1, 100, WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1, 64 << 10, FLIGHT_TOTAL_MAX };
        unsigned how = tape_byte(&h->tape);

        if (h->engines.n == FLIGHTS_HOSTILE)
                return;
        (void)flight_begin(&h->engines, how & 1 ? 0 : FLIGHT_FOREIGN, how & 1 ? FLIGHT_FOREIGN : 0,
                           how & 2 ? ENGINE_READ : ENGINE_WRITE, totals[how / 8 % FERRY_ARRAY_SIZE(totals)], how & 4,
                           tape_byte(&h->tape));
}

static void pass_time(struct hostile *h)
{
        static const uint64_t times_us[] = { 1, 1000, 60000, 500000, 2000000, 11000000, 61000000 };

        engines_advance(times_us[tape_below(&h->tape, FERRY_ARRAY_SIZE(times_us))]);
        engines_run(&h->engines, 1);
}

static void cancel(struct hostile *h)
{
        unsigned which = tape_byte(&h->tape);

        if (h->engines.n > 0)
                flight_cancel(&h->engines.flights[which / 2 % h->engines.n], which % 2);
}

static void end_lease(struct hostile *h)
{
        lease_end(&page->leases[tape_byte(&h->tape)]);
}

static void run(struct hostile *h)
{
        engines_run(&h->engines, 1 + tape_below(&h->tape, 16));
}

static void hang_up(struct hostile *h)
{
        cleanup_close(&h->sockets[h->at]);
        h->sockets[h->at] = -1;
}

static void (*const steps[])(struct hostile *h) = {
        begin,   connect_to_engine, accept_engine, greet, map_memory, send_inline, send_mapped, send_anything,
        release, take_back,         hear,          run,   cancel,     pass_time,   end_lease,   hang_up,
};

static void step(struct hostile *h)
{
        unsigned choice = tape_byte(&h->tape);

        h->at = choice / FERRY_ARRAY_SIZE(steps) % SOCKETS;
        h->by_mailbox = choice >> 7;
        steps[choice % FERRY_ARRAY_SIZE(steps)](h);
}

static void honest_peer_is_served(struct fuzz_engines *engines, enum engine_direction direction)
{
        const struct flight *f = flight_begin(engines, 1, 0, direction, WIRE_INLINE_MAX + 1, true, 1);

        engines_run(engines, HONEST_PASSES);
        FUZZ_CHECK(f->ended[ACTIVE] && f->ended[PASSIVE] && !f->error[ACTIVE] && !f->error[PASSIVE]);
        FUZZ_CHECK(flight_has_arrived(f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct hostile h;
        size_t descriptors;

        (void)engines_directory();
        prepare();
        descriptors = fuzz_descriptors();
        h = (struct hostile){ .tape = { data, data + size } };
        hostile_open(&h);
        while (tape_has(&h.tape))
                step(&h);
        engines_run(&h.engines, 2);
        honest_peer_is_served(&h.engines, size % 2 ? ENGINE_READ : ENGINE_WRITE);
        engines_close(&h.engines);
        hostile_close(&h);
        while (waitpid(-1, NULL, __WCLONE) > 0)
                ; /* the closer's children, which an ended engine does not wait for; not libFuzzer's */
        FUZZ_CHECK(fuzz_descriptors() == descriptors);
        return 0;
}
