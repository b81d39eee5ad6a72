/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <stdbool.h>
#include <string.h>

#include "memory/gpu.h"
#include "transport/transport.h"

_Static_assert(sizeof(struct gpu_share) == 88, "no padding");

_Static_assert(sizeof(struct frame) == 40 && sizeof(struct frame_extent) == 24, "no padding");
_Static_assert(FRAME_EXTENTS_MAX * sizeof(struct frame_extent) + FRAME_DIGESTS_MAX * sizeof(uint64_t) <=
                       FRAME_INLINE_MAX,
               "extents and digests fit into a datagram");

/* Which fields each type uses; the others must be 0. */
static const struct {
        bool id, size, number, gpu_path;
        size_t descriptors, body;
        uint32_t n_max;
} shapes[FRAME_TYPE_END] = {
        [FRAME_HELLO] = { .id = true, .descriptors = 1 },
        [FRAME_MESSAGE] = { .id = true, .size = true, .number = true, .gpu_path = true },
        [FRAME_MAP] = { .id = true, .size = true, .descriptors = 1 },
        [FRAME_RELEASE] = { .number = true, .gpu_path = true },
        [FRAME_UNMAP] = { .id = true },
        [FRAME_MAP_GPU] = { .id = true, .size = true, .body = sizeof(struct gpu_share) },
        [FRAME_MAPPED] = { .id = true, .n_max = 1 },
        [FRAME_UNMAPPED] = { .id = true },
        [FRAME_WAKE] = { 0 },
        [FRAME_IDLE] = { .id = true },
};

static bool is_message(const struct frame *f, size_t size)
{
        if (size < FRAME_PAYLOAD)
                return false;
        size -= FRAME_PAYLOAD;
        if (f->number == 0)
                return f->n == 0 && f->slot == 0 && f->id == 0 && f->size == size && size <= FRAME_INLINE_MAX;
        return f->n > 0 && f->n <= FRAME_EXTENTS_MAX && f->slot < FRAME_LEASES && f->size > 0 &&
               (f->id == 0 || (f->id <= FRAME_DIGESTS_MAX && f->id == frame_digests(f->size))) &&
               size == f->n * sizeof(struct frame_extent) + f->id * sizeof(uint64_t);
}

static bool is_other(const struct frame *f, size_t size)
{
        bool named = !shapes[f->type].number || f->number != 0;

        return size == sizeof(*f) + shapes[f->type].body && f->n <= shapes[f->type].n_max && named &&
               (f->type == FRAME_RELEASE ? f->slot < FRAME_LEASES : f->slot == 0);
}

static bool is_sane(const struct frame *f, size_t size, size_t n_descriptors)
{
        if (f->type == 0 || f->type >= FRAME_TYPE_END || f->gpu_path > GPU_PATH_STAGED ||
            n_descriptors != shapes[f->type].descriptors)
                return false;
        if ((!shapes[f->type].id && f->id) || (!shapes[f->type].size && f->size) ||
            (!shapes[f->type].number && f->number) || (!shapes[f->type].gpu_path && f->gpu_path))
                return false;
        return f->type == FRAME_MESSAGE ? is_message(f, size) : is_other(f, size);
}

enum frame_verdict frame_decode(const void *bytes, size_t size, size_t n_descriptors, struct frame *ret_frame)
{
        struct frame f = { 0 };

        if (size < offsetof(struct frame, type))
                return FRAME_INVALID;
        memcpy(&f, bytes, size < sizeof(f) ? size : sizeof(f));
        if (f.magic != FRAME_MAGIC)
                return FRAME_INVALID;
        *ret_frame = f;
        if (f.protocol != FERRY_PROTOCOL)
                return FRAME_OTHER_PROTOCOL;
        return size >= sizeof(f) && is_sane(&f, size, n_descriptors) ? FRAME_OK : FRAME_INVALID;
}
