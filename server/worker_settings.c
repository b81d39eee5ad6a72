/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <ferry/metadata.h>

#include "base/address.h"
#include "base/log.h"
#include "base/passed.h"
#include "base/util.h"
#include "memory/room.h"
#include "peers/registry.h"
#include "worker_listen.h"
#include "worker_settings.h"

enum {
        TOKEN_FILE_MAX = 4096,
        PEM_FILE_MAX = 1 << 20,
        PROCESS_ID_ROOM = 12, /* "-" and a process id at the end of the default name */
};

static int say(char *message, size_t message_size, int error, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
static int say(char *message, size_t message_size, int error, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(message, message_size, format, arguments);
        va_end(arguments);
        return error;
}

/* A whole file as a string. 0 or -errno; -EFBIG beyond max. */
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
        /* A NUL inside would silently cut what follows. */
        if (strlen(text) != size)
                return -EINVAL;
        *ret_text = FERRY_STEAL(text);
        return 0;
}

static int token_read(const char *flag, const char *path, char **ret_token, char *message, size_t message_size)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        struct stat status;
        size_t length;
        int r;

        if (!path)
                return 0;
        r = file_read(path, TOKEN_FILE_MAX, &text, &status);
        if (r < 0)
                return say(message, message_size, r, "--%s: %s: %s", flag, path, strerror(-r));
        length = strcspn(text, "\r\n");
        if (text[length + strspn(text + length, "\r\n")])
                return say(message, message_size, -EINVAL, "--%s: %s holds more than one line", flag, path);
        text[length] = '\0';
        if (length == 0)
                return say(message, message_size, -EINVAL, "--%s: %s is empty", flag, path);
        for (size_t i = 0; i < length; i++)
                if (!isgraph((unsigned char)text[i]))
                        return say(message, message_size, -EINVAL,
                                   "--%s: %s: a token has only visible ASCII characters", flag, path);
        if (S_ISREG(status.st_mode) && status.st_mode & (S_IRGRP | S_IROTH))
                log_event(LOG_WARN, "token file readable by other users", LOG_S("file", path),
                          LOG_S("advice", "chmod 600"));
        *ret_token = FERRY_STEAL(text);
        return 0;
}

static int pem_read(const char *flag, const char *path, char **ret_pem, char *message, size_t message_size)
{
        struct stat status;
        int r;

        if (!path)
                return 0;
        r = file_read(path, PEM_FILE_MAX, ret_pem, &status);
        if (r < 0)
                return say(message, message_size, r, "--%s: %s: %s", flag, path, strerror(-r));
        if (!strstr(*ret_pem, "-----BEGIN "))
                return say(message, message_size, -EINVAL, "--%s: %s is not a PEM file", flag, path);
        return 0;
}

/* Files that libcurl opens itself, later; a mistake is better told now. */
static int peer_files_check(const struct worker_options *options, char *message, size_t message_size)
{
        const struct {
                const char *flag, *path;
        } files[] = { { "peer-ca", options->peer_ca },
                      { "peer-cert", options->peer_cert },
                      { "peer-key", options->peer_key },
                      { "registry-ca", options->registry_ca } };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(files); i++) {
                FERRY_CLEANUP(cleanup_free) char *pem = NULL;
                int r = pem_read(files[i].flag, files[i].path, &pem, message, message_size);

                if (pem)
                        explicit_bzero(pem, strlen(pem));
                if (r < 0)
                        return r;
        }
        return 0;
}

static const char *keep(struct worker_settings *settings, const char *text)
{
        char **owned = realloc(settings->owned, (settings->n_owned + 1) * sizeof(*owned));

        if (!owned)
                return NULL;
        settings->owned = owned;
        owned[settings->n_owned] = strdup(text);
        return owned[settings->n_owned] ? owned[settings->n_owned++] : NULL;
}

static bool keep_list(struct worker_settings *settings, const char *const *list, size_t n, const char *const **ret_copy)
{
        const char **copy = calloc(n + 1, sizeof(*copy));

        *ret_copy = copy;
        for (size_t i = 0; copy && i < n; i++) {
                copy[i] = keep(settings, list[i]);
                if (!copy[i])
                        return false;
        }
        return copy != NULL;
}

