/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_INTERNAL_H
#define FABRIC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <uthash.h>
#include <utlist.h>

#include <ferry/error.h>

#include "fabric/fabric.h"
#include "lease.h"
#include "mapping.h"
#include "stream.h"
#include "wire.h"

/*
 * Everything here belongs to the thread that has the turn (turn.c), unless a field or function says otherwise: the
 * fabric's own, now and then another one. UCX calls back inside ucp_worker_progress, on the same thread; no UCX call
 * that can fail an endpoint is made from inside such a callback: failed peers are put on a list and closed by
 * peers_sweep.
 */

enum {
        FABRIC_CHUNK_LOCAL = 1 << 20,
        FABRIC_CHUNK_NETWORK = 4 << 20,
        FABRIC_CHUNK_MIN = 64 << 10,
        /* Shorter runs of memory travel together in one chunk, as a list of pieces, which TCP moves without PUT. */
        FABRIC_GATHER_BELOW = 256 << 10,
        FABRIC_GATHER_SIZE = 2 << 20, /* bytes of such a chunk at most */
        /* … and of each part it travels in, where that is TCP: what fits into UCX's buffers with the headers. */
        FABRIC_PART_SIZE = 60 << 10,
        FABRIC_PART_PIECES = 15,      /* a message with more is packed first */
        FABRIC_PARTS_BYTES = 4 << 20, /* of one peer that UCX has at once */
        FABRIC_WINDOW_DEFAULT = 4,
        FABRIC_WINDOW_MAX = 64, /* chunks of one transfer in flight, whatever their size; a power of two */
        FABRIC_GRACE_MS = 2000,
        FABRIC_CONNECT_MS = 5000,
        FABRIC_CROWDED_US = 20,   /* another thread had the core for so long: sleep rather than look again */
        FABRIC_BLOCKED_US = 1000, /* a thread that may not sleep and moves nothing for so long … */
        FABRIC_BLOCKED_MS = 1,    /* … looks only this often */
        FABRIC_TICK_MS = 1000,
        FABRIC_IDLE_US = 60 * 1000 * 1000, /* an unused network endpoint is closed after this */
        /*
         * UCX cannot close an endpoint while the peer's queue of messages is full: it waits for room, also when the
         * peer is dead. So what goes to one local peer fits: its rendezvous wait for each other beyond so many bytes,
         * of which 8 KiB go into each of the queue's 1024 elements. The rest is for other senders and small messages.
         */
        FABRIC_LOCAL_BYTES = 3 << 20,
        FABRIC_LEND_MIN = 512,      /* shorter READs are answered by a message with the bytes */
        FABRIC_LEND_SEGMENTS = 4,   /* and those of more pieces of memory */
        FABRIC_PING_US = 100000,    /* our own queue carries a message to ourselves in so long, or is broken */
        FABRIC_RETRY_US = 1000000,  /* between attempts to open the local side anew, and to say where it is */
        FABRIC_ACCEPTED_MAX = 4096, /* endpoints that peers opened */
        /*
         * TCP receives into a buffer of so many bytes (UCX_TCP_RX_SEG_SIZE). What a PUT brings must be more, so that it
         * never lies in it whole.
         */
        FABRIC_PUT_ABOVE = 64 << 10,
        FABRIC_SETTLE_ROUNDS = 64, /* of progress after a forced close */
        FABRIC_EPITAPHS = 256,
        FABRIC_SOON_US = 1000, /* how often a peer is looked at that has to finish a piece */
};

