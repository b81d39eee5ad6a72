/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/presence.h"
#include "base/util.h"
#include "lease.h"
#include "mapping.h"

enum { BLOCK = 2 << 20, BITS = 8 };

static void drop(struct mappings *mappings, struct mapping *mapping)
{
        if (mapping->users == 0)
                DL_DELETE(mappings->idle, mapping);
        HASH_DEL(mappings->by_key, mapping);
        (void)munmap(mapping->address, mapping->size);
        free(mapping->ready);
        free(mapping);
}

static void drop_or_doom(struct mappings *mappings, struct mapping *mapping)
{
        if (mapping->users > 0)
                mapping->doomed = true;
        else
                drop(mappings, mapping);
}

/* The name is made here, of numbers: no path ever comes from a peer. */
static int map_file(struct mapping *mapping)
{
        bool writable = mapping->key.writable != 0;
        char path[PRESENCE_PATH_SIZE];
        struct stat st;
        void *address;

        if (mapping->key.file == MAPPING_LEASES)
                presence_path(mapping->key.epoch, LEASE_FILE, path);
        else
                presence_region_path(mapping->key.epoch, mapping->key.file, path);
        FERRY_CLEANUP(cleanup_close) int fd = presence_open_file(path, writable ? O_RDWR : O_RDONLY);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size <= 0 ||
            (mapping->key.file == MAPPING_LEASES && st.st_size != (off_t)LEASE_TABLE * LEASE_SLOT_SIZE))
                return -EBADMSG;
        address = mmap(NULL, (size_t)st.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
        if (address == MAP_FAILED)
                return -errno;
        mapping->address = address;
        mapping->size = (size_t)st.st_size;
        return 0;
}

static bool make_room(struct mappings *mappings)
{
        if (HASH_COUNT(mappings->by_key) < MAPPINGS_MAX)
                return true;
        if (!mappings->idle)
                return false;
        drop(mappings, mappings->idle);
        return true;
}

int mapping_get(struct mappings *mappings, uint64_t epoch, uint64_t file, bool writable, struct mapping **ret_mapping)
{
        struct mapping_key key = { .epoch = epoch, .file = file, .writable = writable };
        struct mapping *mapping;
        int r;

        HASH_FIND(hh, mappings->by_key, &key, sizeof(key), mapping);
        if (mapping) {
                if (mapping->doomed)
                        return -ENOENT;
                if (mapping->users == 0)
                        DL_DELETE(mappings->idle, mapping);
                *ret_mapping = mapping_share(mapping);
                return 0;
        }
        if (!make_room(mappings))
                return -ENOSPC;
        mapping = calloc(1, sizeof(*mapping));
        if (!mapping)
                return -ENOMEM;
        mapping->key = key;
        r = map_file(mapping);
        if (r == 0) {
                mapping->ready = calloc(mapping->size / BLOCK / BITS + 1, 1);
                if (!mapping->ready) {
                        (void)munmap(mapping->address, mapping->size);
                        r = -ENOMEM;
                }
        }
        if (r < 0) {
                free(mapping);
                return r;
        }
        HASH_ADD(hh, mappings->by_key, key, sizeof(mapping->key), mapping);
        *ret_mapping = mapping_share(mapping);
        return 0;
}

struct mapping *mapping_share(struct mapping *mapping)
{
        mapping->users++;
        return mapping;
}

void mapping_put(struct mappings *mappings, struct mapping *mapping)
{
        mapping->last_used_us = clock_now_us();
        if (--mapping->users > 0)
                return;
        DL_APPEND(mappings->idle, mapping);
        if (mapping->doomed)
                drop(mappings, mapping);
}

void mapping_prepare(struct mapping *mapping, size_t offset, size_t size)
{
        if (!mapping->key.writable)
                return; /* a fault for reading brings in the pages around it, and that is cheaper still */
        for (size_t block = offset / BLOCK; block <= (offset + size - 1) / BLOCK; block++) {
                uint8_t bit = (uint8_t)(1U << block % BITS), *byte = &mapping->ready[block / BITS];
                size_t start = block * BLOCK, rest = mapping->size - start;

                if (*byte & bit)
                        continue;
                *byte |= bit;
                /* Linux before 5.14 does not know it; then the copy faults. */
                (void)madvise(mapping->address + start, rest < BLOCK ? rest : BLOCK, MADV_POPULATE_WRITE);
        }
}

void mappings_forget(struct mappings *mappings, uint64_t epoch, uint64_t file)
{
        for (int writable = 0; writable < 2; writable++) {
                struct mapping_key key = { .epoch = epoch, .file = file, .writable = (uint64_t)writable };
                struct mapping *mapping;

                HASH_FIND(hh, mappings->by_key, &key, sizeof(key), mapping);
                if (mapping)
                        drop_or_doom(mappings, mapping);
        }
}

void mappings_forget_worker(struct mappings *mappings, uint64_t epoch)
{
        struct mapping *mapping, *next;

        HASH_ITER (hh, mappings->by_key, mapping, next)
                if (mapping->key.epoch == epoch)
                        drop_or_doom(mappings, mapping);
}

void mappings_drop_unused(struct mappings *mappings, uint64_t before_us)
{
        while (mappings->idle && mappings->idle->last_used_us < before_us)
                drop(mappings, mappings->idle);
}

void mappings_clear(struct mappings *mappings)
{
        struct mapping *mapping, *next;

        HASH_ITER (hh, mappings->by_key, mapping, next)
                drop(mappings, mapping);
}
