/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "workers.h"

enum { WORKER_TOKEN_MAX = 4096, WORKER_WORDS = 6 };

static void worker_say(const char *format, va_list arguments)
{
        fputs("ferry: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
}

int cli_usage_error(const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        worker_say(format, arguments);
        va_end(arguments);
        return CLI_USAGE;
}

int cli_problem(const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        worker_say(format, arguments);
        va_end(arguments);
        return CLI_PROBLEM;
}

/* ---- the handle ---- */

/* The first line of the file, without white space at its end, for ferry_secret_free(). */
static int worker_read_token(const char *name, char **ret_token)
{
        char text[WORKER_TOKEN_MAX + 1];
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_usage_error("%s: %s", name, strerror(errno));
        ssize_t n = read(fd, text, sizeof(text));
        int error = errno;
        close(fd);
        if (n < 0)
                return cli_usage_error("%s: %s", name, strerror(error));
        if (n > WORKER_TOKEN_MAX)
                return cli_usage_error("%s: too large for a token", name);
        while (n > 0 && strchr(" \t\r\n", text[n - 1]))
                n--;
        if (n == 0 || memchr(text, '\0', (size_t)n))
                return cli_usage_error("%s: no token in this file", name);
        *ret_token = strndup(text, (size_t)n);
        explicit_bzero(text, sizeof(text));
        return *ret_token ? CLI_OK : cli_usage_error("%s", strerror(ENOMEM));
}

int worker_open(struct cli_worker *worker)
{
        char *token = NULL;
        if (worker->token_file) {
                int status = worker_read_token(worker->token_file, &token);
                if (status != CLI_OK)
                        return status;
        }
        struct ferry_options options = {
                .token = token,
                .ca_file = worker->ca_file,
                .cert_file = worker->cert,
                .key_file = worker->key,
        };
        int r = ferry_new(worker->url, &options, &worker->ferry);
        ferry_secret_free(token);
        switch (r) {
        case 0:
                signals_watch(worker->ferry);
                return CLI_OK;
        case -EINVAL:
                return cli_usage_error("%s is not a worker's URL: http://HOST:PORT, https://HOST:PORT or unix:/PATH",
                                       worker->url);
        case -EKEYREJECTED:
                return cli_usage_error("%s: the token has a character that no token has", worker->token_file);
        case -ENOMEM:
                return cli_usage_error("%s", strerror(-r));
        default:
                return cli_usage_error("--ca-file, --cert or --key: %s", strerror(-r));
        }
}

void worker_close(struct cli_worker *worker)
{
        if (worker->ferry)
                signals_unwatch(worker->ferry);
        ferry_free(worker->ferry);
        free(worker->url);
        free(worker->token_file);
        free(worker->ca_file);
        free(worker->cert);
        free(worker->key);
        *worker = (struct cli_worker){ 0 };
}

/* ---- the file of workers ---- */

/* For free(). */
static char *workers_path(void)
{
        const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        char *path = NULL;
        int n = config && *config ? asprintf(&path, "%s/ferry/workers", config)
                                  : asprintf(&path, "%s/.config/ferry/workers", home ? home : "");
        return n < 0 ? NULL : path;
}

static bool workers_set(struct cli_worker *worker, const char *word)
{
        const struct {
                const char *name;
                char **target;
        } settings[] = { { "token-file=", &worker->token_file },
                         { "ca-file=", &worker->ca_file },
                         { "cert=", &worker->cert },
                         { "key=", &worker->key } };
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
                size_t length = strlen(settings[i].name);
                if (strncmp(word, settings[i].name, length) == 0) {
                        free(*settings[i].target);
                        *settings[i].target = strdup(word + length);
                        return *settings[i].target != NULL;
                }
        }
        if (worker->url)
                return false;
        worker->url = strdup(word);
        return worker->url != NULL;
}

/* "NAME URL [token-file=FILE] [ca-file=FILE] [cert=FILE] [key=FILE]"; '#' begins a comment. */
static bool workers_line(char *line, const char *name, struct cli_worker *worker, bool *ret_wrong)
{
        char *rest = NULL;
        line[strcspn(line, "#\n")] = '\0';
        char *word = strtok_r(line, " \t", &rest);
        if (!word || strcmp(word, name) != 0)
                return false;
        while ((word = strtok_r(NULL, " \t", &rest))) {
                if (!workers_set(worker, word))
                        *ret_wrong = true;
        }
        *ret_wrong |= !worker->url;
        return true;
}

static int workers_find(const char *name, struct cli_worker *worker)
{
        char *path = workers_path(), *line = NULL;
        size_t size = 0;
        bool found = false, wrong = false;
        FILE *file = path ? fopen(path, "re") : NULL;
        int status = CLI_OK, number = 0;
        if (!file) {
                status = cli_usage_error("@%s: %s: %s; a line there reads: %s http://HOST:PORT", name, path ? path : "",
                                         strerror(errno), name);
        } else {
                while (!found && getline(&line, &size, file) > 0) {
                        number++;
                        found = workers_line(line, name, worker, &wrong);
                }
                (void)fclose(file);
                if (!found)
                        status = cli_usage_error("no worker %s in %s; add the line: %s http://HOST:PORT", name, path,
                                                 name);
                else if (wrong)
                        status = cli_usage_error("%s:%d: not NAME URL [token-file=FILE] [ca-file=FILE] [cert=FILE] "
                                                 "[key=FILE]",
                                                 path, number);
        }
        free(line);
        free(path);
        return status;
}