struct side {
        struct fabric *fabric;
        const char *name; /* "local", "network" */
        ucp_context_h context;
        ucp_worker_h worker; /* NULL = the side is not open */
        ucp_listener_h listener;
        ucp_address_t *address; /* local side */
        size_t address_size;
        int event_fd;
        uint32_t chunk_size;
        bool put;                 /* network side: TCP moves bulk by PUT */
        bool in_progress;         /* network side: inside ucp_worker_progress, where nothing may be sent */
        struct message *deferred; /* utlist; what was to be sent meanwhile, in order */
        bool idle;                /* nothing came in the latest round of progress */
        /* local side, see local.c */
        bool suspect; /* a peer is gone that may have left our queue unusable */
        uint64_t ping, pong;
        bool unpublished;          /* its latest address is not in the presence file yet */
        uint64_t ping_deadline_us; /* of a ping under way, or when to try again what failed; 0 = neither */
};

/* An endpoint to another worker, and what moves over it. */
struct peer {
        struct side *side;
        ucp_ep_h endpoint;
        uint64_t epoch;                    /* local side: of the peer, its name in peers_by_epoch */
        char address[FABRIC_ADDRESS_SIZE]; /* network side, opened by us: name in peers_by_address; "" = the peer opened
                                              it */
        int pidfd;                         /* local side: readable when the peer is dead; else -1 */
        bool heard;                        /* a message came: the connection stands */
        uint64_t created_us, connect_us;   /* from its creation until it was heard */
        bool failed;                       /* not to be used any more; waits for peers_sweep or for its last transfer */
        bool dead;                         /* local side: its process has ended */
        bool closed;                       /* ucp_ep_close_nbx is over */
        void *closing;                     /* the request of that while it is not */
        bool swept;                        /* ucp_ep_close_nbx was called */
        bool quiet;                        /* its lanes are gone: what moved over it may end */
        bool reset_owed;                   /* local side: the peer has not been told that it failed here */
        bool moved;                        /* local side: it failed because the peer has another address now */
        uint64_t address_hash;             /* local side: of the UCX address that the endpoint goes to */
        int error;                         /* FERRY_E_* of the failure */
        char detail[96];
        char transport[FABRIC_TRANSPORT_SIZE]; /* "" = not asked yet */
        uint64_t last_used_us;
        uint64_t sending;         /* bytes of the queue's sends that UCX works on */
        struct message *queue;    /* utlist; sends that wait for those: local side, rendezvous; else, parts */
        bool pumping;             /* the queue is being worked on */
        struct message *receives; /* utlist; network side: rendezvous that came and wait for their turn */
        uint64_t receiving;       /* network side: bytes of posted receives */
        uint64_t asked;           /* bytes of chunks that the transfers have in flight together */
        struct transfer *hungry;  /* utlist; those that have more to ask for, in turn */
        bool ready;               /* in ready_peers: there may be room for what waits */
        struct peer *ready_prev, *ready_next;
        struct transfer *transfers; /* utlist */
        struct attempt *attempts;   /* utlist */
        UT_hash_handle by_endpoint, by_name;
        struct peer *prev, *next; /* all_peers */
};

enum message_act { MESSAGE_SEND, MESSAGE_REFUSE };

/* One send or receive that UCX works on, or will. Buffers stay valid until done ran. */
struct message {
        struct fabric *fabric;
        /* A receive's turn has come: UCX will touch the memory from now on. false = not wanted any more: refuse it, and
         * done does not run. */
        bool (*begin)(struct message *message);
        void (*done)(struct message *message, ucs_status_t status); /* then it is freed; NULL = nobody cares */
        void *owner;
        uint64_t transfer;
        uint64_t attempt; /* a WRITE's bytes: number of the attempt that they belong to */
        uint32_t seq;
        struct wire_header answer; /* a receive: what to send when it is done */
        uint8_t header[WIRE_SIZE];
        struct iovec *pieces; /* owned; NULL = contiguous */
        void *buffer;         /* owned: a payload that is nobody else's; or NULL */
        struct iovec piece;   /* the only one, where UCX must see a list */
        struct peer *peer;    /* it goes there, or comes from there */
        bool queued;          /* it waits, or has waited, in the peer's queue */
        bool counted;         /* in the peer's sending if it was queued, else in its receiving */
        enum message_act act; /* while it is deferred */
        bool eager;           /* the payload travels inside the message, however long it is */
        void *descriptor;     /* a receive: UCX's */
        void *address;
        uint64_t length;
        struct message *prev, *next; /* a queue; free list */
};

