/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/buffer.h>

/*
 * Output of the command: bytes and lines to standard output, failures to standard error, and the exit status that goes
 * with each. Texts of workers are masked (cli_mask_controls), passwords in URLs hidden. Before a line goes out, the
 * progress and the screen let go of the terminal.
 */

/* ---- output ---- */

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

/* What to do after a call that failed: 0 = again, perhaps after the descriptor is ready; or a negative errno. */
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

int cli_read_all(int fd, size_t max, char **ret_text, size_t *ret_size)
{
        struct ferry_buffer all = { 0 };
        char piece[65536];
        int r = 0;
        for (ssize_t n = 1; r == 0 && n != 0;) {
                n = cli_read(fd, piece, sizeof(piece));
                r = n < 0 ? (int)n : ferry_buffer_append(&all, piece, (size_t)n, max);
        }
        explicit_bzero(piece, sizeof(piece));
        size_t size = all.size;
        char *text = r == 0 ? ferry_buffer_take(&all) : NULL;
        if (!text) {
                ferry_buffer_clear(&all, true);
                return r == 0 ? -ENOMEM : r == -EMSGSIZE ? -EFBIG : r;
        }
        *ret_text = text;
        *ret_size = size;
        return 0;
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

int cli_write_text(const char *text, size_t size, mbstate_t *state)
{
        if (!isatty(STDOUT_FILENO))
                return cli_write(STDOUT_FILENO, text, size);
        char *escaped = cli_text_escape(text, size, state);
        int r = escaped ? cli_write(STDOUT_FILENO, escaped, strlen(escaped)) : -ENOMEM;
        free(escaped);
        return r;
}

int cli_print(const char *text)
{
        size_t size = strlen(text);
        int r = cli_write_text(text, size, &(mbstate_t){ 0 });
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

/* ---- what came of a call ---- */

/* There was no worker's answer: the reason, and what the user can do. */
static int worker_unreachable(const struct cli_worker *worker, int r)
{
        const char *message = ferry_last_message(worker->ferry);
        bool tls = strncmp(worker->url, "https:", 6) == 0;
        switch (r) {
        case -ECONNRESET: /* by TLS 1.3 a client without a certificate is refused after its own handshake, by closing */
                if (tls)
                        return cli_fail(CLI_UNREACHABLE,
                                        "%s: %s (has the worker ended, or does it ask for a client certificate: --cert "
                                        "and --key?)",
                                        worker->url, message);
                __attribute__((fallthrough));
        case -ECONNREFUSED:
        case -EHOSTUNREACH:
                return cli_fail(CLI_UNREACHABLE,
                                "is a worker running at %s? %s (start one with ferryd, or name another with --url)",
                                worker->url, message);
        case -ETIMEDOUT:
                return cli_fail(CLI_UNREACHABLE, "%s: %s (is the worker stopped%s, or the network cut?)", worker->url,
                                message, tls ? ", its URL http:" : "");
        case -EPROTO:
                return cli_fail(CLI_UNREACHABLE, "%s: %s (is this the URL of a ferryd?)", worker->url, message);
        case -EACCES:
                return cli_fail(CLI_UNREACHABLE, "%s: %s (see --ca-file, --cert, --key, and the socket's mode)",
                                worker->url, message);
        default:
                return cli_fail(CLI_UNREACHABLE, "%s: %s", worker->url, *message ? message : strerror(-r));
        }
}

/* Advice about a refusal, where it is not obvious. */
static const char *worker_advice(int error, bool retryable)
{
        switch (error) {
        case FERRY_E_UNAUTHENTICATED:
                return " (give the worker's token with --token-file)";
        case FERRY_E_FORBIDDEN:
                return " (this needs the full token, or --allow-peer at the worker)";
        case FERRY_E_HOST_REFUSED:
                return " (start the worker with --allow-host NAME, or use its address)";
        case FERRY_E_NO_SPACE:
                /* Else it would not fit into an empty worker either. */
                return retryable ? " (remove regions with ferry rm, or raise --memory-limit of the worker)" : "";
        default:
                return "";
        }
}

int cli_result(const struct cli_worker *worker, int r)
{
        if (r == 0)
                return CLI_OK;
        if (cli_is_silent(r))
                return CLI_PROBLEM;
        if (r == -EINVAL || r == -ENOTSUP || r == -ENOMEM)
                return cli_usage_error("%s", *ferry_last_message(worker->ferry) ? ferry_last_message(worker->ferry)
                                                                                : strerror(-r));
        if (r < 0)
                return worker_unreachable(worker, r);
        const struct ferry_problem *problem = ferry_last_problem(worker->ferry);
        const char *message = ferry_last_message(worker->ferry);
        if (r == FERRY_E_UNAUTHENTICATED && worker->peer_token)
                return cli_fail_with_code(CLI_PROBLEM, problem->code,
                                          "%s: %s (give that worker's token with --peer-token-file)", worker->url,
                                          message);
        return cli_fail_with_code(CLI_PROBLEM, problem->code, "%s%s", message, worker_advice(r, problem->retryable));
}

int cli_region_result(const struct cli_worker *worker, const struct ferry_region *region, int r)
{
        if (r != FERRY_E_NOT_FOUND || !region->idle_ms)
                return cli_result(worker, r);
        return cli_fail_with_code(CLI_PROBLEM, "not-found",
                                  "%s is gone: someone deleted it, or nothing used it for %" PRIu64 " ms", region->id,
                                  region->idle_ms);
}

static const char *operation_advice(const struct ferry_operation *o)
{
        switch (o->error) {
        case FERRY_E_PEER_UNREACHABLE:
                return " (ferry doctor PEER tells why)";
        case FERRY_E_PEER_LOST:
                return " (does the other worker still run?)";
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_STALE_METADATA:
        case FERRY_E_METADATA_EXPIRED:
        case FERRY_E_EXPIRED:
                return " (offer it again)";
        case FERRY_E_DECLINED: /* as ferry send does with a file of another size */
                return o->kind == FERRY_WRITABLE ? " (has the file that was to come another size than --size?)" : "";
        case FERRY_E_STALLED:
                return " (no byte moved: ferry doctor PEER checks the network)";
        default:
                return "";
        }
}

int cli_operation_result(const struct ferry_operation *operation)
{
        if (operation->status == FERRY_COMPLETE)
                return CLI_OK;
        return cli_fail_with_code(CLI_PROBLEM, operation->error_code, "%s did not complete: %s%s%s%s", operation->id,
                                  operation->error_code, operation->error_detail[0] ? ": " : "",
                                  operation->error_detail, operation_advice(operation));
}
