/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/*
 * A network link: joins two TAP devices that it makes in two network namespaces.
 *
 *   wire NAMESPACE DEVICE NAMESPACE DEVICE DELAY_US RATE_MBIT LOSS_PPM QUEUE_KIB
 *
 * A namespace is a path such as /proc/123/ns/net. Each direction has its own delay (one way), rate and queue; a packet
 * that finds the queue full is dropped. SIGUSR1 cuts the link, and what is on it is lost; SIGUSR2 joins it again.
 * Prints "ready"; after SIGTERM, one line for each direction with what passed and what was lost.
 *
 * Without loss the devices hand over up to 64 KiB at once, as real cards do, so that 1 Gbit/s costs little time here.
 * With loss each packet comes alone: a burst would be lost whole.
 */

enum {
        ENTRIES = 1 << 16,  /* packets on the way, each direction */
        BURST = 64,         /* packets read before the others' turn */
        FRAME_MAX = 70000,  /* of a TAP device with offloads */
        FRAME_OVERHEAD = 24 /* preamble, checksum and gap of Ethernet, which count for the rate */
};

struct packet {
        uint64_t due_ns;
        size_t size;
        uint8_t *bytes;
};

struct direction {
        int in, out; /* owned by struct wire */
        struct packet packets[ENTRIES];
        size_t first, end;
        uint64_t idle_ns; /* when the last bit of what was accepted has left */
        uint64_t passed, lost, dropped;
};

struct wire {
        int devices[2];
        uint64_t delay_ns, rate_mbit, loss_ppm, queue_bytes;
        bool offloads;
        uint64_t random;
        struct direction directions[2];
};

static volatile sig_atomic_t is_cut, is_over;

static void on_signal(int number)
{
        if (number == SIGTERM || number == SIGINT)
                is_over = 1;
        else
                is_cut = number == SIGUSR1;
}

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
        (void)fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
        exit(1);
}

static uint64_t number(const char *text)
{
        char *end;
        unsigned long long value = strtoull(text, &end, 10);

        if (*text < '0' || *text > '9' || *end) {
                (void)fprintf(stderr, "wire: %s is no number\n", text);
                exit(2);
        }
        return value;
}

/* Makes the device; the process is in its namespace afterwards. */
static int make_device(const char *namespace, const char *name, bool offloads)
{
        struct ifreq request = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (offloads ? IFF_VNET_HDR : 0)) };
        int fd = open(namespace, O_RDONLY | O_CLOEXEC), buffer = 64 << 20;

        if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
                die(namespace);
        (void)close(fd);
        (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
        fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                die("/dev/net/tun");
        if (ioctl(fd, TUNSETIFF, &request) < 0)
                die(name);
        if (offloads && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
                die("offloads");
        (void)ioctl(fd, TUNSETSNDBUF, &buffer);
        return fd;
}

static uint64_t next_random(struct wire *w)
{
        w->random ^= w->random << 13;
        w->random ^= w->random >> 7;
        w->random ^= w->random << 17;
        return w->random;
}

/* Bytes that a frame takes on a real wire: its segments have headers each. */
static uint64_t wire_size(const struct wire *w, const uint8_t *bytes, size_t size)
{
        struct virtio_net_hdr header;
        size_t payload;

        if (!w->offloads || size < sizeof(header))
                return size + FRAME_OVERHEAD;
        memcpy(&header, bytes, sizeof(header));
        size -= sizeof(header);
        if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE || header.gso_size == 0 || header.hdr_len >= size)
                return size + FRAME_OVERHEAD;
        payload = size - header.hdr_len;
        return payload + (payload + header.gso_size - 1) / header.gso_size * (header.hdr_len + FRAME_OVERHEAD);
}

