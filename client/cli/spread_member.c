/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "spread.h"

/*
 * A member of a spread, from its region to its end. It waits until an earlier member has bytes that it lacks, makes an
 * offer of them there, and reads it; the offer follows the earlier member's own read while that lasts. A read that
 * fails leaves the bytes that came; the next one goes on behind them. After MEMBER_TRIES reads in a row without a byte,
 * or when its worker does not answer, the member is left out.
 */

enum { MEMBER_TRIES = 3 };

/* ---- its end ---- */

/* Forgets resources that are not ours to delete, or those of a worker that does not answer: they ended with it, or will
 * expire. */
static void job_forget(struct job *job)
{
        ferry_operation_clear(&job->operation);
        job->region = (struct ferry_region){ 0 };
}

void member_stop(struct member *member)
{
        job_end(&member->read);
        job_end(&member->offer);
}

void member_end(struct member *member)
{
        if (member->into.id)
                job_forget(&member->home);
        job_end(&member->home);
}

void member_fail_because(struct member *member, const char *why)
{
        member->state = MEMBER_FAILED;
        snprintf(member->why, sizeof(member->why), "%s", why);
        (void)cli_problem("%s is left out: %s", member->name, why);
        member_stop(member);
}

void member_fail(struct spread *spread, struct member *member, int r)
{
        char why[sizeof(member->why)];
        if (member->state == MEMBER_FAILED || signals_caught())
                return;
        snprintf(why, sizeof(why), "%s", ferry_last_message(member->worker.ferry));
        if (r < 0) {
                job_forget(&member->read);
                job_forget(&member->home);
                for (size_t i = 0; i < spread->n; i++)
                        if (spread->members[i].offer.worker == &member->worker)
                                job_forget(&spread->members[i].offer);
        }
        member_fail_because(member, why);
}

/* The read failed without a byte: the next try reads from a member further back. */
static void member_strike(struct member *member, const char *why)
{
        if (++member->strikes >= MEMBER_TRIES)
                member_fail_because(member, why);
}

/* ---- its region ---- */

static void member_find_region(struct spread *spread, struct member *member)
{
        char why[96];
        int r = ferry_get_region(member->worker.ferry, member->into.id, &member->home.region);
        if (r != 0) {
                member_fail(spread, member, r);
        } else if (member->home.region.size < spread->size) {
                snprintf(why, sizeof(why), "its region has only %" PRIu64 " of %" PRIu64 " bytes",
                         member->home.region.size, spread->size);
                member_fail_because(member, why);
        }
}

/* All regions are made at once. */
static void member_make_region(struct spread *spread, struct member *member)
{
        int r = job_begin_region(&member->home, spread->size, spread->cli->name, 0);
        if (r != 0)
                member_fail(spread, member, r);
        else if (!member->home.region.id[0])
                member_fail_because(member, "what answers is no worker");
}

void member_open(struct spread *spread, struct member *member)
{
        if (member->into.id)
                member_find_region(spread, member);
        else
                member_make_region(spread, member);
}

static void member_await_region(struct spread *spread, struct member *member)
{
        struct ferry_region region;
        int r = ferry_get_region(member->worker.ferry, member->home.region.id, &region);
        if (r != 0)
                member_fail(spread, member, r);
        else if (strcmp(region.state, "failed") == 0)
                member_fail_because(member, "its region could not be made");
        else
                member->ready = strcmp(region.state, "preparing") != 0;
        if (r == 0)
                member->prepared = member->ready ? spread->size : region.bytes_prepared;
}

/* ---- where it reads from ---- */

/* The member before it that has not failed; as many further back as it has failed to read. NULL = the source. */
static struct member *member_before(struct spread *spread, size_t i)
{
        unsigned skip = spread->members[i].strikes;
        while (i-- > 0) {
                if (spread->members[i].state == MEMBER_FAILED)
                        continue;
                if (skip-- == 0)
                        return &spread->members[i];
        }
        return NULL;
}

/* Finds the next bytes that a member can read from another one. false: none now. */
static bool member_finds(const struct spread *spread, const struct member *member, const struct member *from,
                         uint64_t *ret_to, const char **ret_follow)
{
        *ret_follow = NULL;
        *ret_to = from->state == MEMBER_DONE ? spread->size : from->prefix;
        if (member->prefix < *ret_to)
                return true;
        *ret_to = from->to;
        *ret_follow = from->read.operation.id;
        return from->state == MEMBER_READS && member->prefix < from->to;
}

