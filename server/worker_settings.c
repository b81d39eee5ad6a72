/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include <ferry/metadata.h>

#include "base/address.h"
#include "base/passed.h"
#include "base/util.h"
#include "memory/available_memory.h"
#include "peers/registry.h"
#include "worker_error.h"
#include "worker_listen.h"
#include "worker_settings.h"

enum { PROCESS_ID_ROOM = 12 }; /* "-" and a process id at the end of the default name */

static bool keep_list(struct worker_settings *settings, const char *const *list, size_t n, const char *const **ret_copy)
{
        const char **copy = calloc(n + 1, sizeof(*copy));

        *ret_copy = copy;
        for (size_t i = 0; copy && i < n; i++) {
                copy[i] = option_list_add(&settings->owned, list[i]);
                if (!copy[i])
                        return false;
        }
        return copy != NULL;
}

/* "systemd" becomes one "systemd:FD" for each socket that was passed. */
static int passed_keep(struct worker_settings *settings)
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
                return worker_fail(-EINVAL, "--listen systemd: no socket was passed (LISTEN_FDS and LISTEN_PID)");
        const char **list = calloc(options->n_listen + (size_t)n_passed, sizeof(*list));
        if (!list)
                return worker_fail(-ENOMEM, NULL);
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
                        return worker_fail(
                                -EINVAL,
                                "--listen systemd: descriptor %d is no listening stream socket (ListenStream=, "
                                "without Accept=yes)",
                                fd);
                (void)snprintf(text, sizeof(text), PASSED_PREFIX "%d", fd);
                list[options->n_listen] = option_list_add(&settings->owned, text);
                if (!list[options->n_listen++])
                        return worker_fail(-ENOMEM, NULL);
        }
        return 0;
}

static bool keep_strings(struct worker_settings *settings)
{
        _Static_assert(!offsetof(struct options, worker), "offsets in the table are those in struct worker_options");
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char **text = (const char **)(void *)((char *)&settings->options + option->offset);

                if (option->type != OPTION_STRING || option->offset >= sizeof(settings->options) || !*text)
                        continue;
                *text = option_list_add(&settings->owned, *text);
                if (!*text)
                        return false;
        }
        return true;
}

/* Splits --advertise: of a URL or "[IPV6]", the data plane and the check of Host headers use the host. */
static bool split_advertise(struct worker_settings *settings)
{
        struct worker_options *options = &settings->options;
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
        options->advertise = option_list_add(&settings->owned, host);
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
        return option_list_add(&settings->owned, name);
}

/* Half of the memory of the machine, or of the control group if that has less. */
static uint64_t half_of_memory(void)
{
        struct available_memory memory;

        available_memory_read(NULL, &memory);
        return memory.total < UINT64_MAX ? memory.total / 2 : UINT64_C(1) << 30;
}

/* Fills in the defaults that --help names, except those of the engine and of the HTTP server. */
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

/* Open files that a worker needs before its first connection, with some reserve. */
enum { FILES_MIN = 64 };

static int check_files(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_MIN)
                return 0;
        return worker_fail(-EMFILE, "a worker needs %d open files; the limit is %llu (ulimit -n)", FILES_MIN,
                           (unsigned long long)files.rlim_cur);
}

static int check_options(struct worker_settings *settings)
{
        const struct worker_options *options = &settings->options;
        const char *beyond = NULL;

        for (size_t i = 0; i < options->n_listen; i++)
                if (!worker_listen_is_loopback(options->listen[i]))
                        beyond = options->listen[i];
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
        if (options->chunk_size > UINT32_MAX || options->grace_ms > UINT32_MAX)
                return worker_fail(-EINVAL, "--chunk-size or --grace is too large");
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

int worker_settings_new(const struct worker_options *options, struct worker_settings **ret_settings)
{
        FERRY_CLEANUP(cleanup_settings) struct worker_settings *settings = calloc(1, sizeof(*settings));
        int r;

        if (!settings || !keep_all(settings, options) || !defaults_fill(settings))
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
        option_list_clear(&settings->owned);
        free((void *)settings->options.listen);
        free((void *)settings->options.allow_host);
        free((void *)settings->options.allow_peer);
        free((void *)settings->options.allow_origin);
        free(settings);
        return NULL;
}
