/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_WORKER_H
#define FERRY_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include <ferry/error.h>
#include <ferry/status.h>

/*
 * libferry-worker: a Ferry worker inside your own process
 *
 * The program offers its own memory, or memory that the worker allocates, starts transfers and learns of their ends
 * without HTTP. With a listener, REST serves the same regions and operations. ferryd is this library and a main().
 *
 * Where to begin. ferry_worker_new() starts a worker; ferry_worker_region_alloc() or ferry_worker_region_add() gives it
 * memory. ferry_worker_request_new(), ferry_worker_request_add() and ferry_worker_request_set() describe an operation,
 * and ferry_worker_operation_create() creates it. ferry_worker_operation_metadata() of an offer goes to a peer, over
 * any channel, whose ferry_worker_operation_create() takes it as remote and moves the bytes.
 * ferry_worker_operation_wait() waits for the end; a program with an event loop uses ferry_worker_queue_new().
 *
 * Errors. Functions that return int return 0, a positive FERRY_E_* (the caller's or the peer's fault, ferry/error.h) or
 * -errno (ours or the system's). ferry_worker_error() has a sentence. Outputs are set only on success. Each function
 * lists its own errors; beside those, any function that takes a worker, or something made by one, returns -ECHILD in a
 * process that was forked after the worker was made, and does nothing there.
 *
 * Threads. Every function may be called from any thread, and several at once, unless it says otherwise. The worker has
 * threads of its own, which block all signals. A callback runs on one of them, or on a thread that is inside a function
 * of this library; it must return within microseconds, because transfers wait for it, and must not call a function that
 * is marked "not from a callback".
 *
 * Ownership. The caller owns the result of a _new or _create function until the matching _free, which accepts NULL,
 * returns NULL, and may be called after ferry_worker_free. The library copies the strings and arrays that it is given,
 * but not the memory of ferry_worker_region_add.
 *
 * Fork. A worker belongs to the process that made it; a forked child may make one of its own, with "data-listen" only
 * where the parent had no worker with it. The child closes what would keep peers from noticing the parent's death, or
 * others from listening where the parent did. Programs that the process starts inherit no descriptor of a worker.
 */

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* One started worker. */
struct ferry_worker;
/* The options of a worker, set before its start. One thread at a time. */
struct ferry_worker_options;
/* The description of an operation to create. Can serve several operations. One thread at a time. */
struct ferry_worker_request;
/* A handle of one operation. Freeing it does not end the operation. */
struct ferry_worker_operation;
/* Reports ended operations through a file descriptor, for programs with an event loop. */
struct ferry_worker_queue;
/* Reports what happens in a worker in the same way. */
struct ferry_worker_events;

/* Returns the version of the library: "0.1.0". */
const char *ferry_worker_version(void);

/*
 * Returns a sentence about the last function of this library that failed on this thread; "" when none has. Valid until
 * the next call on this thread.
 */
const char *ferry_worker_error(void);

/*
 * Sets the level and the destination of the log. level is "error", "warn" (the default), "info" or "debug"; NULL keeps
 * the present one. sink gets one line, without a newline, in the format of ferryd --log-format logfmt; NULL = standard
 * error. It may be called from several threads at once, also while this function changes it, and must not call this
 * library. All workers of the process share the log.
 * Errors: -EINVAL: no such level.
 */
int ferry_worker_log(const char *level, void (*sink)(void *context, const char *level, const char *line),
                     void *context);

/* ---- options ---- */

/*
 * Makes options with the defaults of ferryd, except that the worker serves no HTTP. Returns NULL when memory is short.
 */
struct ferry_worker_options *ferry_worker_options_new(void);

/*
 * Sets the option that ferryd --help names --NAME, in the text that --NAME takes there: ("listen", "127.0.0.1:0"),
 * ("local", "/run/ferry"), ("memory-limit", "4G"), ("no-auth", "true"). Lists ("listen", "allow-peer", …) add up.
 * Errors: FERRY_E_INVALID_PARAMETER: no such option of a worker, or not a value of it; -ENOMEM.
 */
