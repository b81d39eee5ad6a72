/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "ucx_internal.h"

/*
 * The size of one request, and how many bytes are in flight.
 *
 * Over a long link of TCP payloads travel in fragments, which wait for no answer, and the window alone holds what is on
 * the way: its bytes grow with the round trip.
 *
 * Over a shorter one, and for payloads off the host, one rendezvous at a time is posted (queue.c), and it idles for two
 * round trips: while the permission to send travels, and while PUT is confirmed. So the chunk of a link grows with the
 * delay. It doubles if a rendezvous of twice the size would still take at most GROW_ROUNDS round trips and at most
 * UCX_RENDEZVOUS_US, because a posted rendezvous cannot be cancelled. It halves after a rendezvous that took more than
 * twice that limit. With a small delay the chunk stays at its first size, which suits the caches best; on loopback
 * always.
 *
 *   The round trip is the kernel's shortest of late (watch.c).
 *
 *   The duration of a rendezvous counts from its post or from the end of the rendezvous before it, whichever is later:
 *   rendezvous sent together are received one after the other.
 */

enum { GROW_ROUNDS = 64 };

/* UCX may wait on loopback for a processor, but not for the network. */
static bool is_long(const struct ucx_link *link)
{
        return link->rtt_us >= UCX_LONG_RTT_US && !ucx_of_link(link)->listen.loopback;
}

uint64_t ucx_window(struct link *base)
{
        const struct ucx_link *link = ucx_link_of(base);
        const struct ucx *ucx = ucx_of_link(link);
        uint64_t chunks = (uint64_t)link->chunk * ucx->window, most = (uint64_t)ucx->chunk_max * ucx->window;
        uint64_t on_the_way = is_long(link) ? at_most(link->rtt_us * UCX_LONG_RATE, most) : 0;

        return at_least(chunks, on_the_way);
}

uint64_t ucx_request_size(struct link *base, const struct stream *own, uint64_t offset, uint64_t limit)
{
        uint64_t most = at_most(limit, ucx_link_of(base)->chunk);
        uint8_t *address;
        uint64_t run = stream_run(own, offset, most, &address);

        /* Runs that are too short for a rendezvous each share one. */
        if (run < UCX_GATHER_BELOW && run < limit)
                return at_most(most, UCX_GATHER_SIZE);
        return run;
}

/* Device memory: chunk by chunk, so that the device copies the next chunk while UCX moves the last. */
static uint64_t fit_off_host(struct ucx_link *link, const struct stream *stream, uint64_t offset, uint64_t limit)
{
        uint8_t *address;
        struct memory *memory;
        uint64_t direct = ucx_gpudirect_run(link, stream, offset, at_most(limit, link->chunk), &address, &memory);

        if (direct > 0)
                return direct;
        if (limit > WIRE_INLINE_MAX && link_is_connecting(&link->base))
                return link->base.state == LINK_OPENING || link->base.loading ? 0 : WIRE_INLINE_MAX;
        limit = at_most(limit, link->chunk);
        return staging_has_room(ucx_of_link(link)->staging, stream, offset, limit) ? limit : 0;
}

/*
 * Over TCP, inline fragments are faster than a rendezvous
 *   - for pieces of memory, which UCX packs into a buffer for a rendezvous;
 *   - for short payloads: fragments cross the network once, a rendezvous three times. On loopback 64 KiB take 15 us
 *     instead of 24, 256 KiB 36 instead of 43, and 1 MiB the same;
 *   - for all payloads over a long link, for the same reason: two more copies cost less than two round trips.
 *
 * The message that opens a link carries a whole payload, so that the peer answers it (queue.c), and fragments wait for
 * that.
 */
uint64_t ucx_fit(struct link *base, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inline)
{
        uint8_t *address;
        uint64_t run;
        bool fragments;

        limit = at_most(limit, WIRE_CHUNK_MAX);
        run = stream_run(stream, offset, limit, &address);
        fragments =
                limit <= UCX_FRAGMENTS_BELOW || (run < limit && run < UCX_GATHER_BELOW) || is_long(ucx_link_of(base));
        *ret_inline = false;
        if (stream->off_host)
                return fit_off_host(ucx_link_of(base), stream, offset, limit);
        if (fragments && limit > WIRE_INLINE_MAX && link_is_connecting(base))
                return base->state == LINK_OPENING ? 0 : WIRE_INLINE_MAX;
        *ret_inline = fragments && limit > WIRE_INLINE_MAX && ucx_link_is_tcp(ucx_link_of(base));
        return *ret_inline ? at_most(limit, UCX_FRAGMENT_SIZE) : limit;
}

/* ---- measurements ---- */

void ucx_pace_bulk(struct ucx_link *link, uint64_t length, uint64_t posted_us)
{
        struct ucx *ucx = ucx_of_link(link);
        uint64_t now_us = clock_now_us(), most_us = at_most(GROW_ROUNDS * link->rtt_us, UCX_RENDEZVOUS_US), took_us;

        took_us = now_us - at_least(posted_us, link->bulk_done_us);
        link->bulk_done_us = now_us;
        if (ucx->listen.loopback || link->rtt_us == 0 || length < link->chunk || !ucx_link_is_tcp(link))
                return;
        if (took_us > 2 * most_us && link->chunk / 2 >= ucx->chunk_first)
                link->chunk /= 2;
        /* Assumes that twice the bytes take twice as long. */
        for (; 2 * took_us <= most_us && link->chunk <= ucx->chunk_max / 2; took_us *= 2) {
                link->chunk *= 2;
                link->room = true;
        }
        if (link->room)
                ucx_link_ready(link);
}