/* "systemd" becomes one "systemd:FD" for each socket that was passed. */
static int passed_keep(struct worker_settings *settings, char *message, size_t message_size)
{
        struct worker_options *options = &settings->options;
        const char *const *given = options->listen;
        bool taken = false;
        size_t n = 0;

        for (size_t i = 0; i < options->n_listen && !taken; i++)
                taken = strcmp(given[i], "systemd") == 0;
        if (!taken)
                return 0;
        int n_passed = passed_count();
        if (!n_passed)
                return say(message, message_size, -EINVAL,
                           "--listen systemd: no socket was passed (LISTEN_FDS and LISTEN_PID)");
        const char **list = calloc(options->n_listen + (size_t)n_passed, sizeof(*list));
        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < options->n_listen; i++)
                if (strcmp(given[i], "systemd") != 0)
                        list[n++] = given[i];
        free((void *)given);
        options->listen = list;
        options->n_listen = n;
        for (int fd = PASSED_FIRST; fd < PASSED_FIRST + n_passed; fd++) {
                struct sockaddr_storage address;
                socklen_t size;
                char text[sizeof(PASSED_PREFIX) + 12];

                if (passed_address(fd, &address, &size) < 0)
                        return say(message, message_size, -EINVAL,
                                   "--listen systemd: descriptor %d is no listening stream socket (ListenStream=, "
                                   "without Accept=yes)",
                                   fd);
                (void)snprintf(text, sizeof(text), PASSED_PREFIX "%d", fd);
                list[options->n_listen] = keep(settings, text);
                if (!list[options->n_listen++])
                        return -ENOMEM;
        }
        return 0;
}

static bool keep_strings(struct worker_settings *settings)
{
        struct worker_options *options = &settings->options;
        const char **strings[] = { &options->data_listen,
                                   &options->transports,
                                   &options->interfaces,
                                   &options->advertise,
                                   &options->name,
                                   &options->token_file,
                                   &options->tls_cert,
                                   &options->peer_token_file,
                                   &options->tls_key,
                                   &options->peer_ca,
                                   &options->peer_cert,
                                   &options->peer_key,
                                   &options->metrics_token_file,
                                   &options->tls_client_ca,
                                   &options->registry,
                                   &options->registry_prefix,
                                   &options->registry_ca,
                                   &options->registry_user_file };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(strings); i++) {
                if (!*strings[i])
                        continue;
                *strings[i] = keep(settings, *strings[i]);
                if (!*strings[i])
                        return false;
        }
        return true;
}

/* Of a URL, the host is what the data plane and the check of Host names use. */
static bool split_advertise(struct worker_settings *settings)
{
        struct worker_options *options = &settings->options;
        const char *authority = options->advertise ? strstr(options->advertise, "://") : NULL;
        char host[ADDRESS_HOST_SIZE];

        if (!authority)
                return true;
        settings->advertise_url = options->advertise;
        if (!address_host(authority + 3, host))
                return true;
        options->advertise = keep(settings, host);
        return options->advertise != NULL;
}

static bool keep_all(struct worker_settings *settings, const struct worker_options *given)
{
        struct worker_options *options = &settings->options;

        *options = *given;
        options->listen = options->allow_host = options->allow_peer = options->allow_origin = NULL;
        return keep_list(settings, given->listen, given->n_listen, &options->listen) &&
               keep_list(settings, given->allow_host, given->n_allow_host, &options->allow_host) &&
               keep_list(settings, given->allow_peer, given->n_allow_peer, &options->allow_peer) &&
               keep_list(settings, given->allow_origin, given->n_allow_origin, &options->allow_origin) &&
               keep_strings(settings) && split_advertise(settings);
}

/* "host-pid": tells workers of one machine, and of many, apart. */
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
        return keep(settings, name);
}