static int worker_default(char **setting, const char *value)
{
        if (*setting || !value)
                return CLI_OK;
        *setting = strdup(value);
        return *setting ? CLI_OK : cli_usage_error("%s", strerror(ENOMEM));
}

/* Options win over the file. */
static int worker_open_with_defaults(struct cli *cli, struct cli_worker *worker, const char *token_file)
{
        const struct {
                char **setting;
                const char *value;
        } settings[] = { { &worker->token_file, token_file },
                         { &worker->ca_file, cli->ca_file },
                         { &worker->cert, cli->cert },
                         { &worker->key, cli->key } };
        int status = CLI_OK;
        for (size_t i = 0; status == CLI_OK && i < sizeof(settings) / sizeof(settings[0]); i++)
                status = worker_default(settings[i].setting, settings[i].value);
        return status == CLI_OK ? worker_open(worker) : status;
}

static int worker_resolve(const char *name, struct cli_worker *worker)
{
        return *name == '@' ? workers_find(name + 1, worker) : worker_default(&worker->url, name);
}

int cli_connect(struct cli *cli)
{
        if (cli->worker.ferry)
                return CLI_OK;
        int status = worker_resolve(cli->url ? cli->url : CLI_DEFAULT_URL, &cli->worker);
        return status == CLI_OK ? worker_open_with_defaults(cli, &cli->worker, cli->token_file) : status;
}

int cli_worker_named(struct cli *cli, const char *name, struct cli_worker *ret_worker)
{
        struct cli_worker worker = { 0 };
        int status = strncmp(name, "ferry://", 8) == 0 ? workers_url(cli, name + 8, &worker.url)
                                                       : worker_resolve(name, &worker);
        /* Our own worker's token is for our own worker alone. */
        bool same = status == CLI_OK && cli->worker.url && strcmp(worker.url, cli->worker.url) == 0;
        const char *token = same && !cli->peer_token_file ? cli->worker.token_file : cli->peer_token_file;
        if (status == CLI_OK)
                status = worker_open_with_defaults(cli, &worker, token);
        if (status == CLI_OK)
                *ret_worker = worker;
        else
                worker_close(&worker);
        return status;
}

/* ---- what went wrong ---- */

static int worker_unreachable(const struct cli_worker *worker, int r)
{
        const char *message = ferry_last_message(worker->ferry);
        switch (r) {
        case -ECONNREFUSED:
        case -ECONNRESET:
        case -EHOSTUNREACH:
        case -ETIMEDOUT:
                fprintf(stderr,
                        "ferry: is a worker running at %s? %s (start one with ferryd, or name another with --url)\n",
                        worker->url, message);
                break;
        case -EPROTO:
                fprintf(stderr, "ferry: %s: %s (is this the URL of a ferryd?)\n", worker->url, message);
                break;
        case -EACCES:
                fprintf(stderr, "ferry: %s: %s (see --ca-file, --cert, --key, and the socket's mode)\n", worker->url,
                        message);
                break;
        default:
                fprintf(stderr, "ferry: %s: %s\n", worker->url, *message ? message : strerror(-r));
        }
        return CLI_UNREACHABLE;
}

/* What to do about a refusal, where that is not plain. */
static const char *worker_advice(int error)
{
        switch (error) {
        case FERRY_E_UNAUTHENTICATED:
                return " (give the worker's token with --token-file)";
        case FERRY_E_FORBIDDEN:
                return " (this needs the full token, or --allow-peer at the worker)";
        case FERRY_E_HOST_REFUSED:
                return " (start the worker with --allow-host NAME, or use its address)";
        case FERRY_E_NO_SPACE:
                return " (remove regions with ferry rm, or raise --memory-limit of the worker)";
        default:
                return "";
        }
}

int cli_result(const struct cli_worker *worker, int r)
{
        if (r == 0)
                return CLI_OK;
        if (r == -EPIPE)
                return CLI_PROBLEM; /* the reader of our output has seen enough */
        if (r == -ECANCELED && signals_caught())
                return CLI_PROBLEM; /* main tells */
        if (r == -EINVAL || r == -ENOTSUP || r == -ENOMEM)
                return cli_usage_error("%s", *ferry_last_message(worker->ferry) ? ferry_last_message(worker->ferry)
                                                                                : strerror(-r));
        if (r < 0)
                return worker_unreachable(worker, r);
        return cli_problem("%s%s", ferry_last_message(worker->ferry), worker_advice(r));
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
        return cli_problem("%s did not complete: %s%s%s%s", operation->id, operation->error_code,
                           operation->error_detail[0] ? ": " : "", operation->error_detail,
                           operation_advice(operation));
}
