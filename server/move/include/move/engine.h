/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_ENGINE_H
#define MOVE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ferry/encoding.h>

#include "memory/device.h"
#include "message/stream.h"

struct allowlist;
struct metrics;
struct ranges;
struct space;

/*
 * The engine of the data plane. The active side (requester) pulls or pushes the bytes of an operation in chunks, the
 * passive side (responder) answers out of its own table of operations; PROTOCOL.md says how. Transports below carry
 * messages and bytes: local (a Unix socket and mapped memory) and UCX. A transfer that finds no link goes over HTTP, by
 * functions that are handed down (struct engine_http).
 *
 * One thread at a time runs the engine: its own, or for a moment a thread that waits for the end of a short transfer
 * (inline progress: may_run_inline, below). The functions below may be called from any other thread; those that concern
 * transfers, links and peers queue a command and wake the engine's thread. Callbacks run on the thread that runs the
 * engine, without the caller's locks, and must not block; they may call engine_transfer_start, engine_transfer_cancel,
 * engine_claims_revoke and engine_held_reads_retry. Those that stand in tables of other layers take the engine as a
 * void pointer.
 */

struct engine;

enum engine_direction {
        ENGINE_READ,  /* the active side takes bytes from the passive side */
        ENGINE_WRITE, /* the active side puts bytes into the passive side */
};

/* The carriers of a transfer's bytes. */
enum engine_carrier {
        ENGINE_CARRIER_SHM = 1,
        ENGINE_CARRIER_TCP = 2,
        ENGINE_CARRIER_RDMA = 4, /* every transport of UCX but TCP */
        ENGINE_CARRIER_HTTP = 8, /* the peer's …/content (struct engine_http) */
        ENGINE_CARRIER_HTTPS = 16,
        ENGINE_CARRIER_UCX = ENGINE_CARRIER_TCP | ENGINE_CARRIER_RDMA,
};

/* The names for users: "shm", "tcp", "rdma", "http", "https". 0 = no such name; NULL beyond the last. */
unsigned engine_carrier_from_name(const char *name, size_t length);
const char *engine_carrier_name(size_t i);

enum {
        ENGINE_CHUNK_MIN = 64 << 10, /* bytes */
        ENGINE_WINDOW_MAX = 64,      /* chunks of one transfer in flight, whatever their size; a power of two */
};

/* Each claim takes some KiB, and one operation may serve any number at once. */
enum { ENGINE_CLAIMS_MAX = 1 << 16 };

enum {
        ENGINE_TRANSPORT_SIZE = 32,
        ENGINE_ADDRESS_SIZE = 280,
        ENGINE_DETAIL_SIZE = 160,
        ENGINE_REASON_SIZE = 400,
        ENGINE_SPIN_DEFAULT_US = 500,
};

/* How a transfer ended. */
struct engine_outcome {
        int error;      /* 0 = every byte moved and both sides know; else FERRY_E_* */
        uint64_t bytes; /* moved */
        /* What carried the bytes: "shm", or by UCX's name "tcp", "rc_verbs", …, and gpu_path_name; "" = none did.
         */
        char transport[ENGINE_TRANSPORT_SIZE];
        char detail[ENGINE_DETAIL_SIZE]; /* for display; may be "" */
        uint64_t connect_us; /* active side: from the link's creation to the peer's first message; 0 = the link was up
                                already, or no message came */
};

/* ---- passive side: the engine's calls to the operations ---- */

/* A peer's first request of one transfer, which claims an operation. */
struct engine_claim_request {
        uint64_t operation;
        uint64_t transfer; /* drawn at random by the active side; one claim has one */
        enum engine_direction direction;
        uint64_t total;        /* bytes that the active side will move */
        uint64_t whole;        /* bytes of the offer, as the active side knows it */
        uint64_t peer_epoch;   /* 0 = not known */
        const char *peer_name; /* as the peer says, not authenticated; NULL = not known */
        uint8_t key[FERRY_KEY_SIZE];
};

