/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/status.h>

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
