/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/log.h"
#include "base/util.h"
#include "bench.h"
#include "transfer/engine.h"

/*
 * "sim_peers local|network FEW MANY ROUNDS": the data planes of many workers, without their HTTP, and two hubs with one
 * data plane each that are connected to FEW and to all MANY of them. Prints samples as ferry-bench does.
 *
 * Both hubs are asked for the same transfers with the same few peers, in turn: those peers' own caches are then as warm
 * for one hub as for the other, and what differs is what a hub pays for having many endpoints. First connections are to
 * peers that nobody has connected to before: the second connection costs a peer a third of its first.
 */

enum { HOSTS = 4, SLICE = 4096, SAMPLED = 32, REPEATS = 12, NEW_A_ROUND = 8, ROUNDS_MAX = 64, IDLE_S = 10 };

static bool network;

static _Noreturn void fail(const char *format, ...)
{
        va_list arguments;

        (void)fputs("bench: sim_peers: ", stderr);
        va_start(arguments, format);
        (void)vfprintf(stderr, format, arguments);
        va_end(arguments);
        (void)fputc('\n', stderr);
        exit(EXIT_FAILURE);
}

static void read_all(int fd, void *data, size_t size)
{
        if (recv(fd, data, size, MSG_WAITALL) != (ssize_t)size)
                fail("a process ended early");
}

static void write_all(int fd, const void *data, size_t size)
{
        if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
                fail("a process ended early");
}

/* ---- one data plane ---- */

struct address {
        uint64_t epoch;
        char data[ENGINE_ADDRESS_SIZE];
};

struct node {
        struct address address;
        struct engine *engine;
        struct segment segment;
};

static void ignore_progress(void *context, uint64_t bytes)
{
}

static void ignore_end(void *context, const struct engine_outcome *outcome)
{
}

/* Whoever asks may read the slice. */
static int grant(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        const struct node *node = context;

        *ret_claim = (struct engine_claim){
                .segments = &node->segment,
                .n_segments = 1,
                .total = SLICE,
                .progress = ignore_progress,
                .ended = ignore_end,
        };
        return 0;
}

static void node_open(struct node *node)
{
        const struct engine_config config = {
                .epoch = node->address.epoch = random_id(),
                .local = network ? NULL : "auto",
                .data_listen = network ? "127.0.0.1:0" : NULL,
                .transports = network ? "tcp,self" : NULL,
                .operations = { .claim = grant, .context = node },
        };
        const struct engine_facts *facts;
        int r = engine_new(&config, &node->engine);

        if (r < 0)
                fail("a data plane cannot be opened: %s", strerror(-r));
        facts = engine_get_facts(node->engine);
        memcpy(node->address.data, facts->data_address, sizeof(node->address.data));
        node->segment = (struct segment){ .address = aligned_alloc(SLICE, SLICE), .size = SLICE };
        if (r < 0 || !node->segment.address)
                fail("a data plane cannot be opened: %s", strerror(r < 0 ? -r : ENOMEM));
        memset(node->segment.address, 0x5a, SLICE);
        r = engine_memory_register(
                node->engine,
                &(struct engine_memory){ .address = node->segment.address, .size = SLICE, .fd = -1, .id = 1 },
                &node->segment.memory);
        if (r < 0)
                fail("memory cannot be registered: %s", strerror(-r));
}

/* ---- processes ---- */

struct process {
        pid_t pid;
        int socket; /* to it; closing it ends it */
};

