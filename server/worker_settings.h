/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_SETTINGS_H
#define SERVER_WORKER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

/* A worker's options, checked, with defaults in place of zeros, and the files that they name read. Fixed once made. */

struct worker_settings {
        struct worker_options options; /* strings are owned; the engine's and HTTP's own defaults stay 0; advertise is
                                          a host */
        const char *advertise_url;     /* "https://HOST:PORT"; NULL = none was given */
        char *token, *peer_token, *metrics_token; /* NULL = none */
        char *tls_cert_pem, *tls_key_pem;         /* NULL = no TLS */
        char *tls_client_ca_pem;                  /* NULL = clients need no certificate */
        char *registry_user;                      /* "NAME:PASSWORD"; NULL = none */
        bool beyond_loopback;                     /* some listener can be reached from other machines */
        char **owned;
        size_t n_owned;
};

/* 0; -EINVAL, -ENOENT, -EACCES, other -errno with a sentence in message; -ENOMEM. */
int worker_settings_new(const struct worker_options *options, struct worker_settings **ret_settings, char *message,
                        size_t message_size);

/* Reads the files anew. 0, or -errno with a sentence in message, and the settings are as before. */
int worker_settings_reread(struct worker_settings *settings, char *message, size_t message_size);

/* Wipes the secrets and frees. Takes NULL; returns NULL. */
struct worker_settings *worker_settings_free(struct worker_settings *settings);

#endif