enum chunk_state { CHUNK_FREE, CHUNK_ASKED, CHUNK_MOVING };

struct chunk {
        enum chunk_state state;
        bool owned; /* UCX may touch the memory: a posted receive, or a send that is not done */
        bool acked; /* WRITE: the peer's ACK came */
        uint32_t seq;
        uint32_t sends; /* WRITE: messages that are not done, and one while they are being made */
        uint64_t offset, length;
        uint64_t arrived;  /* READ: bytes that came in parts, from the start on */
        uint64_t checksum; /* READ with verify: what the peer says */
};

/* Where a peer can be found. */
struct way {
        uint64_t epoch;
        char data[FABRIC_ADDRESS_SIZE];  /* host:port of its network side; "" = it has none */
        struct sockaddr_storage address; /* the same, resolved; ss_family 0 = none */
        socklen_t address_length;
};

/* The active side of one operation. */
struct transfer {
        struct fabric_transfer spec;
        struct way way; /* has spec.peer_data */
        struct fabric *fabric;
        struct peer *peer; /* NULL = not connected */
        bool cold;         /* the peer had not been heard when the transfer came to it */
        struct stream stream;
        uint64_t next;        /* everything before was asked for */
        uint64_t done;        /* bytes moved and checked */
        uint64_t in_flight;   /* bytes asked for and not done */
        unsigned outstanding; /* chunks not free */
        unsigned owned;       /* chunks that UCX may touch */
        uint32_t generation;  /* of the next chunk's seq */
        bool started;
        bool finishing;    /* DONE was sent; DONE_ACK decides */
        bool committed;    /* the passive side is complete and said so */
        bool attaching;    /* ATTACH was sent, GRANT is awaited */
        bool mapped;       /* bytes were copied under a lease */
        bool unmapped;     /* the peer's memory cannot be mapped */
        struct copy *copy; /* direct.c; NULL = messages carry the bytes */
        int error;         /* 0, or why it is being ended */
        char detail[128];
        uint64_t connect_deadline_us; /* the peer must have been heard by then */
        uint64_t grace_deadline_us;   /* 0 = none */
        struct chunk chunks[FABRIC_WINDOW_MAX];
        UT_hash_handle hh; /* transfers_by_id */
        bool hungry;       /* in the peer's list */
        struct transfer *hungry_prev, *hungry_next;
        struct transfer *peer_prev, *peer_next;
};

/* The passive side of one transfer: a claim of an operation. */
struct attempt {
        struct fabric *fabric;
        struct peer *peer;
        uint64_t number; /* of this fabric's attempts; no other has it, whatever the peer says */
        uint64_t transfer, operation, peer_epoch;
        enum fabric_direction direction;
        uint8_t key[FERRY_KEY_SIZE];
        struct fabric_offer offer;
        struct stream stream;
        struct lease lease; /* the peer copies by itself; or none */
        bool by_message;    /* bytes came or went by messages */
        uint64_t bytes;     /* moved, as far as this side knows */
        unsigned in_flight; /* sends and receives that UCX works on */
        bool final_served;  /* the whole transfer was answered by one eager message; DONE is on its way */
        bool peer_done;     /* DONE came; the attempt ends when nothing is in flight */
        bool ack_wanted;
        int error;      /* why it is being ended */
        int wire_error; /* what the peer is told */
        char detail[128];
        uint64_t grace_deadline_us;
        UT_hash_handle hh; /* attempts_by_transfer */
        struct attempt *peer_prev, *peer_next;
};

/* What a late message of an ended attempt is answered. */
struct epitaph {
        uint64_t transfer;
        int wire_error;
};

enum command_type {
        COMMAND_START,
        COMMAND_CONNECT,
        COMMAND_CANCEL,
        COMMAND_REVOKE,
        COMMAND_REGISTER,
        COMMAND_UNREGISTER,
        COMMAND_STOP,
};

