/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

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

static bool output_json;

void cli_fail_in_json(bool json)
{
        output_json = json;
}

/* {"error":{"code":"not-found","message":"…"}} on a line of its own: there may be several. */
static void output_fail_json(const char *code, const char *text)
{
        struct json_object *line = json_object_new_object(), *error = json_object_new_object();
        if (code && *code)
                json_object_object_add(error, "code", json_object_new_string(code));
        json_object_object_add(error, "message", json_object_new_string(text));
        json_object_object_add(line, "error", error);
        fprintf(stderr, "%s\n",
                json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(line);
}

int cli_fail_with_code(int status, const char *code, const char *format, ...)
{
        char *text = NULL;
        va_list arguments;
        va_start(arguments, format);
        int n = vasprintf(&text, format, arguments);
        va_end(arguments);
        progress_break();
        screen_close();
        if (n >= 0) {
                cli_mask_controls(text);
                output_mask_users(text);
        }
        if (output_json)
                output_fail_json(code, n >= 0 ? text : strerror(ENOMEM));
        else
                fprintf(stderr, "ferry: %s\n", n >= 0 ? text : strerror(ENOMEM));
        if (n >= 0)
                free(text);
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
                progress_await(fd, POLLIN);
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
                progress_await(fd, POLLOUT);
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
        return r == -EPIPE || (r == -ECANCELED && (signals_caught() || screen_wants_redraw()));
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
