/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/metadata.h>

#include "base/address.h"
#include "base/log.h"
#include "base/systemd.h"
#include "base/util.h"
#include "memory/available_memory.h"
#include "registry/registry.h"

/*
 * A worker's settings: the options that the program or the command line gave, copied, completed by what the machine
 * says, and checked against each other; and the contents of the files of tokens and certificates. They are made before
 * the worker and freed after it; only worker_settings_reread() changes the secrets meanwhile, by SIGHUP of ferryd.
 *
 * A fault is told in a sentence that names the flag (worker_fail). Secrets are wiped when they are freed. Thread:
 * the one that makes the worker; worker_settings_reread() one at a time.
 */

/* ---- secrets ---- */

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

/*
 * Checks the text of a token or a user, and cuts the end of the line off. Warns of a file that others may read. Returns
 * 0 or -EINVAL, set by worker_fail.
 */
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

/* A token is sent in a header, so it has visible characters only, and is long enough not to be guessed. */
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

/* Overwrites and frees a text; takes NULL. */
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

/* A token must mean one thing. Returns 0 or -EINVAL, set by worker_fail. */
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

/* Reads and checks the files into *secrets, which must be zeroed. 0; -errno, set by worker_fail. Call
 * worker_secrets_clear in any case. */
static int worker_secrets_read(const struct ferry_worker_options *options, struct worker_secrets *secrets)
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

/* Wipes, frees and zeroes them. */
static void worker_secrets_clear(struct worker_secrets *secrets)
{
        char **const texts[] = { &secrets->token,        &secrets->peer_token,   &secrets->metrics_token,
                                 &secrets->tls_key_pem,  &secrets->tls_cert_pem, &secrets->tls_client_ca_pem,
                                 &secrets->registry_user };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(texts); i++)
                wipe(FERRY_STEAL(*texts[i]));
}

/* ---- settings ---- */

enum { PROCESS_ID_ROOM = 12 }; /* "-" and a process id at the end of the default name */

/* "systemd" becomes one "systemd:FD" for each socket that was passed. */
static int passed_keep(struct worker_settings *settings)
{
        struct ferry_strings *listen = &settings->options.listen;
        size_t n = 0;

        for (size_t i = 0; i < listen->n; i++) {
                if (strcmp(listen->items[i], "systemd") == 0)
                        free(listen->items[i]);
                else
                        listen->items[n++] = listen->items[i];
        }
        if (n == listen->n)
                return 0;
        listen->n = n;
        int n_passed = passed_count();
        if (!n_passed)
                return worker_fail(-EINVAL, "--listen systemd: no socket was passed (LISTEN_FDS and LISTEN_PID)");
        for (int fd = PASSED_FIRST; fd < PASSED_FIRST + n_passed; fd++) {
                struct sockaddr_storage address;
                socklen_t size;
                char text[sizeof(PASSED_PREFIX) + 12];

                if (passed_address(fd, &address, &size) < 0)
                        return worker_fail(
                                -EINVAL,
                                "--listen systemd: descriptor %d is no listening stream socket (ListenStream=, "
                                "without Accept=yes)",
                                fd);
                (void)snprintf(text, sizeof(text), PASSED_PREFIX "%d", fd);
                if (!ferry_strings_add(listen, text))
                        return worker_fail(-ENOMEM, NULL);
        }
        return 0;
}

/* Splits --advertise: of a URL or "[IPV6]", the data plane and the check of Host headers use the host. */
static bool split_advertise(struct worker_settings *settings)
{
        struct ferry_worker_options *options = &settings->options;
        const char *authority = options->advertise ? strstr(options->advertise, "://") : NULL;
        char host[ADDRESS_HOST_SIZE];

        if (authority) {
                settings->advertise_url = options->advertise;
                authority += strlen("://");
        } else if (options->advertise && options->advertise[0] == '[') {
                authority = options->advertise;
        }
        if (!authority || !address_host(authority, host))
                return true;
        options->advertise = ferry_strings_add(&options->base.texts, host);
        return options->advertise != NULL;
}

/* The default name, "HOST-PID": unique on one machine, and mostly among machines. */
static const char *name_make(struct worker_settings *settings)
{
        char name[FERRY_METADATA_NAME_SIZE] = "";

        if (gethostname(name, sizeof(name) - PROCESS_ID_ROOM) < 0 || !name[0])
                (void)snprintf(name, sizeof(name), "worker");
        name[sizeof(name) - PROCESS_ID_ROOM - 1] = '\0';
        for (char *c = name; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr("-._", *c))
                        *c = '-';
        (void)snprintf(name + strlen(name), sizeof(name) - strlen(name), "-%ld", (long)getpid());
        return ferry_strings_add(&settings->options.base.texts, name);
}

/* Half of the memory of the machine, or of the control group if that has less. */
static uint64_t half_of_memory(void)
{
        struct available_memory memory;

        available_memory_read(NULL, &memory);
        return memory.total < UINT64_MAX ? memory.total / 2 : UINT64_C(1) << 30;
}