int ferry_worker_options_set(struct ferry_worker_options *options, const char *name, const char *value);

/*
 * Sets what the environment has: FERRY_LISTEN, FERRY_LOCAL, FERRY_DATA_LISTEN, … as of ferryd. Not while another thread
 * changes the environment.
 * Errors: FERRY_E_INVALID_PARAMETER; -ENOMEM.
 */
int ferry_worker_options_environment(struct ferry_worker_options *options);

/* Frees options. Takes NULL; returns NULL. */
struct ferry_worker_options *ferry_worker_options_free(struct ferry_worker_options *options);

/* ---- the worker ---- */

/*
 * Starts a worker; options NULL = ferry_worker_options_new's.
 * Errors: FERRY_E_INVALID_PARAMETER: options that do not go together, an address, file or directory that cannot be
 * used; -EADDRINUSE; -EACCES and -ENOENT: a file that an option names; -ENOMEM; another -errno of the system.
 */
int ferry_worker_new(const struct ferry_worker_options *options, struct ferry_worker **ret_worker);

/* Returns the worker's name, and the JSON object of its ready line, without a newline. Valid until ferry_worker_free.
 */
const char *ferry_worker_name(const struct ferry_worker *worker);
const char *ferry_worker_ready_line(const struct ferry_worker *worker);

/* Returns the base URL of the i-th listener; NULL beyond the last. Valid until ferry_worker_free. */
const char *ferry_worker_url(const struct ferry_worker *worker, size_t i);

/*
 * Leaves the registry, refuses new operations, cancels offers that nobody has claimed, waits at most timeout_ms
 * milliseconds until every other operation is terminal, and cancels those that are left. Not from a callback. Returns
 * how many of those that were left it cancelled.
 */
size_t ferry_worker_drain(struct ferry_worker *worker, unsigned timeout_ms);

/*
 * Cancels every operation, waits until all are quiet (at most about the "grace" time), frees. Afterwards the worker
 * neither reads nor writes memory of the program, and no callback runs. Handles of operations and queues stay valid
 * until they are freed, and report the end of their operations. No other function that takes this worker may run, nor
 * ferry_worker_operation_metadata of one of its operations. Takes NULL; returns NULL. Not from a callback.
 */
struct ferry_worker *ferry_worker_free(struct ferry_worker *worker);

/*
 * Unlinks the sockets of every worker of this process, for a program that must exit at once, without ferry_worker_free.
 * Stops no worker. May run while another thread drains or frees. Not from a signal handler.
 */
void ferry_worker_abandon(void);

/* ---- other workers ---- */

/*
 * Connects to a peer before the first transfer needs it. remote is the metadata of one of its operations (the JSON
 * document), or its base URL ("http://host:port", or "ferry://NAME" of the registry), which is asked by the rules of
 * "allow-peer". Waits at most timeout_ms milliseconds (-1 = for ever); the attempt ends by itself, within about 15 s.
 * Not from a callback.
 * Errors: FERRY_E_PEER_UNREACHABLE; FERRY_E_INVALID_PARAMETER: no URL, or the worker itself; FERRY_E_INVALID_METADATA;
 * FERRY_E_PROTOCOL_MISMATCH; FERRY_E_FORBIDDEN: "allow-peer"; FERRY_E_PEER_REFUSED; FERRY_E_STALE_METADATA: another
 * worker is there; FERRY_E_LIMIT_REACHED; FERRY_E_DRAINING; -ETIMEDOUT: not yet: it goes on; -ENOMEM.
 */
int ferry_worker_connect(struct ferry_worker *worker, const char *remote, int timeout_ms);