/* A claim: what an operation grants to one transfer. */
struct engine_claim {
        const struct segment *segments; /* of all of the offer; stay valid, memory too, until ended */
        size_t n_segments;
        uint64_t total;
        /* Bytes moved so far; called often. The same number again means that the transfer waits, and has not stalled.
         */
        void (*progress)(void *context, uint64_t bytes);
        /*
         * How many bytes from offset on of the offer, of length, can be read now. A READ of missing bytes is held until
         * engine_held_reads_retry. Bytes that have arrived stay available. NULL = all are available.
         */
        uint64_t (*available)(void *context, uint64_t offset, uint64_t length);
        void *context; /* for progress, available and ended */
        /*
         * The transfer is over and quiet: no byte will be written by it, and none that is read later counts. Exactly
         * once for each claim. The peer may be waiting for our answer to that: leave what can wait to wake_waiters.
         */
        void (*ended)(void *context, const struct engine_outcome *outcome);
};

/* What the holder of an operation's metadata says to its worker, without a transfer. */
struct engine_notice {
        uint64_t operation;
        uint64_t transfer; /* random; the same notice, repeated, has the same */
        bool renews;       /* asks for more time; else declines */
        uint64_t ttl_ms;   /* of renews: from now; 0 = as at the operation's creation */
        uint8_t key[FERRY_KEY_SIZE];
};

struct engine_operations {
        /*
         * Checks key, direction, total and state; claims. 0 with *ret_claim, or the FERRY_E_* that the peer is told:
         * STALE_METADATA (no such operation), PEER_REFUSED (wrong key), KIND_MISMATCH, SIZE_MISMATCH, ALREADY_CLAIMED,
         * EXPIRED, CANCELLED_BY_PEER (it was cancelled), … The peer is waiting: leave what can wait to wake_waiters.
         */
        int (*claim)(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim);
        /*
         * A notice of a peer. 0 with the operation's enum ferry_status and, of renews, the milliseconds until it
         * expires; or the FERRY_E_* that the peer is told: as for claim, FORBIDDEN (its owner lets no holder renew it),
         * GONE (it cannot be renewed any more). NULL = there is none.
         */
        int (*notice)(void *context, const struct engine_notice *notice, int *ret_status, uint64_t *ret_left_ms);
        /*
         * Transfers have started or ended since the last call, and the messages about it were sent: wake their waiters
         * now, which may take this core away. May be NULL.
         */
        void (*wake_waiters)(void *context);
        void *context;
};

/* ---- set-up ---- */

struct engine_peer_view;

/*
 * The observer hears when the first link to another worker is up, and when the last one has ended. Called on the thread
 * that runs the engine; must not block.
 */
struct engine_observer {
        void (*peer_changed)(void *context, const struct engine_peer_view *peer); /* NULL = none */
        void *context;
};

/* The strings of the UCX transport stay until engine_free. */
struct engine_config {
        uint64_t epoch;
        const char *name;        /* of this worker, for its peers; NULL = it has none */
        const char *local;       /* directory of the local transport's socket, or "auto"; NULL = off */
        unsigned copy_threads;   /* of the local transport; 0 = none beside the engine's own */
        const char *data_listen; /* "HOST:PORT" or "INTERFACE:PORT" of the UCX transport; NULL = off */
        const char *advertise;   /* host by which peers reach that; NULL = the one it listens on */
        const char *ucx_tls;     /* as UCX_TLS; NULL = all network ones but ud */
        const char *interfaces;  /* of UCX, as UCX_NET_DEVICES; NULL = by the addresses above */
        enum device_gpudirect gpu_direct;
        uint32_t chunk_size; /* bytes of one request at most; 0 = each transport's default */
        uint32_t window;    /* chunks in flight over one link, of all transfers together, at most ENGINE_WINDOW_MAX; 0 =
                               default */
        uint32_t spin_us;   /* how long the thread polls, after something moved, before it sleeps; 0 = default */
        uint32_t grace_ms;  /* how long a cancel waits for bytes in flight before it closes the link; 0 = default */
        uint32_t max_links; /* that peers open; 0 = default */
        uint32_t max_claims;   /* transfers that peers have under way; 0 = default */
        uint32_t max_mappings; /* memories of local peers that stay mapped while they are idle; 0 = default */
        uint32_t connect_ms;   /* how long a first answer may take; 0 = default */
        /* The hosts that the UCX transport may connect to; borrowed. NULL = all. The local transport may reach every
         * worker of this machine. */
        const struct allowlist *allowlist;
        struct engine_operations operations;
        struct engine_observer observer;
        struct metrics *metrics; /* may be NULL */
        /* Of ENGINE_REASON_SIZE: why engine_new failed, a sentence for users, where that says more than its error. May
         * be NULL. */
        char *reason;
};

