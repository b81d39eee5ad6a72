/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATS_BUS_H
#define NATS_BUS_H

#include <stdbool.h>
#include <stddef.h>

#include <nats/nats.h>

/* What the two commands share: options, the connection, subjects. */

enum {
        BUS_OK = 0,
        BUS_PROBLEM = 1,     /* refused, or nobody answers for that worker */
        BUS_USAGE = 2,       /* wrong arguments, or a local file failed */
        BUS_UNREACHABLE = 3, /* no NATS server, or no worker */
};

enum { BUS_NAME_SIZE = 64, BUS_ID_SIZE = 24, BUS_SUBJECT_SIZE = 96, BUS_TIMEOUT_MS = 5000 };

/* Strings are borrowed from the command line or the environment. */
struct bus_options {
        const char *nats, *creds, *user_file, *inbox, *ca, *cert, *key;    /* the NATS server */
        const char *url, *token_file, *ca_file, *worker_cert, *worker_key; /* the worker of the bridge */
        bool insecure, help, version;
};

/* One line on standard error; returns status. */
int bus_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first line of a file that holds a secret, for ferry_secret_free. BUS_OK, or BUS_USAGE after a line that says why.
 */
int bus_read_secret(const char *file, char **ret_secret);

/*
 * Connects to url (nats:// or tls://, without a path). once: a lost connection is not made anew. BUS_OK with
 * *ret_connection for natsConnection_Destroy; BUS_USAGE, BUS_UNREACHABLE.
 */
int bus_connect(const struct bus_options *options, const char *url, bool once, natsConnection **ret_connection);

/* "ferry.v1.NAME.metadata". false: the name cannot be part of a subject. */
bool bus_subject(const char *name, char subject[BUS_SUBJECT_SIZE]);

/* Whether size bytes are "op_" and 16 hexadecimal digits. */
bool bus_is_operation(const char *text, size_t size);

/* The commands. */
int bridge_run(const struct bus_options *options);
int ask_run(const struct bus_options *options, const char *url);

#endif
