/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/available_memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>

#include "base/util.h"

/*
 * How much memory this process may still take: /proc/meminfo, and the limits of its control group and of each group
 * above it. The group's directory is found once a call, by /proc/self/cgroup and the mount of its hierarchy; of the two
 * versions of control groups the one that does not apply has no mount, and is passed over. What is not known counts as
 * no limit.
 *
 * Thread: any; no state.
 */

static const struct available_memory_paths system_paths = {
        .meminfo = "/proc/meminfo",
        .overcommit = "/proc/sys/vm/overcommit_memory",
        .cgroup = "/proc/self/cgroup",
        .mountinfo = "/proc/self/mountinfo",
};

/* File names of a cgroup version, and the reclaimable lines of its memory.stat. */
struct cgroup_version {
        const char *type; /* of the file system */
        const char *limit, *usage;
        const char *reclaimable[2];
};

static const struct cgroup_version versions[] = {
        { "cgroup2", "memory.max", "memory.current", { "inactive_file", "active_file" } },
        { "cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", { "total_inactive_file", "total_active_file" } },
};

enum { OVERCOMMIT_NEVER = 2 /* in the kernel's mman.h, but not in user space's headers */ };

/* Version 1 shows "no limit" as LONG_MAX rounded to pages. */
#define NO_LIMIT (UINT64_C(1) << 62)

/* Calls take for each line, without its newline, until it returns false. */
static void lines_read(const char *path, bool (*take)(void *context, char *line), void *context)
{
        FERRY_CLEANUP(cleanup_file) FILE *file = fopen(path, "re");
        FERRY_CLEANUP(cleanup_free) char *line = NULL;
        size_t size = 0;

        while (file && getline(&line, &size, file) > 0) {
                line[strcspn(line, "\n")] = '\0';
                if (!take(context, line))
                        return;
        }
}

/* ---- numbers ---- */

struct number_search {
        const char *key; /* "" = the file is one number */
        uint64_t number;
        bool found;
};

/* "key number", "key:   number kB", or "number". */
static bool number_take(void *context, char *line)
{
        struct number_search *search = context;
        size_t length = strlen(search->key);

        if (strncmp(line, search->key, length) != 0)
                return true;
        line += length;
        if (length && *line != ' ' && *line != ':')
                return true;
        search->found = ferry_uint_read(line + strspn(line, ": \t"), &search->number); /* "max" is no number */
        if (search->found && strstr(line, " kB"))
                search->number *= 1024;
        return false;
}

/* The number in a file, or behind a key in it. Returns false when there is none: *ret_number is as it was. */
static bool number_read(const char *path, const char *key, uint64_t *ret_number)
{
        struct number_search search = { .key = key };

        lines_read(path, number_take, &search);
        if (search.found)
                *ret_number = search.number;
        return search.found;
}

/* The same of a file in a directory. */
static bool number_in(const char *directory, const char *file, const char *key, uint64_t *ret_number)
{
        char path[PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s", directory, file);

        return n > 0 && (size_t)n < sizeof(path) && number_read(path, key, ret_number);
}

/* ---- control groups ---- */

struct cgroup_search {
        const struct cgroup_version *version;
        char group[PATH_MAX]; /* from /proc/self/cgroup; "" = none */
        char mount[PATH_MAX]; /* mount point of the hierarchy; "" = none */
        char below[PATH_MAX]; /* the group's directory below the mount; "" = the mount itself */
};

/* Whether a list such as "cpu,memory" has the word. */
static bool list_has(const char *list, const char *word)
{
        size_t length = strlen(word);

        for (; list; list = strchr(list, ',')) {
                list += *list == ',';
                if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
                        return true;
        }
        return false;
}

static bool is_v2(const struct cgroup_search *search)
{
        return search->version == &versions[0];
}

/* "ID:CONTROLLERS:PATH"; version 2 has no controllers. */
static bool group_take(void *context, char *line)
{
        struct cgroup_search *search = context;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!path)
                return true;
        *path++ = '\0';
        controllers++;
        if (is_v2(search) ? *controllers != '\0' : !list_has(controllers, "memory"))
                return true;
        (void)snprintf(search->group, sizeof(search->group), "%s", path);
        return false;
}

/* The kernel escapes blanks and backslashes in paths as \ooo. */
static void unescape(char *text)
{
        char *to = text;

        for (; *text; text++) {
                unsigned code;

                if (*text == '\\' && sscanf(text + 1, "%3o", &code) == 1) {
                        *to++ = (char)code;
                        text += 3;
                } else {
                        *to++ = *text;
                }
        }
        *to = '\0';
}