/*
 * The properties of the data plane on this machine. Fixed after engine_new, but for one change where the network
 * transport has to wait for its address: network_waits becomes false, and device, data_address and transports are as
 * they stay.
 */
struct engine_facts {
        atomic_bool network_waits;
        char ucx_version[32];                   /* "" = the network transport is off, and UCX is not loaded */
        struct device_ucx device;               /* when the network transport is open */
        const char *local_directory;            /* NULL = the local transport is off */
        size_t mappings_max;                    /* memories of local peers that stay mapped while they are idle */
        char data_address[ENGINE_ADDRESS_SIZE]; /* bound "host:port" of the UCX transport; "" = off */
        size_t n_transports;                    /* names of the transports in use, without duplicates */
        const char *const *transports;
};

/*
 * Opens the transports, starts the thread. 0 with *ret_engine; -EADDRINUSE, -EADDRNOTAVAIL, -EINVAL (data_listen,
 * transports, interfaces), -ENODEV (UCX has no such transport), -ENOTSUP (no UCX that can be loaded), other -errno. The
 * reason is logged.
 */
int engine_new(const struct engine_config *config, struct engine **ret_engine);

/* Whether the network transport is open; then its facts are fixed. Any thread. */
static inline bool engine_network_is_open(const struct engine_facts *facts)
{
        return !atomic_load(&facts->network_waits) && facts->data_address[0];
}

/*
 * Ends every transfer, claim and connect (their callbacks run), closes the links (flushing at most grace_ms), ends the
 * thread. Afterwards only engine_get_facts, engine_memory_deregister and engine_free may be called. Not from a
 * callback.
 */
void engine_stop(struct engine *engine);

/* Stops if need be, and frees. All memory must have been deregistered. Takes NULL; returns NULL. */
struct engine *engine_free(struct engine *engine);

const struct engine_facts *engine_get_facts(const struct engine *engine);

/* Unlinks the local transport's socket, for a process that ends at once. Any thread. */
void engine_unlink_socket(const struct engine *engine);

struct engine_memory {
        void *address;
        size_t size;
        const struct space *space; /* of the address; NULL = host memory. Stays until engine_memory_deregister */
        int fd;      /* the sealed memfd that is mapped there from its offset 0 on, so that peers on this host may map
                        it too; -1 = none */
        uint64_t id; /* names it to those, and is never used again */
};

/* Registers memory with every transport. May take long, where hardware pins the pages. Any thread. 0 or -errno. */
int engine_memory_register(struct engine *engine, const struct engine_memory *spec, struct memory **ret_memory);
/* Waits for the engine's thread, so not from a callback. Takes NULL. */
void engine_memory_deregister(struct engine *engine, struct memory *memory);
/* 1 + the number of the GPU that has pinned the memory, which deregistering waits for; 0 = none. Any thread. */
unsigned engine_memory_gpu(const struct memory *memory);

/* ---- active side ---- */

/* Another worker, and where it can be found. */
struct engine_peer {
        uint64_t epoch;
        const char *data; /* "host:port" of its network transport; "" or NULL = it has none */
        const char *name; /* for engine_peers_page; "" or NULL = not known */
        const char *url;  /* base URL of its HTTP server; "" or NULL = it has none */
};

