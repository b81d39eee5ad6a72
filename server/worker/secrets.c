/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "error.h"

enum { LINE_FILE_MAX = 4096, TOKEN_MIN = 16, PEM_FILE_MAX = 1 << 20 }; /* bytes */

/* What a file has to hold. */
enum secret { SECRET_TOKEN, SECRET_USER, SECRET_PEM };

/* Reads a whole file as a string. 0; -EFBIG: longer than max; -EINVAL: it contains a NUL; other -errno. */
static int file_read(const char *path, size_t max, char **ret_text, struct stat *ret_stat)
{
        FERRY_CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0;

        if (fd < 0 || fstat(fd, ret_stat) < 0)
                return -errno;
        text = malloc(max + 1);
        if (!text)
                return -ENOMEM;
        for (;;) {
                ssize_t n = read(fd, text + size, max + 1 - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t)n;
                if (size > max)
                        return -EFBIG;
        }
        text[size] = '\0';
        if (strlen(text) != size)
                return -EINVAL;
        *ret_text = FERRY_STEAL(text);
        return 0;
}

/* Of a token and of a user; cuts the end of the line off. */
static int line_check(const char *flag, const char *path, char *text, const struct stat *status)
{
        size_t length = strcspn(text, "\r\n");

        if (text[length + strspn(text + length, "\r\n")])
                return worker_fail(-EINVAL, "--%s: %s holds more than one line", flag, path);
        text[length] = '\0';
        if (length == 0)
                return worker_fail(-EINVAL, "--%s: %s is empty", flag, path);
        if (S_ISREG(status->st_mode) && status->st_mode & (S_IRGRP | S_IROTH))
                log_event(LOG_WARN, "token file readable by other users", LOG_S("file", path),
                          LOG_S("advice", "chmod 600"));
        return 0;
}

static int token_check(const char *flag, const char *path, const char *token)
{
        for (const char *c = token; *c; c++)
                if (!isgraph((unsigned char)*c))
                        return worker_fail(-EINVAL, "--%s: %s: a token has only visible ASCII characters", flag, path);
        if (strlen(token) < TOKEN_MIN)
                return worker_fail(-EINVAL,
                                   "--%s: %s: a token has at least %d characters, so that nobody guesses it: openssl "
                                   "rand -base64 32 makes one, and --no-auth serves without",
                                   flag, path, TOKEN_MIN);
        return 0;
}

static int user_check(const char *flag, const char *path, const char *user)
{
        return strchr(user, ':') ? 0 : worker_fail(-EINVAL, "--%s: %s does not hold NAME:PASSWORD", flag, path);
}

/* Reads and checks the file of a flag; path NULL = it was not given. *ret_text may be set on failure, too. */
static int secret_read(const char *flag, const char *path, enum secret kind, char **ret_text)
{
        struct stat status;
        int r;

        if (!path)
                return 0;
        r = file_read(path, kind == SECRET_PEM ? PEM_FILE_MAX : LINE_FILE_MAX, ret_text, &status);
        if (r < 0)
                return worker_fail(r, "--%s: %s: %s", flag, path, strerror(-r));
        if (kind == SECRET_PEM)
                return strstr(*ret_text, "-----BEGIN ")
                               ? 0
                               : worker_fail(-EINVAL, "--%s: %s is not a PEM file", flag, path);
        r = line_check(flag, path, *ret_text, &status);
        if (r < 0)
                return r;
        return kind == SECRET_TOKEN ? token_check(flag, path, *ret_text) : user_check(flag, path, *ret_text);
}

static void wipe(char *text)
{
        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
}

static bool same_token(const char *a, const char *b)
{
        return a && b && strcmp(a, b) == 0;
}

static int check_tokens(const struct worker_secrets *secrets)
{
        if (same_token(secrets->token, secrets->peer_token))
                return worker_fail(
                        -EINVAL,
                        "--token-file and --peer-token-file hold the same token; it would give peers full access");
        if (same_token(secrets->token, secrets->metrics_token) ||
            same_token(secrets->peer_token, secrets->metrics_token))
                return worker_fail(-EINVAL,
                                   "--metrics-token-file holds the token of another file; it is for /metrics alone");
        if (secrets->metrics_token && !secrets->token)
                return worker_fail(-EINVAL,
                                   "--metrics-token-file needs --token-file: without it /metrics is open to everybody");
        return 0;
}

int worker_secrets_read(const struct ferry_worker_options *options, struct worker_secrets *secrets)
{
        const struct {
                const char *flag, *path;
                enum secret kind;
                char **text; /* NULL = is only checked: libcurl opens it later */
        } files[] = {
                { "token-file", options->token_file, SECRET_TOKEN, &secrets->token },
                { "peer-token-file", options->peer_token_file, SECRET_TOKEN, &secrets->peer_token },
                { "metrics-token-file", options->metrics_token_file, SECRET_TOKEN, &secrets->metrics_token },
                { "tls-cert", options->tls_cert, SECRET_PEM, &secrets->tls_cert_pem },
                { "tls-key", options->tls_key, SECRET_PEM, &secrets->tls_key_pem },
                { "tls-client-ca", options->tls_client_ca, SECRET_PEM, &secrets->tls_client_ca_pem },
                { "peer-ca", options->peer_ca, SECRET_PEM, NULL },
                { "peer-cert", options->peer_cert, SECRET_PEM, NULL },
                { "peer-key", options->peer_key, SECRET_PEM, NULL },
                { "registry-ca", options->registry_ca, SECRET_PEM, NULL },
                { "registry-user-file", options->registry_user_file, SECRET_USER, &secrets->registry_user },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(files); i++) {
                char *unkept = NULL;
                int r = secret_read(files[i].flag, files[i].path, files[i].kind, files[i].text ?: &unkept);

                wipe(unkept);
                if (r < 0)
                        return r;
        }
        return check_tokens(secrets);
}

void worker_secrets_clear(struct worker_secrets *secrets)
{
        char **const texts[] = { &secrets->token,        &secrets->peer_token,   &secrets->metrics_token,
                                 &secrets->tls_key_pem,  &secrets->tls_cert_pem, &secrets->tls_client_ca_pem,
                                 &secrets->registry_user };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(texts); i++)
                wipe(FERRY_STEAL(*texts[i]));
}