struct command {
        enum command_type type;
        struct transfer *transfer; /* START: owned by the thread from then on */
        struct connect *connect;   /* CONNECT: owned by the thread from then on */
        uint64_t id;               /* CANCEL: transfer, REVOKE: operation */
        int reason, wire_reason;
        struct fabric_memory *memory; /* REGISTER, UNREGISTER: the caller waits */
        struct command_reply *reply;
        struct command *next;
};

/* A caller that waits for a command; lock is the fabric's command lock. */
struct command_reply {
        bool ready;
        int result;
};

struct fabric_memory {
        void *address;
        size_t size;
        uint64_t file;        /* the region whose file it is; 0 = none */
        bool lent;            /* a peer may have mapped that */
        ucp_mem_h handles[2]; /* by side; NULL = the side is not open */
};

enum { SIDE_LOCAL, SIDE_NETWORK, SIDE_COUNT };

struct fabric {
        uint64_t epoch;
        uint32_t window;
        uint64_t spin_us; /* how long the thread looks for more, after something moved, before it sleeps */
        uint64_t grace_us, connect_us;
        struct fabric_operations operations;
        struct fabric_facts facts;
        const char **transports; /* owned; facts points here */
        void *local_address;     /* owned; facts points here */
        int (*local_moved)(void *context, const void *address, size_t size);
        void *local_context;

        struct side sides[SIDE_COUNT];
        int epoll_fd;
        pthread_t thread;

        /* Guarded by command_lock; any thread. wake_fd is an eventfd. */
        pthread_mutex_t command_lock;
        pthread_cond_t command_done;
        struct command *commands, *commands_last;
        bool closed; /* no more commands: the thread is ending or has ended */
        atomic_bool commands_waiting;
        atomic_bool commands_told; /* wake_fd was written for some of them */
        int wake_fd;

        pthread_mutex_t turn;    /* of who runs the data plane; guards all that follows. Before every other lock */
        bool listening;          /* epoll_fd tells of messages, once the sides are armed */
        bool ended;              /* the fabric's thread has left for good */
        uint64_t sleep_until_us; /* of the fabric's thread; 0 = it does not sleep, UINT64_MAX = until an event */
        uint64_t woke_us;        /* when it did last */
        atomic_uint guest_skips; /* so many transfers are not run by a guest. Any thread */

        bool stopping;       /* a STOP was taken: nothing new */
        bool unsettled;      /* something ended in this pass */
        uint64_t tick_us;    /* when deadlines are looked at next */
        uint64_t traffic_us; /* when something moved last */
        uint64_t bulk_us;    /* when a rendezvous was begun last */
        bool crowded;        /* another thread wants the core that looks again without sleeping */
        struct peer *all_peers;
        struct peer *peers_by_endpoint, *peers_by_epoch, *peers_by_address;
        struct peer *ready_peers; /* utlist */
        bool sweep_wanted;
        size_t accepted;
        struct transfer *transfers_by_id;
        struct connect *connects; /* utlist */
        struct attempt *attempts_by_transfer;
        uint64_t n_attempts; /* so far */
        struct epitaph epitaphs[FABRIC_EPITAPHS];
        size_t epitaph_next;
        struct message *free_messages;
        struct mappings mappings; /* of other workers' files */
        struct copy *copies;      /* utlist: those that have more to copy, in turn */
        size_t n_copies;          /* with those that wait for DONE_ACK */
        struct leases *leases;    /* of our memory; NULL = none was needed yet */

        struct metric *metric_peers[SIDE_COUNT], *metric_failures, *metric_refused;
};

/* ---- thread.c ---- */

