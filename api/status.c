/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/protocol.h>
#include <ferry/status.h>
#include <ferry/util.h>

/*
 * The tables of errors, kinds, statuses and layouts, by which their names and numbers are found; and whether two
 * protocols fit. Pure; any thread.
 */

/* ---- errors ---- */

struct error_entry {
        int number;
        const char *code;
        int http;
        int retryable;
        const char *title;
};

static const struct error_entry entries[] = {
#define X(name, number, code, http, retryable, title) { (number), (code), (http), (retryable), (title) },
        FERRY_ERRORS(X)
#undef X
};

/* A number that two rows share would make two equal case labels, which does not compile. */
static const struct error_entry *find(int error)
{
        enum {
#define X(name, number, code, http, retryable, title) ROW_##name,
                FERRY_ERRORS(X)
#undef X
        };

        switch (error) {
#define X(name, number, code, http, retryable, title)                                                                  \
        case number:                                                                                                   \
                return &entries[ROW_##name];
                FERRY_ERRORS(X)
#undef X
        default:
                return NULL;
        }
}

const char *ferry_error_code(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->code : "internal";
}

const char *ferry_error_title(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->title : "The worker failed";
}

int ferry_error_http(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->http : 500;
}

int ferry_error_retryable(int error)
{
        const struct error_entry *e = find(error);

        return e ? e->retryable : 0;
}

int ferry_error_from_code(const char *code, int http)
{
        int found = -1;

        for (size_t i = 0; code && i < FERRY_ARRAY_SIZE(entries); i++) {
                if (strcmp(entries[i].code, code) != 0)
                        continue;
                if (http == 0 || entries[i].http == http)
                        return entries[i].number;
                if (found < 0)
                        found = entries[i].number;
        }
        return found;
}

/* ---- statuses and kinds ---- */

const char *const ferry_kind_names[] = {
        [FERRY_READABLE] = "readable", [FERRY_READ] = "read",     [FERRY_WRITABLE] = "writable",
        [FERRY_WRITE] = "write",       [FERRY_KIND_COUNT] = NULL,
};

const char *const ferry_status_names[] = {
        [FERRY_UNINITIALIZED] = "UNINITIALIZED",
        [FERRY_INITIALIZED] = "INITIALIZED",
        [FERRY_IN_PROGRESS] = "IN_PROGRESS",
        [FERRY_COMPLETE] = "COMPLETE",
        [FERRY_CANCELLED] = "CANCELLED",
        [FERRY_ERRORED] = "ERRORED",
        [FERRY_STATUS_COUNT] = NULL,
};

const char *const ferry_layout_names[] = {
        [FERRY_LAYOUT_PAIRWISE] = "pairwise",
        [FERRY_LAYOUT_STREAM] = "stream",
        [FERRY_LAYOUT_COUNT] = NULL,
};

static const char *name_of(const char *const *names, int n, int value)
{
        return value >= 0 && value < n ? names[value] : NULL;
}

/* The number of a name; -1 = none has it. */
static int value_of(const char *const *names, int n, const char *name)
{
        for (int i = 0; name && i < n; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        return -1;
}

const char *ferry_kind_name(int kind)
{
        return name_of(ferry_kind_names, FERRY_KIND_COUNT, kind);
}

const char *ferry_status_name(int status)
{
        return name_of(ferry_status_names, FERRY_STATUS_COUNT, status);
}

const char *ferry_layout_name(int layout)
{
        return name_of(ferry_layout_names, FERRY_LAYOUT_COUNT, layout);
}

int ferry_kind_from_name(const char *name)
{
        return value_of(ferry_kind_names, FERRY_KIND_COUNT, name);
}

int ferry_status_from_name(const char *name)
{
        return value_of(ferry_status_names, FERRY_STATUS_COUNT, name);
}

int ferry_layout_from_name(const char *name)
{
        return value_of(ferry_layout_names, FERRY_LAYOUT_COUNT, name);
}

int ferry_kind_is_passive(int kind)
{
        return kind == FERRY_READABLE || kind == FERRY_WRITABLE;
}

int ferry_status_is_terminal(int status)
{
        return status == FERRY_COMPLETE || status == FERRY_CANCELLED || status == FERRY_ERRORED;
}

/* ---- the protocol ---- */

bool ferry_protocol_differs(uint64_t own, uint64_t peer, char *ret_detail, size_t size)
{
        char number[32] = "no numbered protocol";

        if (own == peer)
                return false;
        if (peer)
                (void)snprintf(number, sizeof(number), "protocol %" PRIu64, peer);
        (void)snprintf(ret_detail, size,
                       "the peer speaks %s, this worker protocol %" PRIu64 ": upgrade %s, which is older", number, own,
                       peer < own ? "the peer" : "this worker");
        return true;
}
