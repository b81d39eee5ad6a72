/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_TREE_H
#define FILE_TREE_H

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

/* Files in a temporary directory that stand for the kernel's. */

static char root[] = "/tmp/ferry-tree-XXXXXX";

static inline int tree_make(void)
{
        strcpy(root + sizeof(root) - 7, "XXXXXX");
        return mkdtemp(root) ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
        return remove(path);
}

static inline int tree_drop(void **state)
{
        return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A file below the root; its directories are made. */
__attribute__((format(printf, 2, 3))) static inline void put(const char *name, const char *format, ...)
{
        char path[256];
        FILE *file;
        va_list arguments;

        snprintf(path, sizeof(path), "%s/%s", root, name);
        for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                (void)mkdir(path, 0700);
                *slash = '/';
        }
        file = fopen(path, "we");
        assert_non_null(file);
        va_start(arguments, format);
        vfprintf(file, format, arguments);
        va_end(arguments);
        fclose(file);
}

#endif