/* Of the machine, or of the control group where that may have less. */
static uint64_t half_of_memory(void)
{
        struct room room;

        room_look(NULL, &room);
        return room.total < UINT64_MAX ? room.total / 2 : UINT64_C(1) << 30;
}

/* Zeros become what --help says. Those of the engine and of libmicrohttpd's pool are their own business. */
static bool defaults_fill(struct worker_settings *settings)
{
        struct worker_options *options = &settings->options;
        const struct {
                uint64_t *value;
                uint64_t otherwise;
        } defaults[] = {
                { &options->memory_limit, half_of_memory() },
                { &options->ttl_ms, 600 * 1000 },
                { &options->stall_ms, 30 * 1000 },
                { &options->registry_ttl_ms, REGISTRY_TTL_DEFAULT_MS },
                { &options->retention_ms, 600 * 1000 },
                { &options->max_operations, 16384 },
                { &options->max_regions, 4096 },
                { &options->max_connections, 10000 },
                { &options->max_waiters, 8192 },
                { &options->max_links, 4096 },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(defaults); i++)
                if (*defaults[i].value == 0)
                        *defaults[i].value = defaults[i].otherwise;
        if (!options->name)
                options->name = name_make(settings);
        return options->name != NULL;
}

/* What a worker takes before its first connection, and some. */
enum { FILES_MIN = 64 };

static int check_files(char *message, size_t message_size)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_MIN)
                return 0;
        return say(message, message_size, -EMFILE, "a worker needs %d open files; the limit is %llu (ulimit -n)",
                   FILES_MIN, (unsigned long long)files.rlim_cur);
}

static int check_options(struct worker_settings *settings, char *message, size_t message_size)
{
        const struct worker_options *options = &settings->options;
        const char *beyond = NULL;

        for (size_t i = 0; i < options->n_listen; i++)
                if (!worker_listen_is_loopback(options->listen[i]))
                        beyond = options->listen[i];
        settings->beyond_loopback = beyond != NULL;
        if (beyond && !options->token_file && !options->no_auth)
                return say(message, message_size, -EINVAL,
                           "--listen %s can be reached from other machines: give a token by --token-file, or say "
                           "--no-auth if whoever reaches it may do everything",
                           beyond);
        if (!options->tls_cert != !options->tls_key)
                return say(message, message_size, -EINVAL, "--tls-cert and --tls-key need each other");
        if (options->tls_client_ca && !options->tls_cert)
                return say(message, message_size, -EINVAL, "--tls-client-ca needs --tls-cert");
        if (!options->peer_cert != !options->peer_key)
                return say(message, message_size, -EINVAL, "--peer-cert and --peer-key need each other");
        if (!options->registry && (options->registry_prefix || options->registry_ca || options->registry_user_file))
                return say(message, message_size, -EINVAL,
                           "--registry-prefix, --registry-ca and --registry-user-file need --registry");
        if (!options->data_listen && (options->transports || options->interfaces))
                return say(
                        message, message_size, -EINVAL,
                        "--transports and --interfaces are of the network transport, which only --data-listen opens");
        if (options->chunk_size > UINT32_MAX || options->grace_ms > UINT32_MAX)
                return say(message, message_size, -EINVAL, "--chunk-size or --grace is too large");
        if (!ferry_metadata_is_name(options->name))
                return say(message, message_size, -EINVAL,
                           "the worker's name is not 1 to %d letters, digits, '.', '-' and '_'",
                           FERRY_METADATA_NAME_SIZE - 1);
        return 0;
}

static bool same_token(const char *a, const char *b)
{
        return a && b && strcmp(a, b) == 0;
}

static int check_tokens(const struct worker_settings *settings, char *message, size_t message_size)
{
        if (same_token(settings->token, settings->peer_token))
                return say(
                        message, message_size, -EINVAL,
                        "--token-file and --peer-token-file hold the same token; a peer could do everything with it");
        if (same_token(settings->token, settings->metrics_token) ||
            same_token(settings->peer_token, settings->metrics_token))
                return say(message, message_size, -EINVAL,
                           "--metrics-token-file holds the token of another file; it is for /metrics alone");
        if (settings->metrics_token && !settings->token)
                return say(message, message_size, -EINVAL,
                           "--metrics-token-file needs --token-file: without it /metrics is open to everybody");
        return 0;
}

