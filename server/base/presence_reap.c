/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/presence.h"
#include "base/util.h"
#include "presence_internal.h"

enum { EPOCH_DIGITS = 16 };

/* Whether name is ferry-<16 lower case digits> or that with "-…" after it. */
static bool name_parse(const char *name, uint64_t *ret_epoch)
{
        size_t prefix = strlen(PRESENCE_PREFIX);
        if (strncmp(name, PRESENCE_PREFIX, prefix) != 0)
                return false;
        const char *digits = name + prefix;
        if (strspn(digits, "0123456789abcdef") != EPOCH_DIGITS)
                return false;
        if (digits[EPOCH_DIGITS] != '\0' && digits[EPOCH_DIGITS] != '-')
                return false;
        *ret_epoch = strtoull(digits, NULL, 16);
        return true;
}

/*
 * A worker makes its presence file before any other and unlinks it after all others: an epoch without one is over.
 * What cannot be told (another user's file, a strange one) counts as alive.
 */
static bool epoch_is_over(uint64_t epoch)
{
        FERRY_CLEANUP(cleanup_close) int fd = presence_open(epoch);
        if (fd < 0)
                return fd == -ENOENT;
        return presence_is_alive(fd) == 0;
}

static bool file_is_ours(int directory, const char *name)
{
        struct stat st;
        return fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

size_t presence_reap(void)
{
        DIR *directory = opendir(PRESENCE_DIRECTORY);
        if (!directory)
                return 0;
        size_t reaped = 0;
        for (struct dirent *entry; (entry = readdir(directory));) {
                uint64_t epoch;
                if (!name_parse(entry->d_name, &epoch) || !file_is_ours(dirfd(directory), entry->d_name) ||
                    !epoch_is_over(epoch))
                        continue;
                if (unlinkat(dirfd(directory), entry->d_name, 0) == 0)
                        reaped++;
        }
        (void)closedir(directory);
        if (reaped > 0)
                log_event(LOG_INFO, "files of dead workers removed", LOG_U("files", reaped));
        return reaped;
}
