/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REGISTERED_H
#define HTTP_REGISTERED_H

#include <stddef.h>
#include <stdint.h>

#include "peers/registry.h"

struct http_latch;

/*
 * A request to the registry for a page of workers. References: the caller's, and that of the work, which runs on the
 * peers' thread, is bounded in time, and touches neither the server nor a request.
 */
struct registered;

/* How it ended. */
struct registered_result {
        int error; /* FERRY_E_*; 0 = the page is there */
        char detail[REGISTRY_DETAIL_SIZE];
        struct registry_page page;
};

/* 0 with *ret_registered; else the error of registry_find. */
int registered_begin(struct registry *registry, const struct registry_query *query, struct registered **ret_registered);

/* Takes NULL; returns NULL. */
struct registered *registered_unref(struct registered *registered);

/* Happens at the end. Valid as long as the reference. */
struct http_latch *registered_over(struct registered *registered);

/* NULL = not over. Valid as long as the reference. */
const struct registered_result *registered_look(struct registered *registered);

#endif
