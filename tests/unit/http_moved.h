/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HTTP_MOVED_H
#define TESTS_HTTP_MOVED_H

#include <unistd.h>

#include <ferry/error.h>

#include "base/allowlist.h"
#include "easy/thread.h"
#include "move/engine.h"
#include "move/http.h"
#include "peers/peers.h"
#include "unit.h"

#include "answering_peer.h"
#include "request_size.h"

/* Transfers over HTTP that are waited for, and a peer that the test plays. */

/* What a worker asks others with. */
struct client {
        struct allowlist *allowlist;
        struct easy_thread *thread;
        struct peers *peers;
        struct http_mover *mover;
};

static inline void client_open(struct client *client)
{
        assert_int_equal(allowlist_new(NULL, 0, false, &client->allowlist), 0);
        client->thread = easy_thread_new();
        assert_non_null(client->thread);
        const struct peers_config config = { .easy.allowlist = client->allowlist, .thread = client->thread };
        assert_int_equal(peers_new(&config, &client->peers), 0);
        client->mover = http_mover_new(
                &(struct http_mover_config){ .settings = peers_settings(client->peers), .thread = client->thread });
        assert_non_null(client->mover);
}

static inline void client_close(struct client *client)
{
        http_mover_free(client->mover);
        peers_free(client->peers);
        easy_thread_free(client->thread);
        allowlist_free(client->allowlist);
}

struct moved {
        struct client client;
        pthread_mutex_t lock;
        pthread_cond_t done;
        unsigned calls;
        uint64_t progress; /* the most that was told */
        struct engine_outcome outcome;
};

static inline void ignore(void *context)
{
        (void)context;
}

static inline void on_progress(void *context, uint64_t bytes)
{
        struct moved *moved = context;

        pthread_mutex_lock(&moved->lock);
        moved->progress = bytes > moved->progress ? bytes : moved->progress;
        pthread_cond_signal(&moved->done);
        pthread_mutex_unlock(&moved->lock);
}

static _Atomic int stops_with;

static inline int stop_when_told(void *context)
{
        (void)context;
        return stops_with;
}

static inline int go_on(void *context)
{
        (void)context;
        return 0;
}

static inline void on_ended(void *context, const struct engine_outcome *outcome)
{
        struct moved *moved = context;

        pthread_mutex_lock(&moved->lock);
        moved->calls++;
        moved->outcome = *outcome;
        pthread_cond_signal(&moved->done);
        pthread_mutex_unlock(&moved->lock);
}

/* A read of segment from the peer at port. */
static inline struct engine_transfer read_of(struct moved *moved, const struct segment *segment, unsigned port)
{
        return (struct engine_transfer){ .id = 1,
                                         .direction = ENGINE_READ,
                                         .peer.url = text_format("http://127.0.0.1:%u", port),
                                         .remote_operation = 2,
                                         .segments = segment,
                                         .n_segments = 1,
                                         .total = segment->size,
                                         .context = moved,
                                         .started = ignore,
                                         .progress = on_progress,
                                         .stopping = stop_when_told,
                                         .ended = on_ended };
}

static inline void transfer_begin(struct moved *moved, const struct engine_transfer *spec)
{
        char detail[256] = "";

        *moved = (struct moved){ .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };
        client_open(&moved->client);
        assert_int_equal(http_mover_start(moved->client.mover, spec, detail, sizeof(detail)), 0);
}

static inline void read_begin(struct moved *moved, const struct segment *segment, unsigned port)
{
        const struct engine_transfer spec = read_of(moved, segment, port);

        transfer_begin(moved, &spec);
}

static inline void await_end(struct moved *moved)
{
        pthread_mutex_lock(&moved->lock);
        WAIT_SIGNAL(&moved->done, &moved->lock, moved->calls);
        pthread_mutex_unlock(&moved->lock);
}

static inline void read_end(struct moved *moved)
{
        await_end(moved);
        client_close(&moved->client);
        assert_int_equal(moved->calls, 1);
        if (moved->outcome.error) /* metrics count what the operation shows */
                assert_int_equal(moved->outcome.bytes, moved->progress);
}

#define COMPLETE "HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{\"status\":\"COMPLETE\"}"
#define PART(headers) "HTTP/1.1 206 Part\r\n" headers "Content-Length: 8\r\n\r\n01234567"
#define DIGEST(text) "Content-Digest: xxh3=:" text ":\r\n"

enum { REQUEST_SIZE = 4096 };

static inline void take_request(int fd, char text[REQUEST_SIZE])
{
        text[0] = '\0';
        for (size_t size = 0; !request_size(text);) {
                ssize_t n = read(fd, text + size, REQUEST_SIZE - 1 - size);

                assert_true(n > 0);
                size += (size_t)n;
                text[size] = '\0';
        }
}

/* With its body. */
static inline void take_whole(int fd, char text[REQUEST_SIZE])
{
        take_request(fd, text);
        for (size_t size = strlen(text); size < request_size(text);) {
                ssize_t n = read(fd, text + size, REQUEST_SIZE - 1 - size);

                assert_true(n > 0);
                size += (size_t)n;
                text[size] = '\0';
        }
}

static inline void answer(int fd, const char *text)
{
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

#endif
