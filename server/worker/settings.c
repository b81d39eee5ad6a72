/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include <ferry/metadata.h>

#include "base/address.h"
#include "base/systemd.h"
#include "base/util.h"
#include "error.h"
#include "memory/available_memory.h"
#include "options.h"
#include "registry/registry.h"
#include "settings.h"
#include "worker_internal.h"

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

struct ferry_worker_options *ferry_worker_options_new(void)
{
        struct ferry_worker_options *options = calloc(1, sizeof(*options));

        if (options)
                worker_options_init(options, false);
        else
                (void)worker_fail(-ENOMEM, NULL);
        return options;
}

/* Maps the result of a function of <ferry/options.h> to worker_fail. */
static int report(int r, const struct ferry_worker_options *options)
{
        return r == -EINVAL ? worker_fail(FERRY_E_INVALID_PARAMETER, "%s", options->base.message)
               : r          ? worker_fail(r, NULL)
                            : 0;
}

int ferry_worker_options_set(struct ferry_worker_options *options, const char *name, const char *value)
{
        const struct ferry_option *option = name ? ferry_option_find(&options->base, name) : NULL;

        if (!option)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "A worker has no option \"%s\"", name ?: "");
        if (!value)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The value of \"%s\" is missing", name);
        return report(ferry_option_set(&options->base, option, name, value), options);
}

int ferry_worker_options_environment(struct ferry_worker_options *options)
{
        int r = ferry_options_environment(&options->base);

        options_check_environment();
        return report(r, options);
}

struct ferry_worker_options *ferry_worker_options_free(struct ferry_worker_options *options)
{
        if (!options)
                return NULL;
        ferry_options_clear(&options->base);
        free(options);
        return NULL;
}
