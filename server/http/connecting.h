/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CONNECTING_H
#define HTTP_CONNECTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/metadata.h>

#include "transfer/engine.h"

struct http_config;
struct http_latch;

/*
 * Connecting to the worker of a URL: fetches the worker's description over HTTP, then has the engine connect.
 * References: the caller's, and that of the work, which runs on the peers' thread and then on the engine's, is bounded
 * in time, and touches neither the server nor a request.
 */
struct connecting;

enum { CONNECTING_DETAIL_SIZE = 256 };

/* How it ended. */
struct connecting_result {
        int error; /* FERRY_E_*; 0 = connected */
        char detail[CONNECTING_DETAIL_SIZE];
        char worker[FERRY_METADATA_NAME_SIZE];
        uint64_t epoch;
        struct engine_connection connection;
};

/* 0 with *ret_connecting; else the error of peers_fetch_worker, with a sentence in detail. url is copied. */
int connecting_begin(const struct http_config *config, const char *url, struct connecting **ret_connecting,
                     char *detail, size_t detail_size);

/* Takes NULL; returns NULL. */
struct connecting *connecting_unref(struct connecting *connecting);

/* Happens at the end. Valid as long as the reference. */
struct http_latch *connecting_over(struct connecting *connecting);

/* NULL = not over. Valid as long as the reference. */
const struct connecting_result *connecting_look(struct connecting *connecting);

#endif