static int files_read(struct worker_settings *settings, char *message, size_t message_size)
{
        const struct worker_options *options = &settings->options;
        int r;

        r = token_read("token-file", options->token_file, &settings->token, message, message_size);
        if (r == 0)
                r = token_read("peer-token-file", options->peer_token_file, &settings->peer_token, message,
                               message_size);
        if (r == 0)
                r = token_read("metrics-token-file", options->metrics_token_file, &settings->metrics_token, message,
                               message_size);
        if (r == 0)
                r = pem_read("tls-cert", options->tls_cert, &settings->tls_cert_pem, message, message_size);
        if (r == 0)
                r = pem_read("tls-key", options->tls_key, &settings->tls_key_pem, message, message_size);
        if (r == 0)
                r = pem_read("tls-client-ca", options->tls_client_ca, &settings->tls_client_ca_pem, message,
                             message_size);
        if (r == 0)
                r = peer_files_check(options, message, message_size);
        if (r == 0)
                r = token_read("registry-user-file", options->registry_user_file, &settings->registry_user, message,
                               message_size);
        if (r == 0 && settings->registry_user && !strchr(settings->registry_user, ':'))
                r = say(message, message_size, -EINVAL, "--registry-user-file: %s does not hold NAME:PASSWORD",
                        options->registry_user_file);
        return r == 0 ? check_tokens(settings, message, message_size) : r;
}

static void secrets_free(struct worker_settings *settings)
{
        char **const secrets[] = { &settings->token,        &settings->peer_token,   &settings->metrics_token,
                                   &settings->tls_key_pem,  &settings->tls_cert_pem, &settings->tls_client_ca_pem,
                                   &settings->registry_user };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(secrets); i++) {
                if (*secrets[i])
                        explicit_bzero(*secrets[i], strlen(*secrets[i]));
                free(FERRY_STEAL(*secrets[i]));
        }
}

int worker_settings_reread(struct worker_settings *settings, char *message, size_t message_size)
{
        struct worker_settings fresh = { .options = settings->options };
        int r = files_read(&fresh, message, message_size);

        if (r < 0) {
                secrets_free(&fresh);
                return r;
        }
        secrets_free(settings);
        settings->token = fresh.token;
        settings->peer_token = fresh.peer_token;
        settings->metrics_token = fresh.metrics_token;
        settings->tls_cert_pem = fresh.tls_cert_pem;
        settings->tls_key_pem = fresh.tls_key_pem;
        settings->tls_client_ca_pem = fresh.tls_client_ca_pem;
        settings->registry_user = fresh.registry_user;
        return 0;
}

static void cleanup_settings(struct worker_settings **settings)
{
        *settings = worker_settings_free(*settings);
}

int worker_settings_new(const struct worker_options *options, struct worker_settings **ret_settings, char *message,
                        size_t message_size)
{
        FERRY_CLEANUP(cleanup_settings) struct worker_settings *settings = calloc(1, sizeof(*settings));
        int r;

        if (!settings || !keep_all(settings, options) || !defaults_fill(settings))
                return -ENOMEM;
        r = passed_keep(settings, message, message_size);
        if (r == 0)
                r = check_options(settings, message, message_size);
        if (r == 0)
                r = check_files(message, message_size);
        if (r == 0)
                r = files_read(settings, message, message_size);
        if (r < 0)
                return r;
        *ret_settings = FERRY_STEAL(settings);
        return 0;
}

struct worker_settings *worker_settings_free(struct worker_settings *settings)
{
        if (!settings)
                return NULL;
        secrets_free(settings);
        for (size_t i = 0; i < settings->n_owned; i++)
                free(settings->owned[i]);
        free(settings->owned);
        free((void *)settings->options.listen);
        free((void *)settings->options.allow_host);
        free((void *)settings->options.allow_peer);
        free((void *)settings->options.allow_origin);
        free(settings);
        return NULL;
}