/* "ID PARENT DEVICE ROOT MOUNT OPTIONS … - TYPE SOURCE OPTIONS" */
static bool mount_take(void *context, char *line)
{
        struct cgroup_search *search = context;
        char root[PATH_MAX], mount[PATH_MAX], type[32], options[256];
        const char *rest = strstr(line, " - ");
        size_t length;

        _Static_assert(PATH_MAX == 4096, "as the formats say");
        if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2 ||
            sscanf(rest, " - %31s %*s %255s", type, options) != 2)
                return true;
        if (strcmp(type, search->version->type) != 0 || (!is_v2(search) && !list_has(options, "memory")))
                return true;
        unescape(root);
        unescape(mount);
        /* In a container the root of the mount may be its own group's directory. */
        length = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(search->group, root, length) == 0 && (search->group[length] == '/' || !search->group[length]))
                memcpy(search->below, search->group + length, sizeof(search->group) - length);
        if (strcmp(search->below, "/") == 0 || strncmp(search->below, "/..", 3) == 0)
                search->below[0] = '\0';
        (void)snprintf(search->mount, sizeof(search->mount), "%s", mount);
        return false;
}

/* Notes a limit that is lower than the one before. */
static void lower(uint64_t *bytes, char text[AVAILABLE_LIMIT_SIZE], uint64_t found, const char *limit)
{
        if (found >= *bytes)
                return;
        *bytes = found;
        (void)snprintf(text, AVAILABLE_LIMIT_SIZE, "%s", limit);
}

/*
 * Takes one group's limit and use into account. Page cache that is not in use can be reclaimed, so it counts as free.
 */
static void read_group(const struct cgroup_version *version, const char *directory, bool own,
                       struct available_memory *memory)
{
        char limit[AVAILABLE_LIMIT_SIZE];
        uint64_t total, usage, reclaimable = 0, n;

        if (!number_in(directory, version->limit, "", &total) || total >= NO_LIMIT)
                return;
        (void)snprintf(limit, sizeof(limit), "%s of %s", version->limit,
                       own ? "the worker's control group" : "a control group above the worker's");
        lower(&memory->total, memory->total_limit, total, limit);
        if (!number_in(directory, version->usage, "", &usage))
                return;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(version->reclaimable); i++)
                if (number_in(directory, "memory.stat", version->reclaimable[i], &n))
                        reclaimable += n;
        usage -= reclaimable < usage ? reclaimable : usage;
        lower(&memory->available, memory->available_limit, usage < total ? total - usage : 0, limit);
}

/* This process's group and all above it, up to the root of the mount. */
static void read_groups(const struct available_memory_paths *paths, const struct cgroup_version *version,
                        struct available_memory *memory)
{
        FERRY_CLEANUP(cleanup_free) struct cgroup_search *search = calloc(1, sizeof(*search));
        char directory[2 * PATH_MAX];

        if (!search)
                return;
        search->version = version;
        lines_read(paths->cgroup, group_take, search);
        if (search->group[0] != '\0')
                lines_read(paths->mountinfo, mount_take, search);
        if (search->mount[0] == '\0')
                return;
        for (bool own = true;; own = false) {
                char *slash = strrchr(search->below, '/');

                (void)snprintf(directory, sizeof(directory), "%s%s", search->mount, search->below);
                read_group(version, directory, own, memory);
                if (!slash)
                        return;
                *slash = '\0';
        }
}

/* Under strict overcommit the kernel refuses what would exceed the commit limit, however much memory is free. */
static void read_commit_limit(const struct available_memory_paths *paths, struct available_memory *memory)
{
        static const char limit[] = "the machine's commit limit (vm.overcommit_memory is 2)";
        uint64_t mode, total, committed;

        if (!number_read(paths->overcommit, "", &mode) || mode != OVERCOMMIT_NEVER ||
            !number_read(paths->meminfo, "CommitLimit", &total))
                return;
        lower(&memory->total, memory->total_limit, total, limit);
        if (number_read(paths->meminfo, "Committed_AS", &committed))
                lower(&memory->available, memory->available_limit, committed < total ? total - committed : 0, limit);
}

void available_memory_read(const struct available_memory_paths *paths, struct available_memory *ret_memory)
{
        uint64_t n, swap = 0;

        if (!paths)
                paths = &system_paths;
        *ret_memory = (struct available_memory){ .total = UINT64_MAX, .available = UINT64_MAX };
        if (number_read(paths->meminfo, "MemTotal", &n))
                lower(&ret_memory->total, ret_memory->total_limit, n, "the machine's memory");
        (void)number_read(paths->meminfo, "SwapFree", &swap);
        if (number_read(paths->meminfo, "MemAvailable", &n))
                lower(&ret_memory->available, ret_memory->available_limit, n + swap, "the machine's memory");
        read_commit_limit(paths, ret_memory);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(versions); i++)
                read_groups(paths, &versions[i], ret_memory);
}