/*
 * Says, with the metadata of a peer's operation, that nobody will use it: the operation ends at once, CANCELLED with
 * FERRY_E_DECLINED, and of one with several uses one is taken. One that has ended stays as it is. Goes by the link to
 * the peer, else over HTTP by the rules of "allow-peer". Waits for the answer at most timeout_ms milliseconds (-1 = for
 * ever; 0 = not at all); the attempt ends by itself, within about 15 s. Not from a callback.
 * Errors: FERRY_E_ALREADY_CLAIMED: a peer is moving its bytes, or no use is left; FERRY_E_PEER_REFUSED and
 * FERRY_E_FORBIDDEN: not its key; FERRY_E_STALE_METADATA and FERRY_E_GONE: it is not known any more;
 * FERRY_E_INVALID_METADATA; FERRY_E_PROTOCOL_MISMATCH; FERRY_E_PEER_UNREACHABLE; FERRY_E_DRAINING; -ETIMEDOUT: not
 * answered yet: it goes on; -ENOMEM.
 */
int ferry_worker_decline(struct ferry_worker *worker, const char *metadata, int timeout_ms);

/*
 * Asks for more time for a peer's operation, in the way of ferry_worker_decline: the operation expires ttl_ms
 * milliseconds from now (0 = as many as at its creation), but not later than its renew_max_ms after its creation, and
 * not sooner than before. *ret_left_ms (may be NULL) is when it expires, in milliseconds from now. Not from a callback.
 * Errors: as ferry_worker_decline(); FERRY_E_FORBIDDEN: also where it has no renew_max_ms.
 */
int ferry_worker_renew(struct ferry_worker *worker, const char *metadata, uint64_t ttl_ms, int timeout_ms,
                       uint64_t *ret_left_ms);

/* ---- regions: memory that takes part in transfers ---- */

enum { FERRY_WORKER_ID_SIZE = 24 }; /* bytes of an id as text, with the NUL */

/*
 * Registers memory that the program owns, on device (NULL = "cpu"), named name (UTF-8, at most 64 bytes; NULL =
 * unnamed). It must stay mapped until ferry_worker_region_remove returned 0 or ferry_worker_free returned. ret_id gets
 * "rgn_…".
 *
 * Host memory may be read-only: an operation that would receive into it is refused (FERRY_E_FORBIDDEN). It may be a
 * mapped file, which somebody may truncate at any time: the kernel copies it, once more than other memory, and an
 * operation that does not find its bytes ends with FERRY_E_TRANSFER_FAILED; no signal is raised. Shared memory that has
 * a name (/dev/shm, a memfd) is such a file; malloc's memory, MAP_ANONYMOUS and memory that CUDA has pinned are none.
 *
 * device "cuda:N": address is a device pointer of CUDA's device N, as cudaMalloc or cuMemAlloc return, or inside such
 * memory, of the device's primary context, which the CUDA runtime uses, and Ferry too. Managed memory and memory in
 * several allocations side by side (PyTorch's under expandable_segments) always travel through host memory. Ferry's
 * streams wait for no other stream: the program finishes its own work on the memory before it offers it, and may use
 * what it finds there once the operation is terminal. A peer on this host may have the memory open, and has closed it
 * when ferry_worker_region_remove returns (one that is stopped: after 5 s it is given up). If the program frees the
 * memory before, or resets the device, what begins afterwards ends with FERRY_E_TRANSFER_FAILED; what it moves at that
 * moment is undefined, as for host memory that is unmapped under an operation. A device that the program has reset
 * cannot be used by this process's workers again. Not from a callback.
 * Errors: FERRY_E_INVALID_PARAMETER: no address, size 0, not a name, not memory of that device; FERRY_E_UNKNOWN_DEVICE;
 * FERRY_E_NO_SPACE: the system will not lock the memory for RDMA; -ENOMEM; another -errno.
 */
int ferry_worker_region_add(struct ferry_worker *worker, void *address, size_t size, const char *device,
                            const char *name, char ret_id[FERRY_WORKER_ID_SIZE]);

/*
 * Allocates size bytes of zeros as a region that local peers can map and nobody but this process can write; on
 * "cuda:N", memory of that GPU, of which *ret_address is the device pointer. Transfers from such memory need no second
 * copy. Blocks until every page is there (about 0.2 s per GiB). *ret_address is valid until ferry_worker_region_remove
 * returned 0, which frees it, or ferry_worker_free. Not from a callback.
 * Errors: as ferry_worker_region_add(); FERRY_E_NO_SPACE: also "memory-limit", and what the system has.
 */
