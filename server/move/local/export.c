/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * Exports: memory of this worker that a peer of a link has mapped, or was told to map. Registering keeps a read-only
 * memfd, or the handle of GPU memory; a link's peer gets it with the first message that uses the memory (FRAME_MAP),
 * and maps it until FRAME_UNMAP, which deregistration sends and whatever makes room for other memory. A peer maps
 * FRAME_MEMORIES_MAX memories at most, so of those the least recently used are taken back.
 *
 * GPU memory is opened by the peer, which may take long or fail: until its answer comes messages that use it wait
 * (export_is_decided), and no new one uses it while it is to be taken back. Thread: the progress thread, but for
 * export_register(), which any thread may call.
 */

/* Leaves room for the memories of one message and for the bounce buffers. */
enum { EXPORTS_MAX = FRAME_MEMORIES_MAX - FRAME_EXTENTS_MAX - 1 };

/* ---- memory ---- */

/* The driver may take its time: here it may. NULL: it has no handles for such memory, which is staged then. */
static struct gpu_share *share_new(const struct space *space)
{
        struct gpu_share *share = malloc(sizeof(*share));

        if (share && gpu_share(space, share) < 0) {
                free(share);
                share = NULL;
        }
        return share;
}

/*
 * A memory that cannot be opened anew, as without /proc, is no fault: its bytes travel through bounce buffers. Only
 * where descriptors or memory are short does the registration fail, since the user can mend that.
 */
int export_register(struct transport *transport, struct memory *memory)
{
        struct memfd *memfd = NULL;
        int r = memory->fd < 0 ? 0 : memfd_open(memory->fd, &memfd);

        if (space_gpu(memory->space) >= 0)
                memory->handles[transport->index] = share_new(memory->space);
        else
                memory->handles[transport->index] = memfd;
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM) {
                log_event(LOG_ERROR, "memory registration failed", LOG_S("transport", transport->name),
                          LOG_S("reason", strerror(-r)), LOG_S("advice", "raise the limit of open files (ulimit -n)"));
                return r;
        }
        if (r < 0)
                log_event(LOG_INFO, "memory copied for local peers, not mapped", LOG_S("reason", strerror(-r)));
        return 0;
}

static struct export *find_export(const struct channel *channel, uint64_t id)
{
        struct export *export;

        HASH_FIND(hh, channel->exports, &id, sizeof(id), export);
        return export;
}

static void export_remove(struct channel *channel, struct export *export)
{
        HASH_DEL(channel->exports, export);
        if (export->prev)
                DL_DELETE(channel->lent, export);
        if (export->space)
                gpu_note_closed(export->space);
        free(export);
}

void exports_clear(struct channel *channel)
{
        while (channel->exports)
                export_remove(channel, channel->exports);
}

void export_unmapped(struct channel *channel, uint64_t id)
{
        struct export *export = find_export(channel, id);

        if (export && export->state == EXPORT_CLOSING)
                export_remove(channel, export);
}

/* Takes memory back from the peer, which unmaps it once it has read the messages before. */
static void take_back(struct channel *channel, struct export *export)
{
        const uint64_t id = export->id;

        if (export->state == EXPORT_CLOSING)
                return;
        channel->n_asked -= export->state == EXPORT_ASKED;
        if (export->space && link_is_usable(&channel->link))
                export->state = EXPORT_CLOSING;
        else
                export_remove(channel, export);
        channel_post_frame(channel, FRAME_OF(FRAME_UNMAP, .id = id), NULL);
}

/* Whether a message that is being loaded will name this memory of a GPU, instead of a copy. */
static bool is_loading(const struct channel *channel, uint64_t id)
{
        const struct message *m;

        DL_FOREACH (channel->link.loading, m)
                for (uint64_t done = 0; !m->stage->bytes && done < m->length;) {
                        struct memory *memory;
                        uint8_t *address;

                        done += stream_run_in_segment(m->stream, m->offset + done, m->length - done, &address, &memory);
                        if (memory->space && memory->id == id)
                                return true;
                }
        return false;
}

/* Host memory is mapped again by the next message that names it; GPU memory would have to be opened first. */
void export_idle(struct channel *channel, uint64_t id)
{
        struct export *export = find_export(channel, id);

        /* Otherwise the UNMAP is on its way, or it is no memory that can be mapped again. */
        if (!export || export->state != EXPORT_MAPPED || id == FRAME_BOUNCE_ID)
                return;
        if (is_loading(channel, id)) {
                export->state = EXPORT_ASKED;
                channel->n_asked++;
        } else {
                take_back(channel, export);
        }
}