int thread_start(struct fabric *fabric);
/* Has it look at everything. Any thread. */
void thread_wake(struct fabric *fabric);
/* Does what is to be done now. Whether anything moved. */
bool thread_pass(struct fabric *fabric, uint64_t *ret_now_us);
bool thread_is_moving(const struct fabric *fabric);
/* Until when nothing has to be looked at, if no event comes; UINT64_MAX = for ever. */
uint64_t thread_sleep_until(const struct fabric *fabric, uint64_t now_us);
/* Withdraws memory from every side. Who has the turn, or any one after the thread has ended. */
void memory_release(struct fabric *fabric, struct fabric_memory *memory);
/* The deadline of something that is being ended now. */
uint64_t thread_grace(struct fabric *fabric);
/* Deadlines and attempts are looked at again soon. */
void thread_look_soon(struct fabric *fabric);
/* Watches or forgets a file descriptor whose readability means "look at the peers". */
int thread_watch(struct fabric *fabric, int fd);
/* The same for a side's, which turn_arm turns on. */
int thread_watch_side(struct fabric *fabric, const struct side *side);
void thread_unwatch(struct fabric *fabric, int fd);

/* ---- command.c ---- */

/* Queues a command (handed over) and wakes the thread. -ESHUTDOWN when it is stopping; then the command is freed. Any
 * thread. */
int command_post(struct fabric *fabric, const struct command *command);
/* The same without waking it: the caller takes the turn, or wakes it. */
int command_post_unheard(struct fabric *fabric, const struct command *command);
/* Queues it, wakes the thread, waits for the result. Any thread that has not the turn. */
int command_call(struct fabric *fabric, const struct command *command);
/* Whether there were any. */
bool commands_run(struct fabric *fabric);

/* ---- turn.c ---- */

/* Any thread. */
void turn_take(struct fabric *fabric);
void turn_leave(struct fabric *fabric);
/* true when every side is armed and its event descriptor will tell of whatever comes now. */
bool turn_arm(struct fabric *fabric);
/* Posts a START whose caller waits for the end; runs it on this thread, for a moment, when the turn is to be had. As
 * command_post. Any thread that has not the turn and holds no lock. */
int turn_start(struct fabric *fabric, const struct command *command);

/* ---- side.c ---- */

/* Opens a side as the configuration says; -errno with a logged reason. Before the thread starts. */
int side_open(struct side *side, const struct fabric_config *config);
void side_close(struct side *side);
/* Gives the local side another UCX worker, and so another queue. *ret_old is for side_discard. -errno. */
int side_reopen(struct side *side, struct side *ret_old);
/* Destroys what side_reopen replaced. Callbacks of its requests run. */
void side_discard(struct side *old);
int side_register(struct side *side, void *address, size_t size, ucp_mem_h *ret_handle);
/* Appends the names of the UCX transports that this side can use to names (n_max of them). Returns the new count. */
size_t side_transports(const struct side *side, char **names, size_t n, size_t n_max);

/* ---- ucx_log.c ---- */

/* Routes UCX's log through ours and takes its handlers of fatal signals away. Once a process; any thread. */
void ucx_log_setup(void);

/* ---- peer.c ---- */

/* The local peer of an epoch, connected when needed. NULL with *ret_error: -errno of presence_lookup, or of UCX. */
struct peer *peer_local(struct fabric *fabric, uint64_t epoch, int *ret_error);
/* The network peer at an address; text names it. */
struct peer *peer_network(struct fabric *fabric, const char *text, const struct sockaddr *address, socklen_t length,
                          int *ret_error);
/* The peer that a message came from; NULL when it is not known (any more) or cannot be reached. */
struct peer *peer_of_message(struct side *side, ucp_ep_h reply, const struct wire_header *header);
/* A peer asks for a connection on the network side. */
void peer_accept(ucp_conn_request_h request, void *side);
/* A message came over the endpoint. */
void peer_was_heard(struct peer *peer);
/* Marks the peer as failed; peers_sweep does the rest. Safe inside UCX callbacks. The first reason counts. */
void peer_fail(struct peer *peer, int error, const char *detail);

