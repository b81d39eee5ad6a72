/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATS_BUS_H
#define NATS_BUS_H

#include <stdbool.h>
#include <stddef.h>

#include <ferry/options.h>
#include <nats/nats.h>

/* What the two commands share: options, the connection, subjects. */

enum {
        BUS_OK = 0,
        BUS_PROBLEM = 1,     /* refused, or nobody answers for that worker */
        BUS_USAGE = 2,       /* wrong arguments, or a local file failed */
        BUS_UNREACHABLE = 3, /* no NATS server, or no worker */
};

enum { BUS_NAME_SIZE = 64, BUS_SUBJECT_SIZE = 96, BUS_TIMEOUT_MS = 5000 };

/* What the command line and the environment say. */
struct bus_options {
        struct ferry_option_base base;
#define NATS(part, letter, name, variable, kind, field, ...) FERRY_VALUE_##kind field;
#include <ferry/option_table.h>
        const char *operands[2];
        size_t n_operands;
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

/* The command "bridge". */
int bridge_run(const struct bus_options *options);

#endif
