/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/presence.h"
#include "base/util.h"
#include "lease.h"

enum { BUSY = 1, REVOKED = 2, FLAG_BITS = 2 };
enum { TABLE_SIZE = LEASE_TABLE * LEASE_SLOT_SIZE };

struct leases {
        char path[PRESENCE_PATH_SIZE];
        struct lease_slot *slots;
        uint64_t given; /* numbers so far */
        size_t n_free;
        uint32_t free[LEASE_TABLE];
};

/* ---- the holder ---- */

bool lease_enter(struct lease_slot *slot, uint64_t number)
{
        uint64_t open = number << FLAG_BITS;

        /* In one order with lease_revoke's: either it sees BUSY, or we see REVOKED. */
        return atomic_compare_exchange_strong(&slot->word, &open, open | BUSY);
}

bool lease_leave(struct lease_slot *slot)
{
        return (atomic_fetch_and(&slot->word, ~(uint64_t)BUSY) & REVOKED) == 0;
}

/* ---- the owner ---- */

static int table_map(struct leases *leases)
{
        FERRY_CLEANUP(cleanup_close)
        int fd = open(leases->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        void *slots;
        int r;

        if (fd < 0)
                return -errno;
        r = -posix_fallocate(fd, 0, TABLE_SIZE); /* a hole in a full /dev/shm would be SIGBUS */
        slots = r == 0 ? mmap(NULL, TABLE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (r == 0 && slots == MAP_FAILED)
                r = -errno;
        if (r < 0) {
                (void)unlink(leases->path);
                return r;
        }
        leases->slots = slots;
        return 0;
}

int leases_new(uint64_t epoch, struct leases **ret_leases)
{
        FERRY_CLEANUP(cleanup_free) struct leases *leases = calloc(1, sizeof(*leases));
        int r;

        if (!leases)
                return -ENOMEM;
        presence_path(epoch, LEASE_FILE, leases->path);
        r = table_map(leases);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < LEASE_TABLE; i++)
                leases->free[i] = i;
        leases->n_free = LEASE_TABLE;
        *ret_leases = FERRY_STEAL(leases);
        return 0;
}

struct leases *leases_free(struct leases *leases)
{
        if (!leases)
                return NULL;
        (void)unlink(leases->path);
        (void)munmap(leases->slots, TABLE_SIZE);
        free(leases);
        return NULL;
}

bool lease_give(struct leases *leases, struct lease *ret_lease)
{
        struct lease lease = { .leases = leases };

        if (leases->n_free == 0)
                return false;
        lease.slot = leases->free[--leases->n_free];
        lease.number = ++leases->given;
        atomic_store(&leases->slots[lease.slot].word, lease.number << FLAG_BITS);
        *ret_lease = lease;
        return true;
}

struct lease_slot *lease_slot(const struct lease *lease)
{
        return &lease->leases->slots[lease->slot];
}

void lease_revoke(const struct lease *lease)
{
        (void)atomic_fetch_or(&lease_slot(lease)->word, REVOKED);
}

bool lease_is_busy(const struct lease *lease)
{
        return (atomic_load(&lease_slot(lease)->word) & BUSY) != 0;
}

void lease_drop(struct lease *lease)
{
        struct leases *leases = lease->leases;

        atomic_store(&leases->slots[lease->slot].word, lease->number << FLAG_BITS | REVOKED);
        leases->free[leases->n_free++] = lease->slot;
        *lease = (struct lease){ 0 };
}
