/* SPDX-License-Identifier: Apache-2.0 */
#include "registered.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "latch.h"

struct registered {
        atomic_uint references;
        struct http_latch over;
        struct registered_result result; /* written by the work until over */
        struct registry_entry *entries;  /* owned; the page's */
};

struct registered *registered_unref(struct registered *r)
{
        if (r && atomic_fetch_sub(&r->references, 1) == 1) {
                latch_destroy(&r->over);
                free(r->entries);
                free(r);
        }
        return NULL;
}

/* Thread: the peers'. */
static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct registered *r = context;

        r->result.error = error;
        (void)snprintf(r->result.detail, sizeof(r->result.detail), "%s", detail);
        if (page) {
                r->result.page = *page;
                r->entries = calloc(page->n ? page->n : 1, sizeof(*r->entries));
                if (r->entries && page->n)
                        memcpy(r->entries, page->entries, page->n * sizeof(*r->entries));
                if (!r->entries)
                        r->result.error = FERRY_E_INTERNAL;
                r->result.page.entries = r->entries;
        }
        latch_set(&r->over);
        registered_unref(r);
}

int registered_begin(struct registry *registry, const struct registry_query *query, struct registered **ret_registered)
{
        struct registered *r = calloc(1, sizeof(*r));
        int error;

        if (!r)
                return -ENOMEM;
        atomic_init(&r->references, 2);
        latch_init(&r->over);
        error = registry_find(registry, query, on_found, r);
        if (error) {
                latch_destroy(&r->over);
                free(r);
                return error;
        }
        *ret_registered = r;
        return 0;
}

struct http_latch *registered_over(struct registered *r)
{
        return &r->over;
}

const struct registered_result *registered_look(struct registered *r)
{
        return latch_is_set(&r->over) ? &r->result : NULL;
}