/*
 * A local worker says, over the endpoint reply, that it closed its earlier one to us by force: ours leads nowhere any
 * more, unless it is that one. NULL = not known.
 */
void peer_was_reset(struct fabric *fabric, uint64_t epoch, ucp_ep_h reply);
/* Closes what failed and ends what moved over it. Not inside UCX callbacks. */
void peers_sweep(struct fabric *fabric);
/* Fails local peers whose process is dead. */
void peers_check_processes(struct fabric *fabric);
/* Closes network endpoints that we opened and have not used for long. */
void peers_close_idle(struct fabric *fabric, uint64_t now_us);
/* Whether what moves over the peer must wait with its end, because a failed endpoint's lanes may still bring bytes. */
bool peer_is_settling(const struct peer *peer);
/* Fails local peers that were never heard and have opened their side anew since we connected. */
void peers_check_moved(struct fabric *fabric);
/* Tells a local worker that whatever it has open to us leads nowhere. */
void peer_send_reset(struct fabric *fabric, struct peer *peer);
/* Ends what UCX has not let go of. After the UCX worker of these failed peers was destroyed. */
void peers_abandon(struct fabric *fabric);
/* A transfer or attempt has left the peer. */
void peer_released(struct peer *peer);
/* Closes everything, giving messages under way until the deadline. */
void peers_close_all(struct fabric *fabric, uint64_t deadline_us);
/* After the UCX workers are gone, and with them the last callback. */
void peers_free_all(struct fabric *fabric);
bool peer_is_local(const struct peer *peer);
/* Local side: whether its process has ended. */
bool peer_is_dead(struct peer *peer);
/* The UCX transport that carries bulk over the endpoint: "posix", "tcp", … */
const char *peer_transport(struct peer *peer);
/* Whether one receive at a time is posted for it: bulk comes by TCP, and so perhaps by PUT. Network side. */
bool peer_is_serial(struct peer *peer);
/* Whether pieces go to it in parts that travel inside messages. */
bool peer_takes_parts(struct peer *peer);

/* ---- local.c ---- */

/* Finds out whether our queue still works after a peer is gone, and opens the local side anew if not. */
void local_check(struct fabric *fabric, uint64_t now_us);

/* ---- message.c ---- */

struct message *message_new(struct fabric *fabric);
void message_free(struct message *message);
void messages_clear(struct fabric *fabric);
/*
 * Sends header and a payload out of the message's pieces or of address. done runs exactly once, perhaps before this
 * returns. Takes the message over.
 */
void message_send(struct peer *peer, struct message *message, const struct wire_header *header, void *address,
                  uint64_t length);
/* Sends a header alone; nobody waits for it. */
void message_send_header(struct peer *peer, const struct wire_header *header);
/* Lets a rendezvous payload come into the message's pieces or to address, after begin, when it is its turn. */
void message_receive(struct peer *peer, struct message *message, void *descriptor, void *address, uint64_t length);
/* For queue.c: UCX gets the message; it ended, done runs. */
void message_send_now(struct message *message);
void message_receive_now(struct message *message);
void message_done(struct message *message, ucs_status_t status);
/* UCX's callback for every active message of a side. */
ucs_status_t message_arrived(void *side, const void *header, size_t header_length, void *data, size_t length,
                             const ucp_am_recv_param_t *param);

/* ---- queue.c: what waits before UCX gets it ---- */

/* Bytes that one message to the peer may carry at most. */
uint32_t message_limit(const struct peer *peer);
void queue_send(struct message *message);
void queue_receive(struct message *message);
/* Refuses a rendezvous as soon as that may be. false: it may be now, or memory is short. */
bool queue_refuse(struct side *side, void *descriptor);
/* UCX is done with a message that was counted. */
void queue_done(struct message *message);
/* There may be room on the local side. */
void queue_pump(struct peer *peer);
/* There may be room for the peer's receives or its transfers' chunks: queue_flush will see. */
void peer_ready(struct peer *peer);
/* Does what had to wait. Not inside UCX callbacks. Whether there was anything. */
bool queue_flush(struct fabric *fabric);
/* The endpoint is closed: what waits to be sent over it fails, what waits to be received is refused. */
void queue_drop(struct peer *peer);
/* ucp_worker_progress, within which sends are deferred. Every call goes through here. */
unsigned side_progress(struct side *side);

