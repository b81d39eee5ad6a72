/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The options of a worker and of ferryd: by the command line, the environment, or ferry_worker_options_set. One table
 * (option_table.c) defines them; parsing, --help and the check of the man page use it. One thread at a time.
 */

/* Zero-initialise: 0 means the default that ferryd --help names. The worker copies the strings. */
struct worker_options {
        const char *const *listen; /* "127.0.0.1:0", "unix:/path"; n_listen 0 = no HTTP */
        size_t n_listen;
        const char *data_listen; /* NULL = no network transport */
        const char *transports, *interfaces;
        unsigned gpu_direct;   /* enum device_gpudirect */
        const char *local;     /* directory of the local socket, "auto" or "off"; NULL = "auto" */
        uint32_t copy_threads; /* that help with large local copies */
        const char *advertise; /* host, or base URL */
        const char *name;      /* NULL = host name + pid */
        uint64_t memory_limit; /* bytes; 0 = half of the memory of the machine, or of the control group where less */
        const char *token_file, *peer_token_file, *metrics_token_file;
        const char *tls_cert, *tls_key;             /* PEM files */
        const char *tls_client_ca;                  /* PEM file; NULL = clients need no certificate */
        const char *peer_ca, *peer_cert, *peer_key; /* for https to peers */
        const char *const *allow_host;
        size_t n_allow_host;
        const char *const *allow_peer;
        size_t n_allow_peer;
        const char *const *allow_origin;
        size_t n_allow_origin;
        const char *registry, *registry_prefix;       /* NULL = no names for workers; the default */
        const char *registry_ca, *registry_user_file; /* PEM file; file that holds NAME:PASSWORD; NULL = none */
        uint64_t registry_ttl_ms;
        bool no_auth;        /* listen beyond loopback without a token */
        uint64_t chunk_size; /* bytes */
        uint32_t window, spin_us;
        uint64_t ttl_ms, stall_ms, retention_ms, grace_ms;
        uint64_t max_operations, max_regions, max_connections, max_waiters, max_links;
        uint32_t http_threads;
};

/* Texts, owned. Zero-initialise. */
struct option_list {
        char **items;
        size_t n;
};

struct options {
        struct worker_options worker; /* its strings are kept */
        struct option_list kept, listen, allow_host, allow_peer, allow_origin;
        unsigned log_level, log_format; /* positions in the lists of names; log_level is an enum log_level */
        uint64_t drain_timeout_ms;
        bool help, version;
};

enum option_type {
        OPTION_STRING,
        OPTION_LIST,     /* repeatable; separated by commas in the environment */
        OPTION_FLAG,     /* no value; 0, 1, true, false in the environment */
        OPTION_CHOICE,   /* one of names */
        OPTION_UINT,     /* uint64_t, min to max */
        OPTION_UINT32,   /* uint32_t, min to max */
        OPTION_SIZE,     /* uint64_t, bytes, min to max */
        OPTION_DURATION, /* uint64_t, milliseconds, min to max */
};

struct option {
        const char *group;    /* heading in --help */
        const char *flag;     /* "data-listen"; FERRY_DATA_LISTEN in the environment */
        const char *argument; /* "HOST:PORT"; NULL for a flag without a value */
        const char *help;
        char letter; /* 0 = none */
        enum option_type type;
        size_t offset; /* in struct options */
        uint64_t min, max;
        const char *const *names;           /* ended by NULL */
        bool (*accepts)(const char *value); /* of a string or list; NULL = anything that is not empty */
        const char *accepted;               /* what accepts takes, for the error */
        bool daemon;                        /* only of ferryd, not of a worker inside a program */
        bool not_in_environment;
};

extern const struct option option_table[];
extern const size_t option_count;

enum { OPTION_VARIABLE_SIZE = 48, OPTION_MESSAGE_SIZE = 320, OPTIONS_MAX = 64 };

/* Finds an option by name ("data-listen"); NULL = none. */
const struct option *option_find(const char *flag, size_t length);

/*
 * Sets an option from text in the form of --FLAG; a flag without a value takes 1, true, 0 or false. source: its name in
 * error messages. Elements of lists add up. 0; -EINVAL with a sentence; -ENOMEM.
 */
int option_set(const struct option *option, struct options *options, const char *source, const char *value,
               char message[OPTION_MESSAGE_SIZE]);

/* Completes the lists. Call after the last option_set. */
void options_finish(struct options *options);

/* The name of an option's environment variable: "FERRY_DATA_LISTEN". */
void option_variable(const struct option *option, char text[OPTION_VARIABLE_SIZE]);

/*
 * As option_set, for the environment, where commas separate the elements of a list. daemon: options of ferryd alone,
 * too. Ignores empty variables and unknown names, such as FERRY_PORT of a Kubernetes service.
 */
int options_environment(struct options *options, bool daemon, char message[OPTION_MESSAGE_SIZE]);

/* Logs which unknown names are close to known ones. Any thread. */
void options_check_environment(void);

/*
 * Parses the environment and argv, which wins. 0 with *ret_options, for options_clear; -EINVAL with a sentence that
 * names the flag and the values it takes; -ENOMEM. Stops at --help or --version.
 */
int options_parse(int argc, char *const *argv, struct options *ret_options, char message[OPTION_MESSAGE_SIZE]);
void options_clear(struct options *options);

/* Adds a copy of the text, and returns it. NULL: no memory. */
const char *option_list_add(struct option_list *list, const char *text);
void option_list_clear(struct option_list *list);

/* Prints --help. */
void options_help(FILE *file);

#endif