/* True in the child, which has *ret_socket to its parent. */
static bool process_start(struct process *process, int *ret_socket)
{
        pid_t parent = getpid();
        int sockets[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
                fail("socketpair: %s", strerror(errno));
        (void)fflush(stdout);
        process->pid = fork();
        if (process->pid < 0)
                fail("fork: %s", strerror(errno));
        process->socket = sockets[0];
        *ret_socket = sockets[1];
        (void)close(sockets[process->pid != 0]);
        if (process->pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(EXIT_FAILURE);
        }
        return process->pid == 0;
}

static void process_end(struct process *process)
{
        int status;

        (void)shutdown(process->socket, SHUT_RDWR); /* processes started later have a copy of it */
        (void)close(process->socket);
        if (waitpid(process->pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail("a process ended badly");
}

/* Opens n data planes, tells their addresses, and lives until the parent closes. Nothing of them is worth an orderly
 * end but the files. */
static _Noreturn void host_run(int socket, unsigned n)
{
        struct node *nodes = calloc(n, sizeof(*nodes));
        char end;

        for (unsigned i = 0; i < n; i++) {
                node_open(&nodes[i]);
                write_all(socket, &nodes[i].address, sizeof(nodes[i].address));
        }
        (void)recv(socket, &end, 1, 0);
        for (unsigned i = 0; i < n; i++)
                engine_unlink_socket(nodes[i].engine);
        _exit(EXIT_SUCCESS);
}

/* ---- hubs ---- */

struct moving {
        sem_t ended;
        struct engine_outcome outcome;
};

static void move_ended(void *context, const struct engine_outcome *outcome)
{
        struct moving *m = context;

        m->outcome = *outcome;
        (void)sem_post(&m->ended);
}

static void move_started(void *context)
{
}

/* Seconds that one read of SLICE takes; connects when that is the first. */
static double hub_read(const struct node *hub, const struct address *peer)
{
        struct moving m = { 0 };
        const struct engine_transfer transfer = {
                .id = random_id(),
                .direction = ENGINE_READ,
                .peer.epoch = peer->epoch,
                .peer.data = peer->data,
                .remote_operation = 1,
                .segments = &hub->segment,
                .n_segments = 1,
                .total = SLICE,
                .may_run_inline = true, /* as for who says Prefer: wait */
                .context = &m,
                .started = move_started,
                .progress = ignore_progress,
                .ended = move_ended,
        };
        uint64_t start;

        (void)sem_init(&m.ended, 0, 0);
        start = now_ns();
        if (engine_transfer_start(hub->engine, &transfer) != 0)
                fail("a transfer does not start");
        while (sem_wait(&m.ended) < 0 && errno == EINTR)
                ;
        if (m.outcome.error != 0)
                fail("a transfer failed: %s %s", ferry_error_code(m.outcome.error), m.outcome.detail);
        return seconds_since(start);
}

static _Noreturn void hub_run(int socket, const struct address *peers)
{
        struct node hub = { 0 };
        unsigned peer;

        node_open(&hub);
        while (recv(socket, &peer, sizeof(peer), MSG_WAITALL) == (ssize_t)sizeof(peer)) {
                double seconds = hub_read(&hub, &peers[peer]);

                write_all(socket, &seconds, sizeof(seconds));
        }
        engine_unlink_socket(hub.engine);
        _exit(EXIT_SUCCESS);
}

static double ask(const struct process *hub, unsigned peer)
{
        double seconds;

        write_all(hub->socket, &peer, sizeof(peer));
        read_all(hub->socket, &seconds, sizeof(seconds));
        return seconds;
}

/* ---- what a process takes ---- */

struct footprint {
        uint64_t anonymous; /* bytes of memory of its own */
        uint64_t shared;    /* of all memfds of the machine: link pages, both sides' */
        unsigned files, sockets;
};

static uint64_t field_bytes(const char *path, const char *field)
{
        char line[256];
        uint64_t kib = 0;
        FILE *f = fopen(path, "re");

        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
                        (void)sscanf(line + strlen(field), ": %" SCNu64, &kib);
        if (f)
                (void)fclose(f);
        return kib * KIB;
}

static struct footprint footprint_of(pid_t pid)
{
        struct footprint p = { .shared = field_bytes("/proc/meminfo", "Shmem") };
        char path[64], target[64];
        DIR *d;

        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        p.anonymous = field_bytes(path, "RssAnon");
        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d));) {
                ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target));

                p.files += n > 0;
                p.sockets += n > 7 && strncmp(target, "socket:", 7) == 0;
        }
        if (d)
                (void)closedir(d);
        return p;
}

static double processor_seconds(pid_t pid)
{
        struct timespec used = { 0 };
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock) == 0)
                (void)clock_gettime(clock, &used);
        return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* TCP segments that this network namespace has sent, those of everybody. */
