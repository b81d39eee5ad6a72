/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"

struct pull *pull_new(size_t n)
{
        return calloc(1, sizeof(struct pull) + n * sizeof(struct pull_extent));
}

void pull_free(struct pull *pull, struct mappings *mappings)
{
        for (size_t i = 0; i < pull->n; i++)
                mapping_put(mappings, pull->extents[i].mapping);
        free(pull);
}

bool pull_claim(struct pull *pull, uint64_t limit, struct piece *ret_piece)
{
        uint64_t rest = pull->length - pull->claimed, length = rest < limit ? rest : limit;

        if (pull->stopped || length == 0)
                return false;
        *ret_piece = (struct piece){ pull, pull->extent, pull->inside, pull->claimed, length };
        pull->claimed += length;
        pull->running++;
        pull->inside += length;
        while (pull->extent < pull->n && pull->inside >= pull->extents[pull->extent].size)
                pull->inside -= pull->extents[pull->extent++].size;
        return true;
}

void pull_finish(struct pull *pull, const struct piece *piece, bool held)
{
        pull->running--;
        if (held)
                pull->copied += piece->length;
        else
                pull->stopped = true;
}

__attribute__((noinline)) void local_copy(void *to, const void *from, size_t size, bool past_caches)
{
        if (past_caches)
                copy_past_caches(to, from, size);
        else
                memcpy(to, from, size);
}

static void copy_runs(const struct piece *piece, bool past_caches)
{
        const struct pull_extent *extent = &piece->pull->extents[piece->extent];
        const struct message *message = piece->pull->message;
        uint64_t inside = piece->inside;

        for (uint64_t done = 0; done < piece->length;) {
                uint64_t run = piece->length - done;
                uint8_t *to;

                if (run > extent->size - inside)
                        run = extent->size - inside;
                run = stream_run(message->stream, message->offset + piece->offset + done, run, &to);
                local_copy(to, extent->address + inside, run, past_caches);
                done += run;
                inside += run;
                if (inside == extent->size) {
                        extent++;
                        inside = 0;
                }
        }
}

bool piece_copy(const struct piece *piece)
{
        const struct pull *pull = piece->pull;
        bool past_caches = pull->message->stream->total >= PULL_PAST_CACHES;

        if (!lease_holds(pull->lease, pull->number))
                return false;
        copy_runs(piece, past_caches);
        if (past_caches)
                copy_past_caches_end();
        return lease_held(pull->lease, pull->number);
}