struct engine_transfer {
        uint64_t id; /* random, not 0, of this worker; names the transfer in engine_transfer_cancel */
        enum engine_direction direction;
        struct engine_peer peer; /* copied */
        uint64_t remote_operation;
        uint8_t key[FERRY_KEY_SIZE];
        const struct segment *segments; /* stay valid, memory too, until ended */
        size_t n_segments;
        uint64_t total; /* of the segments */
        /* The parts of the offer that they pair with, as many bytes; stays until ended. NULL = all of it. */
        const struct ranges *remote;
        uint64_t remote_total; /* with remote: bytes of all of the offer */
        bool verify;           /* checksum of every chunk */
        unsigned carriers; /* of enum engine_carrier; nothing else carries the bytes. 0 = whatever both sides have */
        uint32_t connect_ms_max; /* over HTTP, set by the engine: how long a connection may take at most; 0 = the
                                    default */
        /*
         * The caller has nothing else to do until the end, and holds no lock: a short transfer, and whatever else
         * comes, may run on its thread before engine_transfer_start returns, for a fifth of spin_us. In a callback on
         * the progress thread it waits for that thread's next round.
         */
        bool may_run_inline;

        void *context;
        void (*started)(void *context); /* connected and the first chunk requested; before any progress; at most once */
        void (*progress)(void *context, uint64_t bytes); /* as in struct engine_claim */
        /* Of a read: these bytes are in place, and checked where verify asks for that. Each once, some while others are
         * being copied. NULL = none. */
        void (*arrived)(void *context, uint64_t offset, uint64_t length);
        /* The most bytes of one request now, and the fewest of a request under way that arrived tells. NULL = as suits
         * the link. */
        uint64_t (*request_max)(void *context);
        /* Why the end was requested; 0 = it was not. Asked over HTTP alone. Until ended. */
        int (*stopping)(void *context);
        /* Over and quiet. Exactly once for every successful engine_transfer_start. */
        void (*ended)(void *context, const struct engine_outcome *outcome);
};

/* Bytes of all of the offer. */
static inline uint64_t engine_transfer_whole(const struct engine_transfer *transfer)
{
        return transfer->remote ? transfer->remote_total : transfer->total;
}

/*
 * Starts a transfer: by the local transport when the peer's socket is there, else by UCX, else, or where carriers
 * allows nothing else, over HTTP if the peer has a URL. Where the paths to such a peer have failed lately it goes over
 * HTTP at once, and they are tried again beside it. *transfer is copied. 0 or -errno (-ESHUTDOWN, -ENOMEM); all other
 * faults come through ended. Resolves peer.data, which may take the resolver's time, unless it is numeric or a link is
 * there.
 */
int engine_transfer_start(void *engine, const struct engine_transfer *transfer);

/* How an engine_connect ended. */
struct engine_connection {
        /*
         * 0; PEER_UNREACHABLE; STALE_METADATA (another worker is there); CANCELLED (this one is stopping); of a notice
         * also the answer of the peer
         */
        int error;
        char transport[ENGINE_TRANSPORT_SIZE]; /* what bytes will go over */
        uint64_t connect_us;                   /* as in struct engine_outcome; 0 = reused */
        bool reused;                           /* the link was there already */
        char detail[ENGINE_DETAIL_SIZE];       /* for people; may be "" */
        int status;                            /* of a notice: the operation's enum ferry_status … */
        uint64_t left_ms;                      /* … and, of renews, milliseconds until it expires */
};

struct engine_connect {
        struct engine_peer peer;     /* copied */
        struct engine_notice notice; /* to be said to the peer; operation 0 = none, only connects */
        void *context;
        /* Exactly once for every successful engine_connect, within the connect time. */
        void (*connected)(void *context, const struct engine_connection *connection);
};

/*
 * Connects to a peer by the route that a transfer would take, and makes sure of it by a message there and back. The
 * link stays for transfers to come: a local one as long as both workers live, one of UCX until it was not used for a
 * minute. With a notice, that is the message, said over HTTP where no link reaches a peer that has a URL; a peer that
 * is not reached may have got it nevertheless. *spec is copied. 0 or -errno (-ESHUTDOWN, -ENOMEM); all other faults
 * come through connected.
 */
int engine_connect(struct engine *engine, const struct engine_connect *spec);

/* ---- other workers ---- */

enum engine_peer_state {
        ENGINE_PEER_CONNECTING,
        ENGINE_PEER_CONNECTED,
        ENGINE_PEER_DISCONNECTED, /* forgotten ten minutes later, or earlier where there are many */
};

