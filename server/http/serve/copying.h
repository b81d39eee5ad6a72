/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_COPYING_H
#define HTTP_COPYING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

struct MHD_Response;
struct http_request;

/*
 * The bytes of a request's content on their way between its connection and memory. Those of host memory are copied at
 * once; work that reads many of them, such as a digest, is done by another thread. Those of a GPU are copied by a
 * thread that waits for this GPU (base/pool.h), through buffers, and the request is parked meanwhile, at most
 * for the stall limit: a GPU that stands still holds up no thread of HTTP.
 *
 * It is the request's state, and ends with it. All functions: the request's thread.
 */
struct copying;

/* Callbacks: one at a time, on the request's thread or on one that waits for the GPU. */
struct copying_ops {
        /* Moves the next bytes. 0, -errno or FERRY_E_*. */
        int (*move)(void *content, void *bytes, size_t size);
        /* Nothing touches the content any more. done: as of copying_close. */
        void (*close)(void *content, bool done);
};

/* content: owned from here on, unless it fails. devices: none = host memory. 0 or -ENOMEM. */
int copying_open(struct http_request *request, const struct copying_ops *ops, void *content,
                 struct pool_devices devices);

/* Closes the request's copying now: at once, or when the GPU has ended what is under way. done: every byte has moved.
 */
void copying_close(struct http_request *request, bool done);

void *copying_content(const struct http_request *request);

/*
 * Starts work that reads so many bytes of the content's memory, such as a digest. With size not 0, the bytes of a
 * response of that size are copied ahead after it. work: NULL = none; 0, -errno or FERRY_E_*. copying_await must
 * follow; it says whether the request was answered.
 */
void copying_begin(struct http_request *request, int (*work)(void *content), uint64_t reads, uint64_t size);

/*
 * Whether everything begun has ended; its first error is copying_error. false: the request is parked until then, and
 * resume is called, or it was answered.
 */
bool copying_await(struct http_request *request, void (*resume)(struct http_request *request));
int copying_error(const struct http_request *request);

/* Takes bytes of an upload. 0; -EINPROGRESS: parked (the bytes come again) or answered; else the error of a move. */
int copying_take(struct http_request *request, const char *data, size_t size);

/* Moves what copying_take has left in its buffer, and waits for it; as copying_await. */
bool copying_flush(struct http_request *request, void (*resume)(struct http_request *request));

/* The response of these bytes, so many as copying_begin was told. For HEAD nothing need be open. NULL: no memory. */
struct MHD_Response *copying_response(struct http_request *request, uint64_t size);

#endif
