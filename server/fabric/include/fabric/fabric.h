/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>

struct metrics;

/*
 * The data plane: UCX active messages, pulled or pushed in chunks by the active side (PROTOCOL.md).
 *
 * One thread at a time makes UCX calls: the fabric's, or for a moment one that waits for a short transfer which it has
 * started (awaited, below). The functions below may be called from any other thread; they queue a command and wake the
 * fabric's. Callbacks run on the thread whose turn it is, with no lock of the caller's held, and must not block; they
 * may call fabric_transfer_start, fabric_transfer_cancel and fabric_offer_revoke.
 */

struct fabric;
struct fabric_memory;

/* A piece of registered memory. */
struct fabric_segment {
        uint8_t *address;
        size_t size; /* never 0 */
        struct fabric_memory *memory;
};

enum fabric_direction {
        FABRIC_READ,  /* the active side takes bytes from the passive side */
        FABRIC_WRITE, /* the active side puts bytes into the passive side */
};

enum { FABRIC_TRANSPORT_SIZE = 32, FABRIC_ADDRESS_SIZE = 280, FABRIC_SPIN_DEFAULT_US = 500 };

/* The transport of bytes that the active side copied out of or into the passive side's mapped memory. */
#define FABRIC_MAPPED "shm"

/* How an attempt to move bytes ended. */
struct fabric_outcome {
        int error;      /* 0 = every byte moved and both sides know; else FERRY_E_* */
        uint64_t bytes; /* moved */
        /* What carried the bytes: FABRIC_MAPPED, or by UCX's name "posix", "tcp", "rc_verbs", …; "" = none did. */
        char transport[FABRIC_TRANSPORT_SIZE];
        char detail[128];    /* for people; may be "" */
        uint64_t connect_us; /* of the active side: from the endpoint's creation to the peer's first message; 0 = it was
                                there already, or the peer was never heard */
};

/* ---- passive side: what the fabric asks of the operations ---- */

/* A peer's first request of one transfer. */
struct fabric_request {
        uint64_t operation;
        uint64_t transfer; /* drawn at random by the active side; one claim has one */
        enum fabric_direction direction;
        uint64_t total; /* bytes that the active side means to move */
        uint8_t key[FERRY_KEY_SIZE];
};

/* What the operation grants for one transfer. */
struct fabric_offer {
        const struct fabric_segment *segments; /* stay valid, memory too, until offer_ended */
        size_t n_segments;
        uint64_t total;
        void (*progress)(void *context, uint64_t bytes); /* bytes moved so far by this transfer; cheap, often called */
        void *context;                                   /* for progress and ended */
        /*
         * The transfer is over and quiet: no byte will be read or written by it. Exactly once for each claim. The peer
         * may be waiting for our answer to that: what can wait is for settle.
         */
        void (*ended)(void *context, const struct fabric_outcome *outcome);
};

struct fabric_operations {
        /*
         * Checks key, direction, total and state; claims. 0 with *ret_offer, or the FERRY_E_* that the peer is told:
         * STALE_METADATA (no such operation), PEER_REFUSED (wrong key), KIND_MISMATCH, SIZE_MISMATCH, ALREADY_CLAIMED,
         * EXPIRED, CANCELLED_BY_PEER (it was cancelled), …
         */
        int (*claim)(void *context, const struct fabric_request *request, struct fabric_offer *ret_offer);
        /*
         * Transfers of either side have ended since the last call, and the messages that say so are on their way: time
         * to wake whoever waits here, which may take this core away. May be NULL.
         */
        void (*settle)(void *context);
        void *context;
};

/* ---- set-up ---- */

struct fabric_config {
        uint64_t epoch;
        bool local;              /* shared-memory side for peers on this machine */
        const char *data_listen; /* "HOST:PORT" of the network side; NULL = off */
        const char *transports;  /* of the network side, as UCX_TLS; NULL = all but shared memory */
        const char *interfaces;  /* of the network side, as UCX_NET_DEVICES; NULL = all */
        uint32_t chunk_size;     /* bytes of one rendezvous; 0 = each side's default */
        uint32_t window;         /* chunks in flight to one peer; 0 = default */
        uint32_t spin_us; /* how long the thread looks for more, after something moved, before it sleeps; 0 = default */
        uint32_t grace_ms; /* how long a cancel waits for bytes in flight before it closes the endpoint; 0 = default */
        uint32_t connect_ms; /* how long a first answer may take; 0 = default */
        struct fabric_operations operations;
        /*
         * The local side was opened anew (a peer died and left it unusable), so facts.local_address is not the one to
         * publish any more. 0; -errno: it could not be published, and is to be asked again. May be NULL.
         */
        int (*local_moved)(void *context, const void *address, size_t size);
        void *local_context;
        struct metrics *metrics; /* may be NULL */
};