/* The payload of a message that arrived. */
struct payload {
        void *data; /* bytes, or UCX's descriptor when rendezvous is set */
        uint64_t length;
        bool rendezvous;
};

/* ---- connect.c ---- */

/* Resolves data, which may be NULL, and may take the resolver's time: any thread but the fabric's. */
void way_init(struct way *way, uint64_t epoch, const char *data);
/* The peer: by the local side, else by the network side. NULL with the reason as a sentence. */
struct peer *way_take(struct fabric *fabric, const struct way *way, char *reason, size_t reason_size);

int connect_new(struct fabric *fabric, const struct fabric_connect *spec, struct connect **ret_connect);
void connect_free(struct connect *connect);
/* Connects and greets, or ends it. */
void connect_run(struct fabric *fabric, struct connect *connect);
/* Ends all: the fabric is stopping. */
void connects_cancel(struct fabric *fabric);
/* Whether somebody waits for the peer's HELLO_ACK. */
bool connects_use(const struct peer *peer);
/* The peer is closed: no answer will come. */
void connects_lost(struct peer *peer);
/* Ends those that are late. Returns the next deadline; UINT64_MAX = none. */
uint64_t connects_tick(struct fabric *fabric, uint64_t now_us);
void connect_on_hello(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
void connect_on_hello_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header);

/* ---- transfer.c: the active side ---- */

int transfer_new(struct fabric *fabric, const struct fabric_transfer *spec, struct transfer **ret_transfer);
void transfer_free(struct transfer *transfer);
/* Connects and asks for the first chunks, or ends it. */
void transfer_run(struct fabric *fabric, struct transfer *transfer);
void transfer_cancel(struct transfer *transfer, int reason, const char *detail);
/* The peer is closed: nothing more will come. */
void transfer_lost(struct transfer *transfer, int error, const char *detail);
/* The same, and UCX has forgotten it: its callbacks will not run. */
void transfer_abandon(struct transfer *transfer, int error, const char *detail);
void transfer_tick(struct transfer *transfer, uint64_t now_us);
void transfer_on_done_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header);