void export_return_asked(struct channel *channel)
{
        struct export *export, *next;

        if (channel->n_asked > 0)
                HASH_ITER (hh, channel->exports, export, next)
                        if (export->state == EXPORT_ASKED && !is_loading(channel, export->id))
                                take_back(channel, export);
}

void export_deregister(struct transport *transport, struct memory *memory)
{
        struct local *local = local_of(transport);
        struct channel *channel;

        DL_FOREACH (local->channels, channel) {
                struct export *export = find_export(channel, memory->id);

                if (export)
                        take_back(channel, export);
        }
        if (memory->space)
                free(memory->handles[transport->index]);
        else
                (void)memfd_drop(memory->handles[transport->index]);
        memory->handles[transport->index] = NULL;
}

/* What this transport keeps of a memory: a struct memfd, a struct gpu_share, or NULL. */
static void *handle_of(const struct channel *channel, const struct memory *memory)
{
        return memory->handles[channel->link.transport->index];
}

static struct memfd *memfd_of_memory(const struct channel *channel, const struct memory *memory)
{
        return memory->space ? NULL : handle_of(channel, memory);
}

/* Whether the peer has the memory mapped, or will have before it reads the next message. */
static bool is_mapped(const struct channel *channel, uint64_t id)
{
        const struct export *export = find_export(channel, id);

        return export && (export->state == EXPORT_MAPPED || export->state == EXPORT_ASKED);
}

/* Whether a message may name the memory: mapped already, or with room for one more. GPU memory only once it is open. */
static bool is_mappable(const struct channel *channel, const struct memory *memory)
{
        if (memory->space)
                return is_mapped(channel, memory->id);
        return memfd_of_memory(channel, memory) &&
               (HASH_COUNT(channel->exports) < EXPORTS_MAX || is_mapped(channel, memory->id));
}

/* Enters a memory in the link's table. NULL when memory is short. */
static struct export *export_add(struct channel *channel, uint64_t id, int state)
{
        struct export *export = calloc(1, sizeof(*export));

        if (!export)
                return NULL;
        export->id = id;
        export->state = state;
        HASH_ADD(hh, channel->exports, id, sizeof(id), export);
        if (export->hh.tbl)
                return export;
        free(export);
        return NULL;
}

/* ---- memory of GPUs ---- */

/* Asks the peer to open GPU memory, once. Memory that has no handle, or that the peer cannot open, is staged. NULL: it
 * is not asked. */
static struct export *export_gpu_memory(struct channel *channel, const struct memory *memory)
{
        struct frame frame = FRAME_OF(FRAME_MAP_GPU, .id = memory->id, .size = memory->size);
        struct gpu_share *share = handle_of(channel, memory);
        struct iovec pieces[] = { { &frame, sizeof(frame) }, { share, sizeof(*share) } };
        struct export *export = NULL;

        if (share && HASH_COUNT(channel->exports) < EXPORTS_MAX)
                export = export_add(channel, memory->id, EXPORT_PENDING);
        if (!export)
                return NULL;
        export->space = memory->space;
        gpu_note_opened(memory->space);
        channel_post(channel, pieces, FERRY_ARRAY_SIZE(pieces), NULL);
        return export;
}

bool export_is_decided(struct channel *channel, const struct stream *stream, uint64_t offset)
{
        const struct export *export;
        struct memory *memory;
        uint8_t *address;

        if (!stream_space(stream, offset))
                return true;
        (void)stream_run_in_segment(stream, offset, 1, &address, &memory);
        export = find_export(channel, memory->id);
        if (!export)
                export = export_gpu_memory(channel, memory);
        return !export || (export->state != EXPORT_PENDING && export->state != EXPORT_ASKED);
}

void export_answered(struct channel *channel, uint64_t id, bool opened)
{
        struct export *export = find_export(channel, id);

        if (!export || export->state != EXPORT_PENDING)
                return; /* the memory was deregistered meanwhile */
        export->state = opened ? EXPORT_MAPPED : EXPORT_REFUSED;
        if (!opened)
                log_event(LOG_INFO, "GPU memory staged for a local peer, which cannot open it",
                          LOG_S("peer_epoch", channel_peer_epoch(channel, (char[FERRY_ID_TEXT_SIZE]){ 0 })));
}

/* ---- extents ---- */