/* What UCX can do here; fixed after fabric_new. */
struct fabric_facts {
        char ucx_version[32];
        uint64_t memory_types; /* UCS_BIT(UCS_MEMORY_TYPE_*) of ucp_context_query */
        bool cuda;
        char data_address[FABRIC_ADDRESS_SIZE]; /* bound "host:port" of the network side; "" = off */
        const void *local_address;              /* UCX worker address for base/presence.h; NULL = no local side. See
                                                   local_moved */
        size_t local_address_size;
        size_t n_transports; /* names of UCX transports usable by either side, without duplicates */
        const char *const *transports;
};

/*
 * Starts the thread, opens the sides. 0 with *ret_fabric; -EADDRINUSE, -EADDRNOTAVAIL, -EINVAL (data_listen,
 * transports, interfaces), -ENODEV (UCX has no such transport), other -errno. The reason is logged.
 */
int fabric_new(const struct fabric_config *config, struct fabric **ret_fabric);

/* Its process is about to end: a peer whose connection is closed by force learns that from the process. Any thread. */
void fabric_leave(struct fabric *fabric);

/*
 * Ends every transfer, claim and connect (their callbacks run), closes the endpoints (flushing at most grace_ms), ends
 * the thread. Afterwards only fabric_get_facts, fabric_memory_unregister and fabric_free may be called. Not from a
 * callback.
 */
void fabric_stop(struct fabric *fabric);

/* Stops if need be, and frees. All memory must have been unregistered. Takes NULL; returns NULL. */
struct fabric *fabric_free(struct fabric *fabric);

const struct fabric_facts *fabric_get_facts(const struct fabric *fabric);

/*
 * Registers memory with every side. file: the region whose file (presence_region_path of this epoch) the memory is, so
 * that peers on this host may map it; 0 = none. Waits for the fabric's thread, so not from a callback. 0 or -errno.
 */
int fabric_memory_register(struct fabric *fabric, void *address, size_t size, uint64_t file,
                           struct fabric_memory **ret_memory);
void fabric_memory_unregister(struct fabric *fabric, struct fabric_memory *memory);

/* ---- active side ---- */

struct fabric_transfer {
        uint64_t id; /* random, not 0, of this worker; names the transfer in fabric_transfer_cancel */
        enum fabric_direction direction;
        uint64_t peer_epoch;
        const char *peer_data; /* "host:port" of the peer's network side; "" = it has none. Copied */
        uint64_t remote_operation;
        uint8_t key[FERRY_KEY_SIZE];
        const struct fabric_segment *segments; /* stay valid, memory too, until ended */
        size_t n_segments;
        uint64_t total;
        bool verify; /* checksum of every chunk */
        /*
         * The caller has nothing else to do until the end, and holds no lock: a short transfer, and whatever else
         * comes, may run on its thread before fabric_transfer_start returns, for a fifth of spin_us. Not from a
         * callback.
         */
        bool awaited;

        void *context;
        void (*started)(void *context); /* connected and the first chunk asked for; before any progress; at most once */
        void (*progress)(void *context, uint64_t bytes);
        /* Over and quiet. Exactly once for every successful fabric_transfer_start. */
        void (*ended)(void *context, const struct fabric_outcome *outcome);
};

/*
 * Starts a transfer: by the local side when the peer's presence file can be opened, else by the network side.
 * *transfer is copied. 0 or -errno (-ESHUTDOWN, -ENOMEM); all other faults come through ended.
 */
int fabric_transfer_start(struct fabric *fabric, const struct fabric_transfer *transfer);

/* How a fabric_connect ended. */
struct fabric_connection {
        int error; /* 0; PEER_UNREACHABLE; STALE_METADATA (another worker is there); CANCELLED (this one is stopping) */
        char transport[FABRIC_TRANSPORT_SIZE]; /* what bytes will go over */
        uint64_t connect_us;                   /* as in struct fabric_outcome; 0 = reused */
        bool reused;                           /* the endpoint was there already */
        char detail[128];                      /* for people; may be "" */
};

struct fabric_connect {
        uint64_t peer_epoch;
        const char *peer_data; /* as in struct fabric_transfer. Copied */
        void *context;
        /* Exactly once for every successful fabric_connect, within the connect time. */
        void (*connected)(void *context, const struct fabric_connection *connection);
};

/*
 * Connects to a peer by the way that a transfer would take, and makes sure of it by a message there and back. The
 * endpoint stays for transfers to come: a local one as long as both workers live, one of the network side until it was
 * not used for a minute. *spec is copied. 0 or -errno (-ESHUTDOWN, -ENOMEM); all other faults come through connected.
 */
int fabric_connect(struct fabric *fabric, const struct fabric_connect *spec);

/*
 * Asks for the end of a transfer: no further chunk is asked for; ended(error = reason, a FERRY_E_*) follows when
 * nothing is in flight, within grace_ms. A transfer that completes meanwhile ends as complete. Unknown ids are ignored.
 */
void fabric_transfer_cancel(struct fabric *fabric, uint64_t id, int reason);

/*
 * The same for every claim of a passive operation: the peers' further requests are refused with wire_reason, and
 * ended(error = reason) follows for each claim when nothing is in flight.
 */
void fabric_offer_revoke(struct fabric *fabric, uint64_t operation, int reason, int wire_reason);

#endif
