/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_AIO_INTERNAL_H
#define CLIENT_AIO_INTERNAL_H

#include <ferry/aio.h>

#include "client_internal.h"
#include "http_try.h"
#include "wait.h"

#define AIO_NEVER UINT64_MAX

/* The document in a 2xx answer. */
enum aio_answer { AIO_NOTHING, AIO_OPERATION, AIO_BATCH, AIO_PAGE };

/* The decoded answer of a call, in our layout. */
struct aio_outcome {
        struct ferry_operation operation;
        struct ferry_operation_results results;
        bool has_operation, has_results;
};

/* One call. In a list of its set; times are those of ferry_clock_ms. */
struct aio_call {
        struct aio_call *prev, *next;
        struct ferry_aio *aio;
        struct ferry *lane; /* a handle of its own in the set's multi handle */
        struct http_try http_try;
        bool running;    /* the try is under way */
        short watched;   /* the events of its socket in the epoll, POLLIN or POLLOUT; 0 = it is not there */
        unsigned tries;  /* of this request */
        uint64_t due_ms; /* when the next try starts, while none runs */
        const struct request *request;
        struct request plain; /* of all but create */
        struct operation_request create;
        struct path path;
        struct reply reply;
        enum aio_answer answer;
        /* Sizes in bytes of the structs that the program was compiled with. */
        size_t descriptor_size, operation_size, result_size;
        char *awaited; /* until it is done: the path of what is waited for; NULL = the call is no wait */
        struct wait_time wait;
        size_t n_many;
        enum ferry_wait_for wait_for;
        ferry_aio_done done;
        void *context;
};

/* All fields belong to the thread that uses the set. */
struct ferry_aio {
        struct ferry *f; /* what lanes are copies of */
        CURLM *multi;
        int epoll, timer;
        uint64_t curl_due_ms;
        struct aio_call *calls;
        struct ferry **idle; /* lanes, those without a connection first; room for all n_lanes */
        size_t n_idle, n_lanes, n_calls;
        size_t n_closed; /* idle lanes without a connection */
        uint64_t n_made; /* calls, ever */
        bool ending;     /* by ferry_aio_free */
        int called;      /* callbacks of one dispatch */
        int error;       /* of epoll_ctl inside a callback of libcurl */
};

/* ---- aio_call.c ---- */

/* Takes the call out of the list of its set, runs the callback, then frees it. */
void aio_call_back(struct aio_call *c, int r, const struct aio_outcome *outcome);

/* Begin and end one try of a call's request. Both may run the callback and free the call. */
void aio_http_try_begin(struct aio_call *c);
void aio_http_try_end(struct aio_call *c, CURLcode code);

/* libcurl has connected for the call, or not; its socket is ready. Both may run the callback and free the call. */
void aio_connected(struct aio_call *c, CURLcode code);
void aio_ready(struct aio_call *c);

/* ---- aio_timer.c ---- */

/* Sets the timer to that time of ferry_clock_ms; AIO_NEVER = none. */
void aio_arm(struct ferry_aio *aio, uint64_t due_ms);

/* Sets the timer to the next time at which something is due. */
void aio_set_timer(struct ferry_aio *aio);

#endif
