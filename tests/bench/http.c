/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { BUFFER_MIN = 16 << 10, ANSWER_USUAL = 1024, REQUEST_MAX = 2048 };

static void make_room(struct http *h)
{
        if (h->room - h->n >= BUFFER_MIN / 2)
                return;
        h->room = h->room * 2 + BUFFER_MIN;
        h->buffer = realloc(h->buffer, h->room);
        if (!h->buffer)
                bench_fail("out of memory");
}

/* The first answer finds memory that is there, as all others do. */
static void touch_room(struct http *h)
{
        make_room(h);
        memset(h->buffer, 0, ANSWER_USUAL);
}

void http_open(struct http *h, const char *url)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int on = 1;

        *h = (struct http){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
        address.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
        if (h->fd < 0 || connect(h->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                bench_fail("cannot connect to %s: %s", url, strerror(errno));
        (void)setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        touch_room(h);
}

void http_close(struct http *h)
{
        (void)close(h->fd);
        free(h->buffer);
        *h = (struct http){ .fd = -1 };
}

static void send_all(int fd, const char *data, size_t size)
{
        while (size > 0) {
                ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

                if (n <= 0)
                        bench_fail("a connection broke: %s", strerror(errno));
                data += n;
                size -= (size_t)n;
        }
}

/* Head and body go out together, as long as the body is short. */
void http_send(struct http *h, const char *method, const char *target, const char *body)
{
        char request[REQUEST_MAX];
        size_t body_size = body ? strlen(body) : 0, n;

        n = (size_t)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, target);
        if (body)
                n += (size_t)snprintf(request + n, sizeof(request) - n,
                                      "Content-Type: application/json\r\nContent-Length: %zu\r\n%s", body_size,
                                      h->prefer_wait ? "Prefer: wait=60\r\n" : "");
        n += (size_t)snprintf(request + n, sizeof(request) - n, "\r\n");
        if (n + body_size < sizeof(request)) {
                if (body)
                        memcpy(request + n, body, body_size);
                n += body_size;
                body_size = 0;
        }
        send_all(h->fd, request, n);
        if (body_size > 0)
                send_all(h->fd, body, body_size);
        h->n = 0;
}

/* Parses what is there: true when the answer is whole. Answers have a Content-Length or no body. */
static bool answer_whole(struct http *h)
{
        char *end, *length;

        if (h->n == 0)
                return false;
        h->buffer[h->n] = '\0';
        end = strstr(h->buffer, "\r\n\r\n");
        if (!end)
                return false;
        h->status = (int)strtol(h->buffer + strlen("HTTP/1.1 "), NULL, 10);
        h->body = end + 4;
        h->body_size = 0;
        *end = '\0';
        length = strcasestr(h->buffer, "\r\nContent-Length:");
        if (length && h->status != 204)
                h->body_size = strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
        *end = '\r';
        return h->n >= (size_t)(h->body - h->buffer) + h->body_size;
}

void http_receive(struct http *h)
{
        while (!answer_whole(h)) {
                ssize_t n;

                make_room(h);
                n = recv(h->fd, h->buffer + h->n, h->room - h->n - 1, 0);
                if (n <= 0)
                        bench_fail("a connection broke: %s", n ? strerror(errno) : "closed by the server");
                h->n += (size_t)n;
        }
        h->body[h->body_size] = '\0';
}

void http_call(struct http *h, const char *method, const char *target, const char *body, int expected)
{
        http_send(h, method, target, body);
        http_receive(h);
        if (h->status != expected)
                bench_fail("%s %s: %d %.300s", method, target, h->status, h->body);
}

void http_take_id(const struct http *h, char ret_id[FERRY_ID_SIZE])
{
        const char *id = strstr(h->body, "\"id\":\"");

        if (!id || sscanf(id + strlen("\"id\":\""), "%39[^\"]", ret_id) != 1)
                bench_fail("no id in %.300s", h->body);
}