int ferry_worker_region_alloc(struct ferry_worker *worker, size_t size, const char *device, const char *name,
                              void **ret_address, char ret_id[FERRY_WORKER_ID_SIZE]);

/*
 * Sets whether REST clients may write a region of the program by PUT …/content: 1 = yes; 0 (the default) =
 * 403 forbidden. Clients with the token may always read its content and use it in operations of all four kinds; they
 * may never remove it (409 region-held).
 * Errors: FERRY_E_NOT_FOUND.
 */
int ferry_worker_region_allow(struct ferry_worker *worker, const char *id, int content_writes);

/*
 * Removes a region. After 0 Ferry no longer uses its memory, and the program must not touch that of
 * ferry_worker_region_alloc any more. Waits up to 250 ms for transfers under way: a peer may be COMPLETE a moment
 * before this worker. Not from a callback.
 * Errors: FERRY_E_REGION_IN_USE: an operation that is not terminal, or a content request; FERRY_E_NOT_FOUND.
 */
int ferry_worker_region_remove(struct ferry_worker *worker, const char *id);

/* ---- requests ---- */

/* Makes a request for an operation of a kind. Returns NULL when memory is short, or the kind is unknown. */
struct ferry_worker_request *ferry_worker_request_new(enum ferry_kind kind);

/*
 * Adds a descriptor: size bytes from offset of the region; size 0 = the rest of the region. Checked when the operation
 * is created.
 * Errors: FERRY_E_INVALID_PARAMETER: region is NULL; -ENOMEM.
 */
int ferry_worker_request_add(struct ferry_worker_request *request, const char *region, uint64_t offset, uint64_t size);

/*
 * Adds one descriptor of several pieces: a row of count pieces of size bytes, from the start of one to that of the next
 * stride bytes; or blocks, pieces of size bytes at offset + blocks[i] * size. It pairs with one of as many bytes on the
 * other side, whatever its shape.
 * Errors: FERRY_E_INVALID_PARAMETER: no piece, or of no byte, or a stride below size; -ENOMEM.
 */
int ferry_worker_request_add_row(struct ferry_worker_request *request, const char *region, uint64_t offset,
                                 uint64_t size, uint64_t count, uint64_t stride);
int ferry_worker_request_add_blocks(struct ferry_worker_request *request, const char *region, uint64_t offset,
                                    uint64_t size, const uint64_t *blocks, size_t n_blocks);

/*
 * Adds n parts of the offer, for a read or a write that is not to move all of it: sizes[i] bytes from offsets[i] on of
 * the offer's stream, which is its descriptors' bytes one after the other. All parts, in their order, are one stream of
 * bytes, which pairs with that of the descriptors here and has the same size; so a part need not match a descriptor.
 * They must not overlap. Without a call all of the offer is meant. Checked when the operation is created.
 * Errors: FERRY_E_INVALID_PARAMETER: none, too many, a readable or writable; -ENOMEM.
 */
int ferry_worker_request_add_remote(struct ferry_worker_request *request, const uint64_t *offsets,
                                    const uint64_t *sizes, size_t n);

/*
 * Sets the field of POST /v1/operations with that name: ("ttl_ms", "60000"), ("timeout_ms", "5000"), ("uses", "4"),
 * ("uses", "unlimited"), ("verify", "true"), ("layout", "stream"), ("transports", "shm,tcp"), ("label", "layer 7"),
 * ("relay", "true"), ("renew_max_ms", "120000"), ("follow", ferry_worker_operation_id(read)).
 * Errors: FERRY_E_UNKNOWN_FIELD; FERRY_E_INVALID_PARAMETER.
 */
int ferry_worker_request_set(struct ferry_worker_request *request, const char *name, const char *value);

/* Frees a request. Takes NULL; returns NULL. */
struct ferry_worker_request *ferry_worker_request_free(struct ferry_worker_request *request);

/* ---- operations ---- */

