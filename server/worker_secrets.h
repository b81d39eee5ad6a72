/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_SECRETS_H
#define SERVER_WORKER_SECRETS_H

#include "options.h"

/* The contents of the files of tokens and certificates that a worker's options name. One thread at a time. */

struct worker_secrets {
        char *token, *peer_token, *metrics_token; /* NULL = none */
        char *tls_cert_pem, *tls_key_pem;         /* NULL = no TLS */
        char *tls_client_ca_pem;                  /* NULL = clients need no certificate */
        char *registry_user;                      /* "NAME:PASSWORD"; NULL = none */
};

/* Reads and checks the files into *secrets, which must be zeroed. 0; -errno, set by worker_fail. Call
 * worker_secrets_clear in any case. */
int worker_secrets_read(const struct worker_options *options, struct worker_secrets *secrets);

/* Wipes, frees and zeroes them. */
void worker_secrets_clear(struct worker_secrets *secrets);

#endif
