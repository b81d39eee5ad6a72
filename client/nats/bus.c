/* SPDX-License-Identifier: Apache-2.0 */
#include "bus.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <ferry/ferry.h>
#include <ferry/metadata.h>

/*
 * The common part of both commands of ferry-nats: a connection to the NATS server, with its secrets and its TLS; the
 * subject of a worker. Without TLS nothing goes beyond this machine unless --insecure says so, since the metadata that
 * are carried are a secret. on_lost() and on_back() run on a thread of libnats.
 */

enum {
        BUS_RECONNECT_MS = 1000,
        BUS_SECRET_MAX = 4096,
        /* Signatures that begin with a zero byte, one in 256, libnats 3.4 leaves out; each try signs another nonce. */
        BUS_CREDS_TRIES = 3,
};

int bus_fail(int status, const char *format, ...)
{
        va_list arguments;
        fputs("ferry-nats: ", stderr);
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        return status;
}

int bus_read_secret(const char *file, char **ret_secret)
{
        char text[BUS_SECRET_MAX + 1];
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n < 0)
                bus_fail(BUS_USAGE, "%s: %s", file, strerror(errno));
        if (fd >= 0)
                (void)close(fd);
        if (n < 0)
                return BUS_USAGE;
        text[n] = '\0';
        text[strcspn(text, "\r\n")] = '\0';
        *ret_secret = strdup(text);
        explicit_bzero(text, sizeof(text));
        return *ret_secret ? BUS_OK : bus_fail(BUS_USAGE, "%s", strerror(ENOMEM));
}

/* Whether a URL leads to this machine, where nobody listens on the way. */
static bool bus_is_loopback(const char *url)
{
        const char *host = strstr(url, "://") + 3;
        char name[sizeof("255.255.255.255")];
        struct in_addr address;
        size_t length = strcspn(host, ":/");
        if (strncmp(host, "[::1]", 5) == 0)
                return true;
        if (length >= sizeof(name))
                return false;
        memcpy(name, host, length);
        name[length] = '\0';
        return strcasecmp(name, "localhost") == 0 ||
               (inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

static bool bus_is_secure(const struct bus_options *options, const char *url)
{
        return strncmp(url, "tls://", 6) == 0 || options->ca || options->cert;
}

static void on_lost(natsConnection *connection, void *context)
{
        (void)context;
        if (natsConnection_IsClosed(connection)) /* we are done with it */
                return;
        fputs("ferry-nats: the connection to NATS is lost; trying again\n", stderr);
}

static void on_back(natsConnection *connection, void *context)
{
        (void)connection;
        (void)context;
        fputs("ferry-nats: the connection to NATS is back\n", stderr);
}

/* Sets the user. secret: NAME:PASSWORD, or a token; the password is wiped. */
static natsStatus bus_set_user(char *secret, natsOptions *nats)
{
        char *colon = strchr(secret, ':');
        if (!colon)
                return natsOptions_SetToken(nats, secret);
        *colon = '\0';
        natsStatus s = natsOptions_SetUserInfo(nats, secret, colon + 1);
        explicit_bzero(colon + 1, strlen(colon + 1));
        return s;
}

/* Fills libnats's options. once: a connection that is lost is not made again. */
static natsStatus bus_prepare(const struct bus_options *options, const char *url, bool once, char *secret,
                              natsOptions *nats)
{
        natsStatus s = natsOptions_SetURL(nats, url);
        if (s == NATS_OK)
                s = natsOptions_SetName(nats, "ferry-nats");
        if (s == NATS_OK)
                s = natsOptions_SetTimeout(nats, BUS_TIMEOUT_MS);
        if (s == NATS_OK && options->creds)
                s = natsOptions_SetUserCredentialsFromFiles(nats, options->creds, NULL);
        if (s == NATS_OK && secret)
                s = bus_set_user(secret, nats);
        if (s == NATS_OK && options->inbox)
                s = natsOptions_SetCustomInboxPrefix(nats, options->inbox);
        if (s == NATS_OK && bus_is_secure(options, url))
                s = natsOptions_SetSecure(nats, true);
        if (s == NATS_OK && options->ca)
                s = natsOptions_LoadCATrustedCertificates(nats, options->ca);
        if (s == NATS_OK && options->cert)
                s = natsOptions_LoadCertificatesChain(nats, options->cert, options->key);
        if (s == NATS_OK && once)
                return natsOptions_SetAllowReconnect(nats, false);
        if (s == NATS_OK)
                s = natsOptions_SetMaxReconnect(nats, -1);
        if (s == NATS_OK)
                s = natsOptions_SetReconnectWait(nats, BUS_RECONNECT_MS);
        if (s == NATS_OK)
                s = natsOptions_SetDisconnectedCB(nats, on_lost, NULL);
        if (s == NATS_OK)
                s = natsOptions_SetReconnectedCB(nats, on_back, NULL);
        return s;
}

int bus_connect(const struct bus_options *options, const char *url, bool once, natsConnection **ret_connection)
{
        natsOptions *nats = NULL;
        char *secret = NULL;
        if (strchr(url, '@')) /* and in no message of ours */
                return bus_fail(BUS_USAGE, "a NATS URL has no user or password: use --nats-user-file or --nats-creds");
        if (strncmp(url, "nats://", 7) != 0 && strncmp(url, "tls://", 6) != 0)
                return bus_fail(BUS_USAGE, "%s is not a NATS server's URL: nats://HOST:PORT or tls://HOST:PORT", url);
        if (!options->cert != !options->key)
                return bus_fail(BUS_USAGE, "--nats-cert and --nats-key need each other");
        /* Metadata are a bearer secret. */
        if (!bus_is_secure(options, url) && !bus_is_loopback(url) && !options->insecure)
                return bus_fail(BUS_USAGE, "without TLS whoever is on the way can read the metadata: use tls://, or "
                                           "--insecure");
        if (options->creds && access(options->creds, R_OK) != 0)
                return bus_fail(BUS_USAGE, "%s: %s", options->creds, strerror(errno));
        if (options->user_file && bus_read_secret(options->user_file, &secret) != BUS_OK)
                return BUS_USAGE;
        natsStatus s = natsOptions_Create(&nats);
        if (s == NATS_OK)
                s = bus_prepare(options, url, once, secret, nats);
        ferry_secret_free(secret);
        if (s != NATS_OK) {
                natsOptions_Destroy(nats);
                return bus_fail(BUS_USAGE, "%s or a file for it is not usable: %s", url, natsStatus_GetText(s));
        }
        unsigned tries = options->creds ? BUS_CREDS_TRIES : 1;
        do
                s = natsConnection_Connect(ret_connection, nats);
        while (s == NATS_CONNECTION_AUTH_FAILED && --tries > 0);
        natsOptions_Destroy(nats);
        if (s != NATS_OK)
                return bus_fail(BUS_UNREACHABLE, "cannot use the NATS server at %s: %s", url, natsStatus_GetText(s));
        return BUS_OK;
}

bool bus_subject(const char *name, char subject[BUS_SUBJECT_SIZE])
{
        /* Dots separate parts, none of which may be empty. */
        if (!ferry_metadata_is_name(name) || name[0] == '.' || name[strlen(name) - 1] == '.' || strstr(name, ".."))
                return false;
        (void)snprintf(subject, BUS_SUBJECT_SIZE, "ferry.v1.%s.metadata", name);
        return true;
}
