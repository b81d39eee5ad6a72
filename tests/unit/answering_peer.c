/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#include "answering_peer.h"
#include "request_size.h"

static bool read_request(struct answering_peer *peer, int fd)
{
        char *text = peer->request;
        size_t size = 0, whole;

        text[0] = '\0';
        while (!(whole = request_size(text)) || size < whole) {
                ssize_t n = read(fd, text + size, sizeof(peer->request) - 1 - size);

                if (n <= 0)
                        return false;
                size += (size_t)n;
                text[size] = '\0';
        }
        atomic_fetch_add(&peer->requests, 1);
        return true;
}

static bool send_all(int fd, const char *data, size_t size)
{
        while (size) {
                ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

                if (n <= 0)
                        return false;
                data += n;
                size -= (size_t)n;
        }
        return true;
}

static void serve(struct answering_peer *peer, int fd)
{
        char chunk[4096];

        memset(chunk, 'x', sizeof(chunk));
        while (read_request(peer, fd)) {
                const char *answer = peer->later && peer->requests > 1 ? peer->later : peer->answer;

                if (!answer) {
                        while (read(fd, chunk, sizeof(chunk)) > 0)
                                ;
                        return;
                }
                if (!send_all(fd, answer, strlen(answer)))
                        return;
                for (size_t left = peer->fill, piece; left; left -= piece) {
                        piece = left < sizeof(chunk) ? left : sizeof(chunk);
                        if (!send_all(fd, chunk, piece))
                                return;
                }
                if (!peer->keep_alive)
                        return;
        }
}

static void *run(void *argument)
{
        struct answering_peer *peer = argument;
        int fd;

        /* shutdown() of the listening socket ends this. */
        while ((fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                atomic_fetch_add(&peer->accepted, 1);
                serve(peer, fd);
                (void)close(fd);
        }
        return NULL;
}

static void stop(void *object)
{
        struct answering_peer *peer = object;

        (void)shutdown(peer->fd, SHUT_RDWR);
        if (peer->runs)
                (void)pthread_join(peer->thread, NULL);
        (void)close(peer->fd);
        free(peer);
}

struct answering_peer *answering_peer_new(const char *answer)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct answering_peer *peer = test_keep(calloc(1, sizeof(*peer)), stop);
        socklen_t size = sizeof(address);

        peer->answer = answer;
        peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(peer->fd >= 0);
        assert_int_equal(bind(peer->fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(peer->fd, 16), 0);
        assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&address, &size), 0);
        peer->port = ntohs(address.sin_port);
        return peer;
}

struct answering_peer *answering_peer_go(struct answering_peer *peer)
{
        assert_int_equal(pthread_create(&peer->thread, NULL, run, peer), 0);
        peer->runs = true;
        return peer;
}

struct answering_peer *answering_peer_start(const char *answer)
{
        return answering_peer_go(answering_peer_new(answer));
}