/*
 * Offers the bytes that the member lacks, up to to, at the worker of home. follow: the read that still brings them;
 * NULL = they are there. Returns the result of the call.
 */
static int offer_make(struct spread *spread, struct member *member, const struct job *home, const char *follow,
                      uint64_t to)
{
        struct ferry_descriptor descriptor = { .region = home->region.id,
                                               .offset = member->prefix,
                                               .size = to - member->prefix };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE,
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .include_metadata = true,
                                             .label = spread->cli->label,
                                             .follow = follow };
        member->offer = (struct job){ .cli = spread->cli, .worker = home->worker };
        signals_defer();
        int r = ferry_create_operation(home->worker->ferry, &spec, &member->offer.operation);
        signals_resume();
        return r;
}

/*
 * Has the member's worker read them. All members but the last relay: others read from them meanwhile. The result of the
 * call.
 */
static int read_make(struct spread *spread, struct member *member, const char *metadata, uint64_t to)
{
        struct ferry_descriptor descriptor = { .region = member->home.region.id,
                                               .offset = member->prefix,
                                               .size = to - member->prefix };
        struct ferry_operation_spec spec = { .kind = FERRY_READ,
                                             .layout = FERRY_LAYOUT_STREAM,
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .remote_metadata = metadata,
                                             .label = spread->cli->label,
                                             .relay = member < &spread->members[spread->n - 1],
                                             .verify = true };
        signals_defer();
        int r = ferry_create_operation(member->worker.ferry, &spec, &member->read.operation);
        signals_resume();
        return r;
}

static void member_starts(struct spread *spread, struct member *member, const char *metadata, uint64_t to)
{
        int r = read_make(spread, member, metadata, to);
        if (r != 0) {
                member_fail(spread, member, r);
                return;
        }
        member->to = to;
        member->state = MEMBER_READS;
}

static int member_begin_at_source(struct spread *spread, struct member *member)
{
        if (!spread->source.region.id[0]) { /* an offer is read whole */
                member->prefix = 0;
                member_starts(spread, member, spread->remote.metadata, spread->size);
                return CLI_OK;
        }
        int r = offer_make(spread, member, &spread->source, NULL, spread->size);
        if (r == 0)
                member_starts(spread, member, member->offer.operation.metadata, spread->size);
        return cli_result(spread->source.worker, r);
}

int member_begin(struct spread *spread, size_t i)
{
        struct member *member = &spread->members[i], *from;
        const char *follow;
        uint64_t to;
        if (!member->ready)
                member_await_region(spread, member);
        if (!member->ready || member->state != MEMBER_WAITS)
                return CLI_OK;
        from = member_before(spread, i);
        if (!from)
                return member_begin_at_source(spread, member);
        if (!member_finds(spread, member, from, &to, &follow))
                return CLI_OK;
        int r = offer_make(spread, member, &from->home, follow, to);
        if (r == 0)
                member_starts(spread, member, member->offer.operation.metadata, to);
        else if (r < 0 || r == FERRY_E_NOT_FOUND)
                member_fail(spread, from, r);
        else if (r != FERRY_E_GONE) /* the read to follow has just failed; the next check will see that */
                member_strike(member, ferry_last_message(from->worker.ferry));
        return CLI_OK;
}

/* ---- how it goes ---- */

/* The member's read has ended: it is done, waits for more bytes, or has failed once more. */
static void member_ended(struct spread *spread, struct member *member, const struct ferry_operation *now)
{
        uint64_t before = member->prefix;
        char why[sizeof(member->why)];
        snprintf(why, sizeof(why), "%s: %.180s", now->error_code, now->error_detail);
        member->prefix = now->status == FERRY_COMPLETE ? member->to : before + now->bytes_prefix;
        member->bytes = member->prefix;
        snprintf(member->transport, sizeof(member->transport), "%s", now->transport);
        member->state = member->prefix == spread->size ? MEMBER_DONE : MEMBER_WAITS;
        member_stop(member);
        if (member->prefix > before)
                member->strikes = 0;
        else
                member_strike(member, why);
}

void member_look(struct spread *spread, size_t i, uint64_t wait_ms)
{
        struct member *member = &spread->members[i];
        struct ferry_operation now = { 0 };
        int r = ferry_get_operation(member->worker.ferry, member->read.operation.id, wait_ms, 0, &now);
        if (r != 0) {
                member_fail(spread, member, r);
                return;
        }
        member->bytes = member->prefix + now.bytes_done;
        if (now.done) {
                member->read.operation.done = true;
                member_ended(spread, member, &now);
        }
        ferry_operation_clear(&now);
}