/* Fills in the defaults that depend on the machine. */
static bool defaults_fill(struct worker_settings *settings)
{
        struct ferry_worker_options *options = &settings->options;

        if (!options->memory_limit)
                options->memory_limit = half_of_memory();
        if (!options->name)
                options->name = name_make(settings);
        return options->name != NULL;
}

/* Open files that a worker needs before its first connection, with some reserve. */
enum { FILES_MIN = 64 };

/*
 * Refuses to start where the limit of open files leaves no room for connections. Returns 0 or -EMFILE, set by
 * worker_fail.
 */
static int check_files(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_MIN)
                return 0;
        return worker_fail(-EMFILE, "a worker needs %d open files; the limit is %llu (ulimit -n)", FILES_MIN,
                           (unsigned long long)files.rlim_cur);
}

static bool is_loopback(const struct sockaddr_storage *address)
{
        switch (address->ss_family) {
        case AF_INET:
                return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
        case AF_INET6:
                return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
        default:
                return address->ss_family == AF_UNIX;
        }
}

bool worker_listen_is_loopback(const char *listen)
{
        struct sockaddr_storage address = { .ss_family = AF_INET };
        char host[ADDRESS_HOST_SIZE];
        int passed = passed_fd(listen);
        socklen_t size;
        uint16_t port;

        if (strncmp(listen, "unix:", 5) == 0)
                return true;
        if (passed >= 0)
                return passed_address(passed, &address, &size) == 0 && is_loopback(&address);
        if (!address_split(listen, host, &port))
                return false;
        if (inet_pton(AF_INET, host, &((struct sockaddr_in *)&address)->sin_addr) != 1) {
                address.ss_family = AF_INET6;
                if (inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)&address)->sin6_addr) != 1)
                        return strcasecmp(host, "localhost") == 0;
        }
        return is_loopback(&address);
}

/*
 * Checks what goes together. The one that matters most: a listener that other machines reach needs a token, or the
 * explicit --no-auth. Returns 0 or -EINVAL, set by worker_fail.
 */
static int check_options(struct worker_settings *settings)
{
        const struct ferry_worker_options *options = &settings->options;
        const char *beyond = NULL;

        for (size_t i = 0; i < options->listen.n; i++)
                if (!worker_listen_is_loopback(options->listen.items[i]))
                        beyond = options->listen.items[i];
        settings->beyond_loopback = beyond != NULL;
        if (beyond && !options->token_file && !options->no_auth)
                return worker_fail(
                        -EINVAL,
                        "--listen %s is not loopback, so other machines may reach it: give a token by --token-file, "
                        "or give --no-auth if every client that reaches it may have full access",
                        beyond);
        if (!options->tls_cert != !options->tls_key)
                return worker_fail(-EINVAL, "--tls-cert and --tls-key must be given together");
        if (options->tls_client_ca && !options->tls_cert)
                return worker_fail(-EINVAL, "--tls-client-ca needs --tls-cert");
        if (!options->peer_cert != !options->peer_key)
                return worker_fail(-EINVAL, "--peer-cert and --peer-key must be given together");
        if (!options->registry && (options->registry_prefix || options->registry_ca || options->registry_user_file))
                return worker_fail(-EINVAL,
                                   "--registry-prefix, --registry-ca and --registry-user-file need --registry");
        if (!options->data_listen && (options->transports || options->interfaces))
                return worker_fail(
                        -EINVAL,
                        "--transports and --interfaces apply to the network transport, which needs --data-listen");
        if (!ferry_metadata_is_name(options->name))
                return worker_fail(-EINVAL, "the worker's name is not 1 to %d letters, digits, '.', '-' and '_'",
                                   FERRY_METADATA_NAME_SIZE - 1);
        return 0;
}

int worker_settings_reread(struct worker_settings *settings)
{
        struct worker_secrets fresh = { 0 };
        int r = worker_secrets_read(&settings->options, &fresh);

        if (r < 0) {
                worker_secrets_clear(&fresh);
                return r;
        }
        worker_secrets_clear(&settings->secrets);
        settings->secrets = fresh;
        return 0;
}

static void cleanup_settings(struct worker_settings **settings)
{
        *settings = worker_settings_free(*settings);
}

/* The order counts: the sockets that systemd passed are needed to tell whether a listener is loopback. */
int worker_settings_new(const struct ferry_worker_options *options, struct worker_settings **ret_settings)
{
        FERRY_CLEANUP(cleanup_settings) struct worker_settings *settings = calloc(1, sizeof(*settings));
        int r;

        if (!settings || ferry_options_copy(&settings->options.base, &options->base, sizeof(*options)) < 0 ||
            !split_advertise(settings) || !defaults_fill(settings))
                return worker_fail(-ENOMEM, NULL);
        r = passed_keep(settings);
        if (r == 0)
                r = check_options(settings);
        if (r == 0)
                r = check_files();
        if (r == 0)
                r = worker_secrets_read(&settings->options, &settings->secrets);
        if (r < 0)
                return r;
        *ret_settings = FERRY_STEAL(settings);
        return 0;
}

struct worker_settings *worker_settings_free(struct worker_settings *settings)
{
        if (!settings)
                return NULL;
        worker_secrets_clear(&settings->secrets);
        ferry_options_clear(&settings->options.base);
        free(settings);
        return NULL;
}
