/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_SETTINGS_H
#define SERVER_WORKER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

/* ---- secrets.c ---- */

/* The contents of the files of tokens and certificates that a worker's options name. One thread at a time. */

struct worker_secrets {
        char *token, *peer_token, *metrics_token; /* NULL = none */
        char *tls_cert_pem, *tls_key_pem;         /* NULL = no TLS */
        char *tls_client_ca_pem;                  /* NULL = clients need no certificate */
        char *registry_user;                      /* "NAME:PASSWORD"; NULL = none */
};

/* Reads and checks the files into *secrets, which must be zeroed. 0; -errno, set by worker_fail. Call
 * worker_secrets_clear in any case. */
int worker_secrets_read(const struct ferry_worker_options *options, struct worker_secrets *secrets);

/* Wipes, frees and zeroes them. */
void worker_secrets_clear(struct worker_secrets *secrets);

/* ---- settings.c ---- */

/* A worker's options, checked and with defaults filled in, and the contents of the files they name. */

struct worker_settings {
        struct ferry_worker_options options; /* a copy; advertise is a host, systemd one "systemd:FD" a socket */
        const char *advertise_url;           /* "https://HOST:PORT"; NULL = none was given */
        struct worker_secrets secrets;
        bool beyond_loopback; /* some listener can be reached from other machines */
};

/* 0; -errno, set by worker_fail; -EINVAL: the options' fault. */
int worker_settings_new(const struct ferry_worker_options *options, struct worker_settings **ret_settings);

/* Reloads the files. 0; -errno, set by worker_fail, and the settings are unchanged. */
int worker_settings_reread(struct worker_settings *settings);

/* Whether only this machine can reach "HOST:PORT" (127.0.0.0/8, ::1, localhost), "unix:PATH" or "systemd:FD". */
bool worker_listen_is_loopback(const char *listen);

/* Wipes the secrets and frees. Takes NULL; returns NULL. */
struct worker_settings *worker_settings_free(struct worker_settings *settings);

#endif
