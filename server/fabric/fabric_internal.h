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

#include "attempt.h"
#include "fabric/fabric.h"
#include "fabric_limits.h"
#include "mapping.h"
#include "message.h"
#include "peer.h"
#include "stream.h"
#include "transfer.h"
#include "wire.h"

/*
 * Everything here belongs to the thread that has the turn (turn.c), unless a field or function says otherwise: the
 * fabric's own, now and then another one. UCX calls back inside ucp_worker_progress, on the same thread; no UCX call
 * that can fail an endpoint is made from inside such a callback: failed peers are put on a list and closed by
 * peers_sweep.
 */

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

        atomic_bool leaving; /* fabric_leave was called. Any thread */

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
/* Whether the UCX that is loaded is older than 1.<minor>. Any thread. */
bool ucx_is_before(unsigned minor);
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

#endif