/* The header of a message about the transfer. */
struct wire_header transfer_header(const struct transfer *transfer, enum wire_type type);
/* The transfer that an answer belongs to; NULL when it is over, or the answer comes from somebody else. */
struct transfer *transfer_of_answer(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
/* Connected, and the first chunk is asked for: tells once. */
void transfer_note_started(struct transfer *transfer);
/* The same where the connection stands: the first chunk is asked for now. */
void transfer_note_asked(struct transfer *transfer);
/* Ends a transfer whose end is decided as soon as it is quiet, and tells the peer. It may be gone afterwards. */
void transfer_end_when_quiet(struct transfer *transfer);
/* Notes why the transfer has to end; the first reason counts. The transfer may be gone afterwards. */
void transfer_fail(struct transfer *transfer, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with the reason that the peer's answer gives. */
void transfer_refused(struct transfer *transfer, const struct wire_header *header);

/* ---- chunk.c: the active side's window ---- */

/* Asks for as much as the window allows, then for the end. The transfer may be gone afterwards. */
void chunks_pump(struct transfer *transfer);
/* Whether a READ's chunk of that name was asked for and nothing of it has come. */
bool chunk_is_asked(struct transfer *transfer, uint32_t seq);
/* Its bytes are in place, and those were all. The transfer is gone afterwards. */
void chunk_borrowed(struct transfer *transfer, uint32_t seq);
/* Asks once more, for a message with the bytes. The transfer may be gone afterwards. */
void chunk_ask_again(struct transfer *transfer, uint32_t seq);
/* The peer's transfers ask in turn, while the window that they share has room. Not inside UCX callbacks. */
void chunks_serve(struct peer *peer);
/* The transfer leaves the peer: it holds nothing of the window any more. */
void chunks_leave(struct transfer *transfer);
/* Frees the chunks that UCX does not touch: the data of a READ that was only asked for are refused when they come. */
void chunks_drop_asked(struct transfer *transfer);
/* UCS_INPROGRESS when the payload's descriptor was taken over, else UCS_OK. */
ucs_status_t transfer_on_data(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                              const struct payload *payload);
void transfer_on_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header);

/* ---- serve.c: the passive side's bytes ---- */

ucs_status_t attempt_on_read(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
ucs_status_t attempt_on_write(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                              const struct payload *payload);

/* ---- attempt.c: the passive side ---- */

/* Notes why the attempt has to end; the first reason counts, and none counts after the peer's DONE. */
void attempt_note_error(struct attempt *attempt, int error, int wire_error, const char *detail);
/* The same, and ends it when it is quiet; it may be gone afterwards. */
void attempt_fail(struct attempt *attempt, int error, int wire_error, const char *detail);
void attempt_on_done(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
void attempt_revoke(struct attempt *attempt, int reason, int wire_reason, const char *detail);
void attempt_lost(struct attempt *attempt, int error, const char *detail);
/* The same, and UCX has forgotten it: its callbacks will not run. */
void attempt_abandon(struct attempt *attempt, int error, const char *detail);
void attempt_tick(struct attempt *attempt, uint64_t now_us);
/* The last of the process: whatever still holds the attempt up is left behind. */
void attempt_forsake(struct attempt *attempt);

/* The attempt that a request belongs to, claimed when it is the first of its transfer. 0, or the FERRY_E_* to answer.
 */
int attempt_of_request(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                       struct attempt **ret_attempt);
struct wire_header attempt_answer(const struct fabric *fabric, const struct wire_header *request, enum wire_type type,
                                  int status);
void attempt_refuse(struct fabric *fabric, struct peer *peer, const struct wire_header *request, enum wire_type type,
                    int status);
/* Ends the attempt when its end is decided and nobody touches the memory any more. It may be gone afterwards. */
void attempt_end_when_quiet(struct attempt *attempt);

/* ---- direct.c and grant.c: bulk on one host ---- */

/* What a GRANT carries, in the byte order of the host, which it never leaves. */
struct grant_extent {
        uint64_t file, offset, size;
};

struct grant {
        uint64_t slot, lease; /* lease.h */
        uint64_t n;
        struct grant_extent extents[];
};

enum {
        GRANT_EXTENTS_MAX = 1 << 20,
        GRANT_SIZE_MAX = sizeof(struct grant) + GRANT_EXTENTS_MAX * sizeof(struct grant_extent),
};

/* Whether we could copy a short READ's bytes ourselves. */
bool direct_may_borrow(const struct transfer *transfer);
/* Asks the peer to let us copy. false: that is not for this transfer. */
bool direct_attach(struct transfer *transfer);
/* As transfer_on_data. */
ucs_status_t direct_on_grant(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                             const struct payload *payload);
/* Copies one piece of one transfer. false: there is nothing to copy. */
bool direct_pump(struct fabric *fabric);
/* The transfer copies no more. */
void direct_end(struct transfer *transfer);

/* Answers a short READ by a GRANT. false: it has to be DATA. */
bool attempt_lend(struct attempt *attempt, const struct wire_header *header);
void attempt_on_attach(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
void attempt_on_progress(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
/* Takes the lease back. Whether the peer has let go; if not, the attempt is looked at again. */
bool attempt_lease_is_quiet(struct attempt *attempt);
/* The memory's file is going: tells the peers that may have mapped it. */
void memory_forget(struct fabric *fabric, const struct fabric_memory *memory);

#endif
