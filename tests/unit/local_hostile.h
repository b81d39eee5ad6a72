/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_HOSTILE_H
#define LOCAL_HOSTILE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/util.h"
#include "local_fixture.h"
#include "mailbox.h"
#include "rights.h"
#include "unit.h"

/* A worker with a good peer, and a hostile one by hand. */

enum { PAGE = sizeof(struct link_page) };

static struct worker a, good;
static struct link *good_to_a;
static int raw; /* the hostile peer's socket */
static int descriptors;

static inline void raw_connect(void)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%016llx.sock", fixture_directory,
                       (unsigned long long)a.epoch);
        raw = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_int_equal(connect(raw, (struct sockaddr *)&address, sizeof(address)), 0);
}

static inline void raw_send(const void *bytes, size_t size, const int *fds, size_t n_fds)
{
        assert_int_equal(rights_send(raw, bytes, size, fds, n_fds, MSG_NOSIGNAL), size);
}

static inline int file_of(size_t size, int seals)
{
        int fd = memfd_create("ferry-hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        if (seals)
                assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static inline void send_frame(struct frame frame, int fd)
{
        raw_send(&frame, sizeof(frame), &fd, fd >= 0);
        if (fd >= 0)
                (void)close(fd);
}

static struct link_page *raw_page; /* of the last greeting; NULL = none */

static inline void forget_page(void)
{
        if (raw_page)
                assert_int_equal(munmap(raw_page, PAGE), 0);
        raw_page = NULL;
}

static inline void greet(void)
{
        struct frame frame = FRAME_OF(FRAME_HELLO);
        int fd = file_of(PAGE, F_SEAL_SHRINK);

        forget_page();
        raw_page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(raw_page, MAP_FAILED);
        frame.id = 4711;
        send_frame(frame, fd);
}

static inline void map_memory(uint64_t id, uint64_t size, int fd)
{
        struct frame frame = FRAME_OF(FRAME_MAP);

        frame.id = id;
        frame.size = size;
        send_frame(frame, fd);
}

/* A message with one extent and some digests. */
static inline void send_digested(uint32_t slot, uint64_t number, uint64_t length, struct frame_extent extent,
                                 uint16_t flags, uint64_t digests)
{
        struct wire_header header = {
                .type = WIRE_DATA, .flags = flags, .to_epoch = 1, .from_epoch = 1, .operation = 1, .transfer = 1
        };
        uint8_t bytes[FRAME_PAYLOAD + sizeof(extent) + 4 * sizeof(uint64_t)] = { 0 };
        struct frame frame = FRAME_OF(FRAME_MESSAGE);

        frame.id = digests;
        frame.size = length;
        frame.slot = slot;
        frame.number = number;
        frame.n = 1;
        memcpy(bytes, &frame, sizeof(frame));
        wire_encode(&header, bytes + sizeof(frame));
        memcpy(bytes + FRAME_PAYLOAD, &extent, sizeof(extent));
        raw_send(bytes, FRAME_PAYLOAD + sizeof(extent) + digests * sizeof(uint64_t), NULL, 0);
}

static inline void send_mapped(uint32_t slot, uint64_t number, uint64_t length, struct frame_extent extent)
{
        send_digested(slot, number, length, extent, 0, 0);
}

static inline void send_inline(size_t length, uint8_t wire_protocol, size_t cut)
{
        struct wire_header header = {
                .type = WIRE_DATA, .to_epoch = 1, .from_epoch = 1, .operation = 1, .transfer = 1
        };
        static uint8_t bytes[FRAME_DATAGRAM_MAX + 100];
        struct frame frame = FRAME_OF(FRAME_MESSAGE);

        frame.size = length;
        memcpy(bytes, &frame, sizeof(frame));
        wire_encode(&header, bytes + sizeof(frame));
        bytes[sizeof(frame) + 4] = wire_protocol;
        raw_send(bytes, FRAME_PAYLOAD + length - cut, NULL, 0);
}

static inline int hostile_setup(void **state)
{
        int r = fixture_setup(state);

        if (r < 0)
                return r;
        descriptors = count_descriptors();
        worker_open(&a, 0);
        worker_open(&good, 0);
        good_to_a = worker_connect(&good, a.epoch);
        RUN_UNTIL(&a, &good, good_to_a->state == LINK_UP);
        raw_connect();
        return 0;
}

static inline int hostile_teardown(void **state)
{
        struct outcome outcome = { 0 };

        /* The others never noticed. */
        a.n = 0;
        worker_send(good_to_a, message_make(&good, NULL, 0, 0, 1, &outcome));
        RUN_UNTIL(&a, &good, a.n >= 1);
        assert_int_equal(good_to_a->state, LINK_UP);
        (void)close(raw);
        worker_close(&a);
        worker_close(&good);
        forget_page();
        RUN_UNTIL(NULL, NULL, count_descriptors() == descriptors); /* another process closes what was passed */
        assert_int_equal(count_mappings("ferry-hostile"), 0);
        return fixture_teardown(state);
}

static inline bool raw_is_closed(void)
{
        char bytes[4096];

        return recv(raw, bytes, sizeof(bytes), 0) == 0;
}

#endif