/*
 * Creates an operation and, for a read or a write, begins it. remote is NULL for readable and writable; for read and
 * write it is the peer's metadata (the JSON document), or the http or https URL of it, which is fetched by the rules of
 * "allow-peer". Does not wait for the peer; a short transfer may run inside this call, for at most 0.1 ms. Later
 * failures appear in the operation's status.
 * Errors: FERRY_E_INVALID_PARAMETER: a field that the kind does not have, a limit, remote missing or given to the wrong
 * kind; FERRY_E_NOT_FOUND: no such region, or operation to follow; FERRY_E_REGION_NOT_READY: one that a REST client
 * creates; FERRY_E_OUT_OF_BOUNDS: of the region, of what the read to follow fills, or of the offer; FERRY_E_GONE: the
 * operation to follow has failed or is gone; FERRY_E_INVALID_METADATA; FERRY_E_PROTOCOL_MISMATCH;
 * FERRY_E_KIND_MISMATCH: a read given a writable's metadata, or the reverse, or an operation to follow that is no read;
 * FERRY_E_SIZE_MISMATCH; FERRY_E_METADATA_EXPIRED; FERRY_E_FORBIDDEN: the URL's host is not of allow-peer, or the
 * memory that would receive is read-only; FERRY_E_LIMIT_REACHED; FERRY_E_DRAINING; -ENOMEM.
 */
int ferry_worker_operation_create(struct ferry_worker *worker, const struct ferry_worker_request *request,
                                  const char *remote, struct ferry_worker_operation **ret_operation);

/* Returns the id of the operation, "op_…", as in REST. Valid until ferry_worker_operation_free. */
const char *ferry_worker_operation_id(const struct ferry_worker_operation *operation);

/*
 * Gets what a peer needs to reach a readable or writable operation: the JSON document of GET …/metadata, a secret.
 * Valid until ferry_worker_operation_free. Errors: FERRY_E_NOT_PASSIVE; FERRY_E_GONE: the operation has ended; -ENOMEM.
 */
int ferry_worker_operation_metadata(struct ferry_worker_operation *operation, const char **ret_text);

/* Returns the status of the operation now; FERRY_UNINITIALIZED in a forked process. */
enum ferry_status ferry_worker_operation_status(struct ferry_worker_operation *operation);

/*
 * Waits until the operation is terminal, at most timeout_ms milliseconds (-1 = for ever). From then on this operation
 * no longer writes its memory. Not from a callback. Returns 0 for COMPLETE; FERRY_E_* for the error that ended it, of
 * which ferry_worker_error() has the detail; -ETIMEDOUT if it is not terminal yet.
 */
int ferry_worker_operation_wait(struct ferry_worker_operation *operation, int timeout_ms);

/*
 * Calls ended once, when the operation becomes terminal; if it already is, from inside this function. The handle may be
 * freed before.
 * Errors: FERRY_E_INVALID_PARAMETER: ended is NULL; -ENOMEM.
 */
int ferry_worker_operation_notify(struct ferry_worker_operation *operation, void (*ended)(void *context),
                                  void *context);

/*
 * Says how a terminal operation ended. Returns 0 for COMPLETE; FERRY_E_* for the error that ended it, of which
 * ferry_worker_error() has the detail, as after ferry_worker_operation_wait; -EAGAIN if it is not terminal.
 */
int ferry_worker_operation_result(struct ferry_worker_operation *operation);

/* Returns the bytes moved so far, and the bytes in all. */
uint64_t ferry_worker_operation_bytes_done(struct ferry_worker_operation *operation);
uint64_t ferry_worker_operation_bytes_total(struct ferry_worker_operation *operation);

/*
 * Returns what carried the bytes of a terminal operation ("shm", "tcp", "shm+cuda_ipc", …; "" = nothing did, or it is
 * not terminal; valid until ferry_worker_operation_free), and how long it took from the first chunk, in microseconds.
 */
const char *ferry_worker_operation_transport(struct ferry_worker_operation *operation);
uint64_t ferry_worker_operation_duration_us(struct ferry_worker_operation *operation);

/* Returns what was asked for: "label" ("" = none; valid until ferry_worker_operation_free) and "layout". */
const char *ferry_worker_operation_label(const struct ferry_worker_operation *operation);
enum ferry_layout ferry_worker_operation_layout(const struct ferry_worker_operation *operation);

