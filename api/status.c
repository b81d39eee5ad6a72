/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include <ferry/status.h>
#include <ferry/util.h>

static const char *const kind_names[] = {
        [FERRY_READABLE] = "readable",
        [FERRY_READ] = "read",
        [FERRY_WRITABLE] = "writable",
        [FERRY_WRITE] = "write",
};
_Static_assert(FERRY_ARRAY_SIZE(kind_names) == FERRY_KIND_COUNT, "every kind has a name");

static const char *const status_names[] = {
        [FERRY_UNINITIALIZED] = "UNINITIALIZED", [FERRY_INITIALIZED] = "INITIALIZED",
        [FERRY_IN_PROGRESS] = "IN_PROGRESS",     [FERRY_COMPLETE] = "COMPLETE",
        [FERRY_CANCELLED] = "CANCELLED",         [FERRY_ERRORED] = "ERRORED",
};
_Static_assert(FERRY_ARRAY_SIZE(status_names) == FERRY_STATUS_COUNT, "every status has a name");

static const char *const layout_names[] = {
        [FERRY_LAYOUT_PAIRWISE] = "pairwise",
        [FERRY_LAYOUT_STREAM] = "stream",
};
_Static_assert(FERRY_ARRAY_SIZE(layout_names) == FERRY_LAYOUT_COUNT, "every layout has a name");

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
        return name_of(kind_names, FERRY_KIND_COUNT, kind);
}

const char *ferry_status_name(int status)
{
        return name_of(status_names, FERRY_STATUS_COUNT, status);
}

const char *ferry_layout_name(int layout)
{
        return name_of(layout_names, FERRY_LAYOUT_COUNT, layout);
}

int ferry_kind_from_name(const char *name)
{
        return value_of(kind_names, FERRY_KIND_COUNT, name);
}

int ferry_status_from_name(const char *name)
{
        return value_of(status_names, FERRY_STATUS_COUNT, name);
}

int ferry_layout_from_name(const char *name)
{
        return value_of(layout_names, FERRY_LAYOUT_COUNT, name);
}

int ferry_kind_is_passive(int kind)
{
        return kind == FERRY_READABLE || kind == FERRY_WRITABLE;
}

int ferry_status_is_terminal(int status)
{
        return status == FERRY_COMPLETE || status == FERRY_CANCELLED || status == FERRY_ERRORED;
}
