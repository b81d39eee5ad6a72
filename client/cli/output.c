/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

void cli_mask_controls(char *text)
{
        for (unsigned char *c = (unsigned char *)text; *c; c++) {
                bool wide = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* U+0080 to U+009F in UTF-8 */
                if (*c < ' ' || *c == 0x7f || wide)
                        *c = '?';
                if (wide)
                        *++c = '?';
        }
}

/* What stands before the '@' of a URL may be a password: it becomes a '*'. */
static void output_mask_users(char *text)
{
        while ((text = strstr(text, "://"))) {
                text += strlen("://");
                char *end = memrchr(text, '@', strcspn(text, " "));
                if (end && end > text) {
                        *text = '*';
                        memmove(text + 1, end, strlen(end) + 1);
                }
        }
}

int cli_fail(int status, const char *format, ...)
{
        char *text = NULL;
        va_list arguments;
        va_start(arguments, format);
        int n = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (n >= 0) {
                cli_mask_controls(text);
                output_mask_users(text);
                fprintf(stderr, "ferry: %s\n", text);
                free(text);
        } else {
                fprintf(stderr, "ferry: %s\n", strerror(ENOMEM));
        }
        return status;
}

/* After a call that failed: 0 = again, or a negative errno. */
static int output_failure(int fd, short events)
{
        int error = errno;
        if (signals_caught())
                return error == EPIPE ? -EPIPE : -ECANCELED;
        if (error == EAGAIN)
                (void)poll(&(struct pollfd){ .fd = fd, .events = events }, 1, -1);
        return error == EINTR || error == EAGAIN ? 0 : -error;
}

ssize_t cli_read(int fd, void *buffer, size_t size)
{
        for (;;) {
                ssize_t n = read(fd, buffer, size);
                int r = n < 0 ? output_failure(fd, POLLIN) : 0;
                if (n == 0 && signals_caught())
                        return -ECANCELED; /* Ctrl-C has also ended the process that was to write more */
                if (n >= 0 || r < 0)
                        return n >= 0 ? n : r;
        }
}

int cli_write(int fd, const void *data, size_t size)
{
        while (size) {
                ssize_t n = write(fd, data, size);
                int r = n < 0 ? output_failure(fd, POLLOUT) : n == 0 ? -EIO : 0;
                if (r < 0)
                        return r;
                data = (const char *)data + (n > 0 ? n : 0);
                size -= n > 0 ? (size_t)n : 0;
        }
        return 0;
}

bool cli_is_silent(int r)
{
        return r == -EPIPE || (r == -ECANCELED && signals_caught());
}

int cli_print(const char *text)
{
        size_t size = strlen(text);
        int r = cli_write(STDOUT_FILENO, text, size);
        if (r == 0 && (size == 0 || text[size - 1] != '\n'))
                r = cli_write(STDOUT_FILENO, "\n", 1);
        if (cli_is_silent(r))
                return CLI_PROBLEM;
        return r < 0 ? cli_usage_error("standard output: %s", strerror(-r)) : CLI_OK;
}

int cli_flush(void)
{
        if (fflush(stdout) == 0)
                return CLI_OK;
        return errno == EPIPE ? CLI_PROBLEM : cli_usage_error("standard output: %s", strerror(errno));
}

void cli_bytes_format(char *text, size_t size, double bytes)
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
        size_t unit = 0;
        while (bytes >= 1024 && unit + 1 < FERRY_ARRAY_SIZE(units)) {
                bytes /= 1024;
                unit++;
        }
        snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}