/* Adds a run of bytes, joined with the one before where it can be. Returns false when the extents are full. */
static bool add_extent(struct extents *extents, const struct frame_extent *next)
{
        struct frame_extent *last = extents->n > 0 ? &extents->list[extents->n - 1] : NULL;

        if (last && last->memory == next->memory && last->offset + last->size == next->offset) {
                last->size += next->size;
                return true;
        }
        extents->full = extents->n == FRAME_EXTENTS_MAX;
        if (!extents->full)
                extents->list[extents->n++] = *next;
        return !extents->full;
}

uint64_t export_find_extents(const struct channel *channel, const struct stream *stream, uint64_t offset,
                             uint64_t limit, struct extents *extents)
{
        uint64_t found = 0;

        extents->n = 0;
        extents->full = false;
        while (found < limit) {
                struct memory *memory;
                uint8_t *address;
                uint64_t run = stream_run_in_segment(stream, offset + found, limit - found, &address, &memory);
                struct frame_extent next = { memory->id, (uint64_t)(address - memory->address), run };

                if (!is_mappable(channel, memory) || !add_extent(extents, &next))
                        break;
                found += run;
        }
        return found;
}

uint64_t export_count_unmappable(const struct channel *channel, const struct stream *stream, uint64_t offset,
                                 uint64_t limit)
{
        uint64_t found = 0;

        while (found < limit) {
                struct memory *memory;
                uint8_t *address;
                uint64_t run = stream_run_in_segment(stream, offset + found, limit - found, &address, &memory);

                if (is_mappable(channel, memory))
                        break;
                found += run;
        }
        return found;
}

/* Notes that the next lease names it. */
static void lend_again(struct channel *channel, struct export *export)
{
        if (export->prev) {
                DL_DELETE(channel->lent, export);
                DL_APPEND(channel->lent, export);
        }
        export->number = channel_local(channel)->lease_number + 1;
}

/* Has the peer map a memory, which it does before it reads the message that follows. NULL when memory is short. */
static struct export *lend(struct channel *channel, const struct memory *memory)
{
        struct export *export = export_add(channel, memory->id, EXPORT_MAPPED);

        if (!export)
                return NULL;
        DL_APPEND(channel->lent, export);
        channel_post_frame(channel, FRAME_OF(FRAME_MAP, .id = memory->id, .size = memory->size),
                           memfd_of_memory(channel, memory));
        return export;
}

/*
 * Makes room for the next message, at the cost of memory that neither this one nor a lease names: until its last lease
 * is released, the peer would count it beside what it maps instead. Messages that are being loaded keep their places.
 */
static void take_back_idle(struct channel *channel)
{
        uint64_t oldest, next = channel_local(channel)->lease_number + 1;

        if (HASH_COUNT(channel->exports) < EXPORTS_MAX || channel->link.loading)
                return;
        oldest = leases_oldest(&channel->leases);
        if (oldest > next)
                oldest = next;
        while (HASH_COUNT(channel->exports) >= EXPORTS_MAX && channel->lent && channel->lent->number < oldest)
                take_back(channel, channel->lent);
}

int export_stream(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint64_t last = FRAME_BOUNCE_ID;

        for (uint64_t done = 0; done < length;) {
                struct export *export;
                struct memory *memory;
                uint8_t *address;

                done += stream_run_in_segment(stream, offset + done, length - done, &address, &memory);
                if (memory->id == last)
                        continue;
                last = memory->id;
                export = find_export(channel, memory->id) ?: lend(channel, memory);
                if (!export)
                        return -ENOMEM;
                lend_again(channel, export);
        }
        take_back_idle(channel);
        return 0;
}

/* ---- bounce buffers ---- */

int export_bounce_buffers(struct channel *channel)
{
        struct export *export;
        struct memfd *memfd;
        int r;

        if (channel->leases.bounce)
                return 0;
        export = export_add(channel, FRAME_BOUNCE_ID, EXPORT_MAPPED);
        if (!export)
                return -ENOMEM;
        r = leases_make_bounce(&channel->leases, &memfd);
        if (r < 0) {
                export_remove(channel, export);
                return r;
        }
        channel_post_frame(channel,
                           FRAME_OF(FRAME_MAP, .id = FRAME_BOUNCE_ID, .size = (uint64_t)BOUNCE_BUFFERS * BOUNCE_SIZE),
                           memfd);
        (void)memfd_drop(memfd);
        return 0;
}
