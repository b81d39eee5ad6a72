/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_SETTINGS_H
#define SERVER_WORKER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker_secrets.h"

/* A worker's options, checked and with defaults filled in, and the contents of the files they name. */

struct worker_settings {
        struct worker_options options; /* a copy; advertise is a host, systemd one "systemd:FD" a socket */
        const char *advertise_url;     /* "https://HOST:PORT"; NULL = none was given */
        struct worker_secrets secrets;
        bool beyond_loopback; /* some listener can be reached from other machines */
};

/* 0; -errno, set by worker_fail; -EINVAL: the options' fault. */
int worker_settings_new(const struct worker_options *options, struct worker_settings **ret_settings);

/* Reloads the files. 0; -errno, set by worker_fail, and the settings are unchanged. */
int worker_settings_reread(struct worker_settings *settings);

/* Wipes the secrets and frees. Takes NULL; returns NULL. */
struct worker_settings *worker_settings_free(struct worker_settings *settings);

#endif