static uint64_t segments_sent(void)
{
        FILE *f = fopen("/proc/net/snmp", "re");
        char line[512];
        uint64_t sent = 0;

        while (f && fgets(line, sizeof(line), f))
                (void)sscanf(line, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %" SCNu64, &sent);
        if (f)
                (void)fclose(f);
        return sent;
}

/* ---- the measurement ---- */

struct crowd {
        unsigned few, many, n_rounds;
        struct process hosts[HOSTS], hubs[2]; /* of few, of many */
        struct address *peers;                /* many, and behind them those for first connections */
};

static const char *const sizes[] = { "few", "many" };

static const char *side(void)
{
        return network ? "network" : "local";
}

static void open_hosts(struct crowd *c)
{
        unsigned total = c->many + c->n_rounds * NEW_A_ROUND * 2, each = (total + HOSTS - 1) / HOSTS;

        c->peers = calloc(each * HOSTS, sizeof(*c->peers));
        progress("%s: %u data planes", side(), total);
        for (int h = 0; h < HOSTS; h++) {
                int socket;

                if (process_start(&c->hosts[h], &socket))
                        host_run(socket, each);
        }
        for (int h = 0; h < HOSTS; h++) /* in turn, so that every range of peers is spread over the processes */
                for (unsigned i = 0; i < each; i++)
                        read_all(c->hosts[h].socket, &c->peers[i * HOSTS + (unsigned)h], sizeof(*c->peers));
}

/* What one link of many costs a worker that moves nothing over it: processor time, and what keep-alives send. */
static void measure_idle(const struct crowd *c)
{
        const struct timespec seconds = { .tv_sec = IDLE_S };
        double processor = processor_seconds(c->hubs[1].pid);
        uint64_t segments = segments_sent(), start = now_ns();

        progress("%s: %u idle links", side(), c->many);
        (void)nanosleep(&seconds, NULL);
        sample("us", (processor_seconds(c->hubs[1].pid) - processor) * 1e6 / seconds_since(start) / c->many,
               "peers.%s.idle", side());
        sample("1", (double)(segments_sent() - segments) / seconds_since(start) / c->many, "peers.%s.segments", side());
}

/* In an order in which the peers that are sampled later come neither first nor last in any list. */
static void connect_hub(struct crowd *c, int which)
{
        enum { STEP = 7919 }; /* a prime larger than any n */
        unsigned n = which ? c->many : c->few;
        struct footprint before = footprint_of(c->hubs[which].pid), after;

        progress("%s: connects to %u", side(), n);
        for (unsigned i = 0; i < n; i++)
                (void)ask(&c->hubs[which], (unsigned)((uint64_t)(i + 1) * STEP % n));
        if (!which)
                return;
        after = footprint_of(c->hubs[which].pid);
        sample("B", (double)(after.anonymous - before.anonymous) / n, "peers.%s.memory", side());
        sample("B", (double)(after.shared - before.shared) / n, "peers.%s.shared", side());
        sample("1", (double)(after.files - before.files) / n, "peers.%s.files", side());
        sample("1", (double)(after.sockets - before.sockets) / n, "peers.%s.sockets", side());
}

static void run_round(const struct crowd *c, unsigned round)
{
        double known[2][SAMPLED * REPEATS], first[2] = { 0, 0 };
        unsigned n = 0;

        for (int repeat = 0; repeat < REPEATS; repeat++) {
                for (unsigned i = 0; i < SAMPLED; i++, n++) {
                        for (unsigned j = 0; j < 2; j++) {
                                unsigned which = (n + j) % 2; /* who comes first finds the peer colder */

                                known[which][n] = ask(&c->hubs[which], i * c->few / SAMPLED);
                        }
                }
        }
        /* The quickest of some: a few in ten take many times as long, whoever asks, which no median of few survives. */
        for (unsigned i = 0; i < NEW_A_ROUND; i++) {
                for (unsigned j = 0; j < 2; j++) {
                        unsigned which = (i + j) % 2;
                        double seconds = ask(&c->hubs[which], c->many + (round * NEW_A_ROUND + i) * 2 + which);

                        first[which] = i > 0 && first[which] < seconds ? first[which] : seconds;
                }
        }
        for (int which = 0; which < 2; which++) {
                sample("us", midmean(known[which], n) * 1e6, "peers.%s.transfer.%s", side(), sizes[which]);
                sample("us", first[which] * 1e6, "peers.%s.connect.%s", side(), sizes[which]);
        }
}

int main(int argc, char **argv)
{
        struct crowd c = { 0 };

        if (argc == 5) {
                network = strcmp(argv[1], "network") == 0;
                c.few = (unsigned)strtoul(argv[2], NULL, 10);
                c.many = (unsigned)strtoul(argv[3], NULL, 10);
                c.n_rounds = (unsigned)strtoul(argv[4], NULL, 10);
        }
        if (c.few < SAMPLED || c.many <= c.few || c.n_rounds == 0 || c.n_rounds > ROUNDS_MAX)
                fail("usage: sim_peers local|network FEW MANY ROUNDS");
        log_setup(LOG_WARN, LOG_LOGFMT);
        open_hosts(&c);
        for (int which = 0; which < 2; which++) {
                int socket;

                if (process_start(&c.hubs[which], &socket))
                        hub_run(socket, c.peers);
        }
        for (int which = 0; which < 2; which++)
                connect_hub(&c, which);
        measure_idle(&c);
        for (unsigned round = 0; round < c.n_rounds; round++) {
                begin_round("%s, round %u of %u", side(), round + 1, c.n_rounds);
                run_round(&c, round);
        }
        for (int which = 0; which < 2; which++)
                process_end(&c.hubs[which]);
        for (int h = 0; h < HOSTS; h++)
                process_end(&c.hosts[h]);
        free(c.peers);
        return EXIT_SUCCESS;
}
