/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/*
 * A worker's settings and its handle. Settings come from the command line, the file of workers and the environment;
 * which of them wins depends on whose worker it is (enum worker_role). A token is sent only to the worker that it is
 * for.
 */

enum { WORKER_TOKEN_MAX = 4096, WORKER_CONNECT_MS = 5000 };

/* ---- the handle ---- */

/* What is in the file, without white space at its end, for ferry_secret_free(). */
static int worker_read_token(const char *name, char **ret_token)
{
        char *token = NULL;
        size_t n;
        int fd = open(name, O_RDONLY | O_CLOEXEC), r = fd < 0 ? -errno : 0;
        if (r == 0) {
                r = cli_read_all(fd, WORKER_TOKEN_MAX, &token, &n);
                close(fd);
        }
        if (r < 0)
                return cli_is_silent(r)
                               ? CLI_PROBLEM
                               : cli_usage_error("%s: %s", name, r == -EFBIG ? "too large for a token" : strerror(-r));
        while (n > 0 && strchr(" \t\r\n", token[n - 1]))
                token[--n] = '\0';
        if (n == 0 || strlen(token) != n) {
                ferry_secret_free(token);
                return cli_usage_error("%s: no token in this file", name);
        }
        *ret_token = token;
        return CLI_OK;
}

/* Names the PEM file that libferry could not open. */
static int worker_refuse_pem(const struct cli_worker *worker, int error)
{
        const char *const files[] = { worker->ca_file, worker->cert, worker->key };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(files); i++) {
                if (files[i] && access(files[i], R_OK) < 0)
                        return cli_usage_error("%s: %s", files[i], strerror(errno));
        }
        return cli_usage_error("--ca-file, --cert or --key: %s", strerror(error));
}

/* Reads the token and makes the handle. */
static int worker_open(const struct cli *cli, struct cli_worker *worker)
{
        unsigned answer_ms = (unsigned)cli->answer_timeout_ms;
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
                .connect_timeout_ms = answer_ms < WORKER_CONNECT_MS ? answer_ms : WORKER_CONNECT_MS,
                .timeout_ms = answer_ms,
        };
        int r = ferry_new(worker->url, &options, &worker->ferry);
        ferry_secret_free(token);
        switch (r) {
        case 0:
                signals_watch(worker->ferry);
                return CLI_OK;
        case -EINVAL:
                return cli_usage_error("%s is not a worker's URL: http://HOST:PORT, https://HOST:PORT or unix:/PATH%s",
                                       worker->url, strchr(worker->url, '@') ? "; use --token-file, not a user" : "");
        case -EKEYREJECTED:
                return cli_usage_error("%s: the token has a character that no token has", worker->token_file);
        case -ENOMEM:
                return cli_usage_error("%s", strerror(-r));
        default:
                return worker_refuse_pem(worker, -r);
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

/* The path of the file of workers, for free(); NULL when memory is short. */
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
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(settings); i++) {
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
        line[strcspn(line, "#\r\n")] = '\0';
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

/* Looks up a name in the file. Returns CLI_OK or CLI_USAGE, with a line that says what to write there. */
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

void worker_names_print(void)
{
        char *path = workers_path(), *line = NULL;
        size_t size = 0;
        FILE *file = path ? fopen(path, "re") : NULL;
        while (file && getline(&line, &size, file) > 0) {
                const char *name = line + strspn(line, " \t");
                line[strcspn(line, "#\r\n")] = '\0';
                if (*name)
                        printf("@%.*s\n", (int)strcspn(name, " \t"), name);
        }
        if (file)
                (void)fclose(file);
        free(line);
        free(path);
}

/* ---- settings ---- */

/* The settings of one source: the command line, the environment, or another worker. Borrowed. */
struct worker_settings {
        const char *token_file, *ca_file, *cert, *key;
};

static int worker_set(char **setting, const char *value)
{
        char *copy = value ? strdup(value) : NULL;
        if (value && !copy)
                return cli_usage_error("%s", strerror(ENOMEM));
        free(*setting);
        *setting = copy;
        return CLI_OK;
}

/*
 * Takes the settings of one source; replace: over those that are there. Certificate and key come from the same source.
 */
static int worker_take(struct cli_worker *worker, const struct worker_settings *from, bool replace)
{
        int status = CLI_OK;
        if (from->token_file && (replace || !worker->token_file))
                status = worker_set(&worker->token_file, from->token_file);
        if (status == CLI_OK && from->ca_file && (replace || !worker->ca_file))
                status = worker_set(&worker->ca_file, from->ca_file);
        if (status != CLI_OK || (!from->cert && !from->key) || (!replace && (worker->cert || worker->key)))
                return status;
        status = worker_set(&worker->cert, from->cert);
        return status == CLI_OK ? worker_set(&worker->key, from->key) : status;
}

/* Settings of the command line, or of the environment where the command line has none. */
static struct worker_settings worker_settings(const struct cli *cli, bool peer_token, bool given)
{
        const char *const *token_file = peer_token ? &cli->peer_token_file : &cli->token_file;
        return (struct worker_settings){
                .token_file = ferry_option_given(&cli->base, token_file) == given ? *token_file : NULL,
                .ca_file = ferry_option_given(&cli->base, &cli->ca_file) == given ? cli->ca_file : NULL,
                .cert = ferry_option_given(&cli->base, &cli->cert) == given ? cli->cert : NULL,
                .key = ferry_option_given(&cli->base, &cli->key) == given ? cli->key : NULL,
        };
}

int worker_open_with_settings(struct cli *cli, struct cli_worker *worker, enum worker_role role)
{
        bool own = role != WORKER_OTHER;
        bool peer_token = !own || (role == WORKER_ITSELF && ferry_option_given(&cli->base, &cli->peer_token_file));
        struct worker_settings options = worker_settings(cli, peer_token, true);
        struct worker_settings environment = worker_settings(cli, peer_token, false);
        int status = worker_take(worker, &options, own);
        worker->peer_token = peer_token;
        if (status == CLI_OK && own) {
                const struct cli_worker *w = &cli->worker; /* connected, or worker itself */
                struct worker_settings connected = { w->token_file, w->ca_file, w->cert, w->key };
                status = worker_take(worker, &connected, false);
        }
        if (status == CLI_OK)
                status = worker_take(worker, &environment, false);
        return status == CLI_OK ? worker_open(cli, worker) : status;
}

int worker_resolve(const char *name, struct cli_worker *worker)
{
        return *name == '@' ? workers_find(name + 1, worker) : worker_set(&worker->url, name);
}

int cli_connect(struct cli *cli)
{
        if (cli->worker.ferry)
                return CLI_OK;
        int status = worker_resolve(cli->url, &cli->worker);
        return status == CLI_OK ? worker_open_with_settings(cli, &cli->worker, WORKER_OWN) : status;
}

int cli_each(struct cli *cli, int argc, char **argv, int (*one)(struct cli *cli, const char *argument))
{
        int status = cli_connect(cli);
        for (int i = 1; status != CLI_USAGE && status != CLI_UNREACHABLE && i < argc; i++) {
                int result = one(cli, argv[i]);
                status = result != CLI_OK ? result : status;
        }
        return status;
}