static void accept_frame(struct wire *w, struct direction *d, const uint8_t *bytes, size_t size)
{
        struct packet *p = &d->packets[d->end % ENTRIES];
        uint64_t now = now_ns();

        if (is_cut || (w->loss_ppm && next_random(w) % 1000000 < w->loss_ppm)) {
                d->lost++;
                return;
        }
        if (d->idle_ns < now)
                d->idle_ns = now;
        if (d->end - d->first == ENTRIES || (d->idle_ns - now) * w->rate_mbit / 8000 > w->queue_bytes) {
                d->dropped++;
                return;
        }
        d->idle_ns += wire_size(w, bytes, size) * 8000 / w->rate_mbit;
        p->bytes = malloc(size);
        if (!p->bytes)
                die("packet");
        memcpy(p->bytes, bytes, size);
        p->size = size;
        p->due_ns = d->idle_ns + w->delay_ns;
        d->end++;
}

static void deliver(struct direction *d)
{
        uint64_t now = now_ns();

        for (; d->first != d->end; d->first++) {
                struct packet *p = &d->packets[d->first % ENTRIES];

                if (p->due_ns > now)
                        return;
                if (is_cut)
                        d->lost++;
                else if (write(d->out, p->bytes, p->size) < 0)
                        d->dropped++;
                else
                        d->passed++;
                free(p->bytes);
        }
}

/* Moves what is due; returns when the next packet is, UINT64_MAX = none is on the way. */
static uint64_t move(struct wire *w)
{
        static uint8_t frame[FRAME_MAX];
        uint64_t next = UINT64_MAX;

        for (size_t i = 0; i < 2; i++) {
                struct direction *d = &w->directions[i];
                ssize_t n;

                for (size_t k = 0; k < BURST && (n = read(d->in, frame, sizeof(frame))) > 0; k++)
                        accept_frame(w, d, frame, (size_t)n);
                deliver(d);
                if (d->first != d->end && d->packets[d->first % ENTRIES].due_ns < next)
                        next = d->packets[d->first % ENTRIES].due_ns;
        }
        return next;
}

static void wait_until(const struct wire *w, uint64_t next)
{
        struct pollfd fds[2] = { { .fd = w->devices[0], .events = POLLIN }, { .fd = w->devices[1], .events = POLLIN } };
        uint64_t now = now_ns(), wait = next <= now ? 0 : next - now;
        struct timespec limit;

        if (wait > UINT64_C(100000000))
                wait = UINT64_C(100000000); /* a signal may have come just before */
        limit = (struct timespec){ .tv_nsec = (long)wait };
        (void)ppoll(fds, 2, &limit, NULL);
}

int main(int argc, char **argv)
{
        static struct wire wire = { .random = UINT64_C(88172645463325252) };
        struct sigaction action = { .sa_handler = on_signal };
        struct wire *w = &wire;

        if (argc != 9) {
                (void)fprintf(stderr,
                              "usage: wire NAMESPACE DEVICE NAMESPACE DEVICE DELAY_US RATE_MBIT LOSS_PPM QUEUE_KIB\n");
                return 2;
        }
        w->delay_ns = number(argv[5]) * 1000;
        w->rate_mbit = number(argv[6]);
        w->loss_ppm = number(argv[7]);
        w->queue_bytes = number(argv[8]) * 1024;
        if (w->rate_mbit == 0)
                return 2;
        w->offloads = w->loss_ppm == 0;
        for (size_t i = 0; i < 2; i++)
                w->devices[i] = make_device(argv[1 + 2 * i], argv[2 + 2 * i], w->offloads);
        for (size_t i = 0; i < 2; i++) {
                w->directions[i].in = w->devices[i];
                w->directions[i].out = w->devices[1 - i];
        }
        (void)sigaction(SIGUSR1, &action, NULL);
        (void)sigaction(SIGUSR2, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
        (void)sigaction(SIGINT, &action, NULL);
        (void)puts("ready");
        (void)fflush(stdout);
        while (!is_over)
                wait_until(w, move(w));
        for (size_t i = 0; i < 2; i++)
                (void)printf("%s: %llu passed, %llu lost, %llu dropped\n", argv[2 + 2 * i],
                             (unsigned long long)w->directions[i].passed, (unsigned long long)w->directions[i].lost,
                             (unsigned long long)w->directions[i].dropped);
        return 0;
}
