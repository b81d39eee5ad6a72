/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

/* ---- sockets ---- */

static struct sockaddr_in loopback(uint16_t port)
{
        return (struct sockaddr_in){ .sin_family = AF_INET,
                                     .sin_port = htons(port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

int raw_try(uint16_t port)
{
        struct sockaddr_in address = loopback(port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
                return fd;
        (void)close(fd);
        return -1;
}

int raw_dial(uint16_t port)
{
        int fd = raw_try(port);

        assert_true(fd >= 0);
        return fd;
}

int raw_hold(uint16_t *ret_port)
{
        struct sockaddr_in address = loopback(0);
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        *ret_port = ntohs(address.sin_port);
        return fd;
}

int raw_listen(uint16_t *ret_port)
{
        int fd = raw_hold(ret_port);

        assert_int_equal(listen(fd, 16), 0);
        return fd;
}

void raw_send(int fd, const void *data, size_t size)
{
        const char *at = data;

        while (size > 0) {
                ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

                if (n <= 0)
                        return;
                at += n;
                size -= (size_t)n;
        }
}

/* ---- an answer ---- */

struct input {
        int fd;
        char *data; /* terminated */
        size_t n, room;
        uint64_t deadline_ms;
};

/* Reads some more; false at the end or on an error. */
static bool read_more(struct input *in)
{
        struct pollfd p = { .fd = in->fd, .events = POLLIN };
        uint64_t now = now_ms();
        ssize_t n;

        if (in->room - in->n < 4096)
                in->data = realloc(in->data, in->room = in->room * 2 + 8192);
        assert_non_null(in->data);
        in->data[in->n] = '\0';
        if (poll(&p, 1, (int)(in->deadline_ms > now ? in->deadline_ms - now : 0)) <= 0)
                fail_msg("no answer within %d ms, but: %.2000s", WAIT_MS, in->data);
        n = read(in->fd, in->data + in->n, in->room - in->n - 1);
        if (n <= 0)
                return false;
        in->n += (size_t)n;
        in->data[in->n] = '\0';
        return true;
}

static bool read_until(struct input *in, size_t n)
{
        while (in->n < n)
                if (!read_more(in))
                        return false;
        return true;
}

static const char *copy(const void *data, size_t size)
{
        char *text = malloc(size + 1);

        assert_non_null(text);
        memcpy(text, data, size);
        text[size] = '\0';
        return text_keep(text);
}

/* Moves the chunks together at start, reading as needed. Returns where the body ends; *ret_size: its bytes. */
static size_t read_chunked(struct input *in, size_t start, size_t *ret_size)
{
        size_t at = start;

        for (*ret_size = 0;;) {
                char *line;
                size_t size;

                while (!(line = memmem(in->data + at, in->n - at, "\r\n", 2)))
                        if (!read_more(in))
                                return in->n;
                size = strtoull(in->data + at, NULL, 16);
                at = (size_t)(line - in->data) + 2;
                if (!read_until(in, at + size + 2))
                        return in->n;
                if (size == 0)
                        return at + 2;
                memmove(in->data + start + *ret_size, in->data + at, size);
                *ret_size += size;
                at += size + 2;
        }
}

/* Returns where it ends. */
static size_t read_body(struct input *in, size_t start, struct raw_answer *answer)
{
        const char *length = raw_header(answer, "Content-Length");
        size_t end;

        if (raw_header(answer, "Transfer-Encoding")) {
                end = read_chunked(in, start, &answer->body_size);
        } else {
                end = length ? start + strtoull(length, NULL, 10) : SIZE_MAX;
                if (!read_until(in, end))
                        end = in->n;
                answer->body_size = end - start;
        }
        answer->body = copy(in->data + start, answer->body_size);
        return end;
}

/* Where the body of the next answer that is not 100 begins; 0 = none comes. */
static size_t read_head(struct input *in, struct raw_answer *answer)
{
        for (;;) {
                char *end = NULL;
                size_t size;

                while (!in->data || !(end = strstr(in->data, "\r\n\r\n")))
                        if (!read_more(in))
                                return 0;
                size = (size_t)(end + 4 - in->data);
                answer->status = atoi(in->data + strlen("HTTP/1.1 "));
                answer->head = copy(in->data, size - 2);
                if (answer->status != 100)
                        return size;
                in->n -= size;
                memmove(in->data, in->data + size, in->n + 1);
        }
}

static void receive(struct input *in, bool head_only, struct raw_answer *ret_answer)
{
        struct raw_answer answer = { .head = "", .body = "", .rest = "" };
        size_t end = read_head(in, &answer);

        if (end) {
                const char *connection = raw_header(&answer, "Connection");

                answer.closed = connection && strcasecmp(connection, "close") == 0;
                if (!head_only && answer.status != 204 && answer.status != 304)
                        end = read_body(in, end, &answer);
        } else {
                answer = (struct raw_answer){ .head = "", .body = "", .closed = true };
        }
        answer.rest = in->data ? copy(in->data + end, in->n - end) : "";
        free(in->data);
        *ret_answer = answer;
}

void raw_receive(int fd, bool head_only, struct raw_answer *ret_answer)
{
        struct input in = { .fd = fd, .deadline_ms = now_ms() + WAIT_MS };

        receive(&in, head_only, ret_answer);
}

struct raw_answer raw_receive_last(int fd)
{
        struct input in = { .fd = fd, .deadline_ms = now_ms() + WAIT_MS };
        struct raw_answer answer;

        while (read_more(&in))
                ;
        receive(&in, false, &answer);
        (void)close(fd);
        return answer;
}

const char *raw_read_head(int fd)
{
        struct input in = { .fd = fd, .room = 1 << 16, .data = calloc(1, 1 << 16), .deadline_ms = now_ms() + WAIT_MS };

        assert_non_null(in.data);
        while (in.n + 1 < in.room && (in.n < 4 || memcmp(in.data + in.n - 4, "\r\n\r\n", 4) != 0)) {
                struct pollfd p = { .fd = fd, .events = POLLIN };

                if (poll(&p, 1, WAIT_MS) <= 0)
                        fail_msg("no head within %d ms, but: %s", WAIT_MS, in.data);
                if (read(fd, in.data + in.n, 1) != 1)
                        break;
                in.n++;
        }
        return text_keep(in.data);
}

const char *raw_header(const struct raw_answer *answer, const char *name)
{
        size_t n = strlen(name);

        for (const char *line = strstr(answer->head, "\r\n"); line; line = strstr(line, "\r\n")) {
                line += 2;
                if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
                        line += n + 1;
                        line += strspn(line, " ");
                        return copy(line, strcspn(line, "\r\n"));
                }
        }
        return NULL;
}