/* A better transport than the one in use, and why it is not used. */
struct engine_unused_transport {
        const char *transport;  /* "shm", "rdma", "tcp" */
        const char *reason;     /* for people */
        uint64_t retry_unix_ms; /* it failed lately: the first transfer after this time has it tried again; else 0 */
};

/* A worker with a link to this one, or one that this one has tried to connect to, or moved bytes with over HTTP,
 * lately. */
struct engine_peer_view {
        uint64_t epoch;
        char name[64], url[512], data[ENGINE_ADDRESS_SIZE]; /* "" = not known */
        enum engine_peer_state state;
        char transport[ENGINE_TRANSPORT_SIZE]; /* of its best link; "" = not known (yet) */
        bool accepted;                         /* the peer opened that link */
        uint64_t connected_unix_ms;            /* of that link; 0 = not connected */
        uint64_t connect_us;                   /* the same */
        size_t n_transfers;                    /* running, in both directions, over any carrier */
        uint64_t n_completed, bytes;           /* of those that have ended, while this worker has known it */
        int error;                       /* DISCONNECTED: FERRY_E_*; 0 = the link was closed, because it was not used */
        char detail[ENGINE_DETAIL_SIZE]; /* of error */
        uint64_t disconnected_unix_ms;
        struct engine_unused_transport unused[3]; /* the best first; transport NULL ends the list */
};

/*
 * A page of those workers in order of appearance, from *cursor (0 = the start) on. Returns how many, at most max, and
 * sets *cursor for the next page (0 = there is none). Waits for the engine's thread, so not from a callback.
 * -ESHUTDOWN, -ENOMEM.
 */
ssize_t engine_peers_page(struct engine *engine, uint64_t *cursor, struct engine_peer_view *page, size_t max);

/* The error of a passive side whose peer has ended the transfer for that reason, a FERRY_E_*. Pure. */
int engine_error_of_peer(uint32_t reason);

/* ---- HTTP ---- */

/* What moves and says things over HTTP. Any thread; all may be called while the engine is stopping. */
struct engine_http {
        /*
         * Moves a transfer. *transfer and its strings are copied. 0, and started, progress and ended are called, on
         * other threads than the engine's; FERRY_E_* with a sentence in detail; -errno.
         */
        int (*start)(void *mover, const struct engine_transfer *transfer, char *detail, size_t detail_size);
        /* Requests the end of a transfer, for reason, a FERRY_E_*. Ids that it does not have are ignored. */
        void (*cancel)(void *mover, uint64_t id, int reason);
        /* Says the notice of *spec to the worker at spec->peer.url. 0, and connected is called once; else as start. */
        int (*notice)(void *teller, const struct engine_connect *spec, char *detail, size_t detail_size);
        void *mover, *teller;
};

/* Nothing goes over HTTP before; with NULL, nothing any more once this has returned. Not from a callback. */
void engine_set_http(struct engine *engine, const struct engine_http *http);

/* The start or the end of a transfer over HTTP, in either direction. */
struct engine_http_note {
        uint64_t epoch;        /* of the peer; 0 = not known: ignored */
        char name[64];         /* its name; "" = not known */
        const char *transport; /* "http", "https"; a literal */
        bool accepted;         /* the peer began it */
        bool ended;            /* with the outcome; false = it begins */
        struct engine_outcome outcome;
};

/* Records a transfer over HTTP, for engine_peers_page alone. Any thread. */
void engine_note_http(void *engine, const struct engine_http_note *note);

/* ---- cancelling ---- */

/*
 * Requests the end of a transfer: no further chunk is requested; ended(error = reason, a FERRY_E_*) follows when
 * nothing is in flight, within grace_ms. A transfer that completes meanwhile ends as complete. Unknown ids are ignored.
 * Never fails.
 */
void engine_transfer_cancel(void *engine, uint64_t id, int reason);

/*
 * Requests the end of every claim of a passive operation: the peers' further requests are refused with wire_reason, and
 * ended(error = reason) follows for each claim when nothing is in flight. Never fails.
 */
void engine_claims_revoke(void *engine, uint64_t operation, int reason, int wire_reason);

/* More bytes of a followed read have arrived: retries the held READs. Never fails. */
void engine_held_reads_retry(void *engine);

#endif