/*
 * Returns the worker at the other end, with several uses the latest: its name, and its epoch as 16 hexadecimal digits,
 * which no other worker has. "" = none has come yet; the name also where the peer has not told it. Valid until the next
 * call of the same function on the handle, and until ferry_worker_operation_free.
 */
const char *ferry_worker_operation_peer(struct ferry_worker_operation *operation);
const char *ferry_worker_operation_peer_epoch(struct ferry_worker_operation *operation);

/*
 * Cancels the operation: CANCELLED at once if nothing is in flight, else once its memory is quiet, for which
 * ferry_worker_operation_wait waits. Without effect on a terminal operation.
 */
void ferry_worker_operation_cancel(struct ferry_worker_operation *operation);

/*
 * Restarts the time to live of a readable or writable operation, in milliseconds; ttl_ms 0 = as at its creation. A peer
 * needs its metadata anew: ferry_worker_operation_metadata has those with the new time.
 * Errors: FERRY_E_NOT_PASSIVE; FERRY_E_GONE: it has ended; FERRY_E_INVALID_PARAMETER: ttl_ms is beyond the maximum;
 * -ENOMEM.
 */
int ferry_worker_operation_renew(struct ferry_worker_operation *operation, uint64_t ttl_ms);

/* Frees the handle, not the operation. Not while another thread uses it. Takes NULL; returns NULL. */
struct ferry_worker_operation *ferry_worker_operation_free(struct ferry_worker_operation *operation);

/* ---- queues ---- */

/*
 * Makes an empty queue, to which operations are added.
 * Errors: -EMFILE, -ENFILE, -ENOMEM.
 */
int ferry_worker_queue_new(struct ferry_worker_queue **ret_queue);

/*
 * Returns an eventfd, readable once ferry_worker_queue_take has an operation to return, until it returns 0; at times
 * also when it has none. The queue owns it; do not read it.
 */
int ferry_worker_queue_fd(const struct ferry_worker_queue *queue);

/*
 * Adds an operation. ferry_worker_queue_take returns context once the operation is terminal. The handle may be freed
 * before.
 * Errors: -ENOMEM.
 */
int ferry_worker_queue_add(struct ferry_worker_queue *queue, struct ferry_worker_operation *operation, void *context);

/*
 * Takes the next terminal operation, each once, in the order of their ends. Returns 1 with its context; 0 if no further
 * one is terminal.
 */
int ferry_worker_queue_take(struct ferry_worker_queue *queue, void **ret_context);

/*
 * Frees the queue, not its operations. Not while another thread uses the queue. Takes NULL; returns NULL. Not from a
 * callback.
 */
struct ferry_worker_queue *ferry_worker_queue_free(struct ferry_worker_queue *queue);

/* ---- events ---- */

/*
 * Watches what happens in the worker: what GET /v1/events tells. after is the id of an event (its "id"), after which it
 * begins; NULL = from now on. May be freed after the worker.
 * Errors: FERRY_E_INVALID_PARAMETER: after is no event's id; -EMFILE, -ENFILE, -ENOMEM.
 */
int ferry_worker_events_new(struct ferry_worker *worker, const char *after, struct ferry_worker_events **ret_events);

/*
 * Returns an eventfd, readable once ferry_worker_events_take has an event to return, until it returns 0; at times also
 * when it has none. The events own it; do not read it.
 */
int ferry_worker_events_fd(const struct ferry_worker_events *events);

/*
 * Takes the next event, a JSON document as of GET /v1/events, valid until the next call. The worker keeps the
 * last 2,048 events: who comes later is told {"type":"missed","missed":N}. One thread at a time. Returns 1 with the
 * event; 0 if there is none yet.
 * Errors: -ENOMEM.
 */
int ferry_worker_events_take(struct ferry_worker_events *events, const char **ret_json);

/* Ends the watch. Not while another thread uses it. Takes NULL; returns NULL. Not from a callback. */
struct ferry_worker_events *ferry_worker_events_free(struct ferry_worker_events *events);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
