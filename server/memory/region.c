/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/presence.h"
#include "base/util.h"
#include "region_internal.h"

_Static_assert((int)REGION_PATH_SIZE >= (int)PRESENCE_PATH_SIZE, "a path fits");

/* What the system says when there is no room: a full /dev/shm, a file size limit, RLIMIT_MEMLOCK; or no descriptor. */
static int classify(int r)
{
        if (r == -EMFILE || r == -ENFILE)
                return FERRY_E_LIMIT_REACHED;
        return r == -ENOSPC || r == -ENOMEM || r == -EFBIG || r == -EDQUOT ? FERRY_E_NO_SPACE : r;
}

static int file_allocate(int fd, size_t size)
{
        int r;
        do {
                r = fallocate(fd, 0, 0, (off_t)size);
        } while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

/* Makes the region's file and maps it. Leaves nothing behind on failure. 0 or -errno. */
static int memory_new(struct region *region, uint64_t epoch)
{
        presence_region_path(epoch, region->id, region->path);
        FERRY_CLEANUP(cleanup_close)
        int fd = open(region->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        int r = file_allocate(fd, region->size);
        if (r == 0) {
                region->address = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
                if (region->address == MAP_FAILED)
                        r = -errno;
        }
        if (r < 0)
                (void)unlink(region->path);
        return r;
}

static void memory_unlink(const struct region *region)
{
        if (region->path[0] != '\0' && unlink(region->path) < 0 && errno != ENOENT)
                log_event(LOG_WARN, "region file not removed", LOG_U("errno", errno));
}

static int registration_new(const struct region_registrar *registrar, struct region *region)
{
        return registrar->enroll ? registrar->enroll(registrar->context, region->address, region->size,
                                                     region->path[0] ? region->id : 0, &region->registration)
                                 : 0;
}

static void registration_withdraw(const struct region_registrar *registrar, struct region *region)
{
        if (registrar->withdraw)
                registrar->withdraw(registrar->context, region->registration);
}

/* A region without memory, with one reference. NULL when memory is short. */
static struct region_private *private_new(struct region_table *table, size_t size, const char *device, const char *name)
{
        struct region_private *private = calloc(1, sizeof(*private));
        if (!private)
                return NULL;
        private->table = table;
        atomic_fetch_add(&table->references, 1);
        atomic_init(&private->references, 1);
        struct region *region = &private->region;
        region->private = private;
        region->id = random_id();
        region->size = size;
        region->created_unix_ms = clock_unix_ms();
        (void)snprintf(region->name, sizeof(region->name), "%s", name ? name : "");
        (void)snprintf(region->device, sizeof(region->device), "%s", device);
        return private;
}

static struct region_private *private_free(struct region_private *private)
{
        region_table_unref(private->table);
        free(private);
        return NULL;
}

/* Registers and lists memory that is there. On success the region has one more reference, the caller's. */
static int region_list(struct region_table *table, struct region_private *private)
{
        int r = registration_new(&table->config.registrar, &private->region);
        if (r != 0)
                return r;
        atomic_fetch_add(&private->references, 1);
        r = region_table_add(table, private);
        if (r != 0)
                registration_withdraw(&table->config.registrar, &private->region);
        return r;
}

/* The part of region_create that follows the reservation. */
static int create_reserved(struct region_table *table, size_t size, const char *device, const char *name,
                           struct region **ret_region)
{
        struct region_private *private = private_new(table, size, device, name);
        if (!private)
                return -ENOMEM;
        struct region *region = &private->region;
        int r = memory_new(region, table->config.epoch);
        if (r == 0) {
                r = region_list(table, private);
                if (r != 0) {
                        memory_unlink(region);
                        (void)munmap(region->address, region->size);
                }
        }
        if (r != 0) {
                private_free(private);
                return r;
        }
        *ret_region = region;
        return 0;
}

static int adopt_reserved(struct region_table *table, void *address, size_t size, const char *device, const char *name,
                          struct region **ret_region)
{
        struct region_private *private = private_new(table, size, device, name);
        if (!private)
                return -ENOMEM;
        private->region.address = address;
        int r = region_list(table, private);
        if (r != 0) {
                private_free(private);
                return r;
        }
        *ret_region = &private->region;
        return 0;
}

static int parameters_check(uint64_t size, const char *device, const char *name)
{
        if (!device || strcmp(device, "cpu") != 0)
                return FERRY_E_UNKNOWN_DEVICE;
        if (size == 0 || (name && strlen(name) >= REGION_NAME_SIZE))
                return FERRY_E_INVALID_PARAMETER;
        return size > INT64_MAX || size > SIZE_MAX ? FERRY_E_NO_SPACE : 0;
}

int region_create(struct region_table *table, uint64_t size, const char *device, const char *name,
                  struct region **ret_region)
{
        int r = parameters_check(size, device, name);
        if (r == 0)
                r = region_table_reserve(table, size);
        if (r != 0)
                return r;
        r = create_reserved(table, (size_t)size, device, name, ret_region);
        if (r != 0)
                region_table_cancel(table, size);
        return classify(r);
}

int region_adopt(struct region_table *table, void *address, size_t size, const char *device, const char *name,
                 struct region **ret_region)
{
        int r = parameters_check(size, device, name);
        if (r == 0 && !address)
                r = FERRY_E_INVALID_PARAMETER;
        if (r == 0)
                r = region_table_reserve(table, 0);
        if (r != 0)
                return r;
        r = adopt_reserved(table, address, size, device, name, ret_region);
        if (r != 0)
                region_table_cancel(table, 0);
        return classify(r);
}

void region_retire(struct region *region)
{
        registration_withdraw(&region->private->table->config.registrar, region);
        memory_unlink(region);
        region_unref(region);
}

struct region *region_ref(struct region *region)
{
        atomic_fetch_add(&region->private->references, 1);
        return region;
}

struct region *region_unref(struct region *region)
{
        if (!region || atomic_fetch_sub(&region->private->references, 1) != 1)
                return NULL;
        struct region_private *private = region->private;
        if (region->path[0] != '\0') {
                (void)munmap(region->address, region->size);
                region_table_release_bytes(private->table, region->size);
        }
        private_free(private);
        return NULL;
}

int region_use(struct region *region)
{
        uint32_t state = atomic_load(&region->private->state);
        do {
                if (state & REGION_DELETED)
                        return FERRY_E_NOT_FOUND;
        } while (!atomic_compare_exchange_weak(&region->private->state, &state, state + 1));
        return 0;
}

void region_unuse(struct region *region)
{
        atomic_fetch_sub(&region->private->state, 1);
}

bool region_deleted(const struct region *region)
{
        return (atomic_load(&region->private->state) & REGION_DELETED) != 0;
}

int region_stream_begin(struct region *region)
{
        int r = 0;

        if (region->path[0] == '\0')
                r = region_use(region);
        else if (region_deleted(region))
                r = FERRY_E_NOT_FOUND;
        if (r == 0)
                (void)region_ref(region);
        return r;
}

void region_stream_end(struct region *region)
{
        if (region->path[0] == '\0')
                region_unuse(region);
        (void)region_unref(region);
}

uint32_t region_in_use(const struct region *region)
{
        return atomic_load(&region->private->state) & ~REGION_DELETED;
}
