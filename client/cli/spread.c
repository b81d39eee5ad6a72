/* SPDX-License-Identifier: Apache-2.0 */
#include "spread.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <ferry/clock.h>

#include "cli.h"

/*
 * ferry copy and ferry spread. A copy has two ends, each a region or a file: bytes go from worker to worker, or through
 * content.c. A spread is a loop over its members (spread.h), each of which is a small state machine (spread_member.c);
 * at the end, digests that the workers make are compared range by range.
 */

/* ---- copy ---- */

/* One end of a copy: a region of some worker, or a file. */
struct end {
        const char *text;
        bool is_region;
        struct cli_worker worker; /* of the region */
        struct ferry_region region;
};

static int end_open(struct cli *cli, struct end *end)
{
        struct link link = { 0 };
        int r = link_parse(end->text, "regions", "rgn_", &link);
        if (r == -EINVAL && end->text[0] == '@')
                return cli_usage_error("%s is no region: a region of a worker is @NAME/rgn_ID, a file ./%s", end->text,
                                       end->text);
        if (r < 0)
                return r == -EINVAL ? CLI_OK : cli_usage_error("%s", strerror(-r)); /* a file */
        end->is_region = true;
        int status = cli_worker_named(cli, link.worker ? link.worker : cli->worker.url, WORKER_OWN, &end->worker);
        if (status == CLI_OK)
                status = cli_result(&end->worker, ferry_get_region(end->worker.ferry, link.id, &end->region));
        link_clear(&link);
        return status;
}

static int copy_in(const char *file, const struct end *to)
{
        struct content_input input = { .fd = -1 };
        int status = content_open(file, &input);
        if (status == CLI_OK && input.size > to->region.size)
                status = cli_usage_error("%s has %" PRIu64 " bytes, and %s only %" PRIu64, input.name, input.size,
                                         to->region.id, to->region.size);
        if (status == CLI_OK)
                status = content_fill(&to->worker, &to->region, &input);
        content_close(&input);
        return status;
}

static int copy_out(const struct end *from, const char *file)
{
        struct content_output output = { .fd = -1 };
        int status = content_create(file, &output);
        if (status == CLI_OK)
                status = content_reserved(&output, from->region.size, content_reserve(&output, from->region.size));
        if (status == CLI_OK)
                status = content_save(&from->worker, &from->region, &output, from->region.size);
        return content_end(&output, status);
}

/* The target's worker reads from the source's. */
static int copy_across(struct cli *cli, struct end *from, struct end *to)
{
        struct job offer = { .cli = cli, .worker = &from->worker }, read = { .cli = cli, .worker = &to->worker };
        struct ferry_operation_spec readable = { .kind = FERRY_READABLE, .include_metadata = true };
        struct ferry_operation_spec spec = { .kind = FERRY_READ };
        uint64_t size = from->region.size;
        if (size > to->region.size)
                return cli_usage_error("%s has %" PRIu64 " bytes, and %s only %" PRIu64, from->region.id, size,
                                       to->region.id, to->region.size);
        int status = job_make_operation(&offer, &readable, from->region.id, size);
        spec.remote_metadata = offer.operation.metadata;
        if (status == CLI_OK)
                status = job_make_operation(&read, &spec, to->region.id, size);
        if (status == CLI_OK)
                status = job_wait(&read);
        if (status == CLI_OK)
                status = job_report(&read);
        job_end(&read);
        job_end(&offer);
        return status;
}

int cli_run_copy(struct cli *cli, int argc, char **argv)
{
        struct end from = { .text = argv[1] }, to = { .text = argv[2] };
        signals_limit(cli);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = end_open(cli, &from);
        if (status == CLI_OK)
                status = end_open(cli, &to);
        if (status == CLI_OK) {
                if (from.is_region && to.is_region)
                        status = copy_across(cli, &from, &to);
                else if (to.is_region)
                        status = copy_in(from.text, &to);
                else if (from.is_region)
                        status = copy_out(&from, to.text);
                else
                        status = cli_usage_error("neither %s nor %s is a region (rgn_…): use cp", from.text, to.text);
        }
        worker_close(&from.worker);
        worker_close(&to.worker);
        return status;
}

/* ---- spread ---- */

enum { DIGEST_RANGE = 64 << 20 }; /* a worker's limit for a digest */

enum { DIGEST_SIZE = sizeof(((struct ferry_answer *)0)->content_digest) };

/* The digest of a range, which the worker makes where the bytes are. 0, or the call's result. */
static int digest_get(const struct job *home, uint64_t first, uint64_t last, char digest[DIGEST_SIZE])
{
        struct ferry_answer answer = { 0 };
        char path[64 + FERRY_ID_SIZE], range[80];
        const char *const headers[] = { range, "Want-Content-Digest: xxh3=10", NULL };
        struct ferry_exchange exchange = { .method = "HEAD", .path = path, .headers = headers };
        snprintf(path, sizeof(path), "/v1/regions/%s/content", home->region.id);
        snprintf(range, sizeof(range), "Range: bytes=%" PRIu64 "-%" PRIu64, first, last);
        int r = ferry_exchange_perform(home->worker->ferry, &exchange, &answer);
        memcpy(digest, answer.content_digest, DIGEST_SIZE);
        ferry_answer_clear(&answer);
        return r;
}

/* Leaves out the members whose digest of the range is not the wanted one. */
static void check_range(struct spread *spread, uint64_t first, uint64_t last, const char *wanted)
{
        char digest[DIGEST_SIZE], why[96];
        for (size_t i = 0; i < spread->n; i++) {
                struct member *member = &spread->members[i];
                if (member->state != MEMBER_DONE)
                        continue;
                int r = digest_get(&member->home, first, last, digest);
                if (r != 0) {
                        member_fail(spread, member, r);
                } else if (!*digest || strcmp(digest, wanted) != 0) {
                        snprintf(why, sizeof(why), "%s in bytes %" PRIu64 " to %" PRIu64,
                                 *digest ? "another digest" : "no digest", first, last);
                        member_fail_because(member, why);
                }
        }
}

/* The region to compare with: the source's, or the first complete one. */
static const struct job *reference(const struct spread *spread)
{
        if (spread->source.region.id[0])
                return &spread->source;
        for (size_t i = 0; i < spread->n; i++)
                if (spread->members[i].state == MEMBER_DONE)
                        return &spread->members[i].home;
        return NULL;
}

/*
 * Compares the members' regions with the source's, or with that of a member where the source is an offer. Returns
 * CLI_OK also when members were left out, or after a signal.
 */
static int spread_check(struct spread *spread)
{
        const struct job *home;
        uint64_t last;
        progress_begin("comparing", NULL, spread->size);
        for (uint64_t first = 0; first < spread->size; first = last + 1) {
                char wanted[DIGEST_SIZE];
                home = reference(spread);
                if (!home || signals_caught())
                        return CLI_OK;
                last = spread->size - first > DIGEST_RANGE ? first + DIGEST_RANGE - 1 : spread->size - 1;
                int status = cli_result(home->worker, digest_get(home, first, last, wanted));
                if (status != CLI_OK)
                        return status;
                check_range(spread, first, last, wanted);
                progress_move(last + 1);
        }
        progress_end();
        return CLI_OK;
}

enum { SPREAD_WATCH_MS = 200, SPREAD_LIST_MAX = 512 };

/*
 * How far all have come that are not left out, and each of them. Before the first of them has its region, nothing
 * moves: until then its allocation counts.
 */
static void spread_show(const struct spread *spread)
{
        char list[SPREAD_LIST_MAX];
        uint64_t done = spread->size;
        size_t used = 0;
        for (size_t i = 0; i < spread->n; i++) {
                const struct member *member = &spread->members[i];
                bool late = spread->moves && !member->ready;
                uint64_t bytes = spread->moves && member->ready ? member->bytes : member->prepared;
                if (member->state == MEMBER_FAILED)
                        continue;
                if (spread->moves && member->bytes < done)
                        done = member->bytes;
                else if (!spread->moves && !used)
                        done = member->prepared;
                if (used < sizeof(list))
                        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s %s%.0f%%", used ? ", " : "",
                                                 member->name, late ? "allocating " : "",
                                                 (double)bytes * 100 / (double)spread->size);
        }
        progress_tell(done, "%s", used ? list : "");
}

/* ---- the chain ---- */

/* The last member that reads: the others end before it, or soon after. n = none. */
static size_t spread_last(const struct spread *spread)
{
        for (size_t i = spread->n; i-- > 0;)
                if (spread->members[i].state == MEMBER_READS)
                        return i;
        return spread->n;
}

static bool spread_is_over(const struct spread *spread)
{
        for (size_t i = 0; i < spread->n; i++)
                if (spread->members[i].state == MEMBER_WAITS || spread->members[i].state == MEMBER_READS)
                        return false;
        return true;
}

/* While nothing moves yet, waits for a region that is being made. */
static void spread_await_region(struct spread *spread)
{
        for (size_t i = 0; i < spread->n; i++) {
                const struct member *member = &spread->members[i];
                if (member->state == MEMBER_WAITS && !member->ready) {
                        job_watch_region(&member->home, SPREAD_WATCH_MS);
                        return;
                }
        }
}

/* The second phase begins with the first read. */
static void spread_moves(struct spread *spread)
{
        if (spread->moves || spread_last(spread) == spread->n)
                return;
        spread_show(spread);
        spread->moves = true;
        progress_begin("transferring", NULL, spread->size);
}

static int spread_run(struct spread *spread)
{
        uint64_t kept_ms = 0;
        int status = CLI_OK;
        progress_begin("allocating", NULL, spread->size);
        while (status == CLI_OK && !spread_is_over(spread)) {
                size_t last;
                (void)content_keep(spread->source.worker, &spread->source.region, &kept_ms);
                for (size_t i = 0; status == CLI_OK && i < spread->n; i++)
                        if (spread->members[i].state == MEMBER_WAITS)
                                status = member_begin(spread, i);
                spread_moves(spread);
                last = spread_last(spread);
                if (last == spread->n)
                        spread_await_region(spread);
                for (size_t i = 0; i < spread->n; i++)
                        if (spread->members[i].state == MEMBER_READS)
                                member_look(spread, i, i == last ? SPREAD_WATCH_MS : 0);
                spread_show(spread);
                if (signals_caught())
                        status = CLI_PROBLEM;
        }
        progress_end();
        return status;
}

/* ---- the result ---- */

static void report_member(const struct member *member, struct json_object *list)
{
        struct json_object *object = json_object_new_object();
        bool done = member->state == MEMBER_DONE;
        json_object_object_add(object, "worker", json_object_new_string(member->name));
        json_object_object_add(object, "status", json_object_new_string(done ? "COMPLETE" : "ERRORED"));
        if (done) {
                json_object_object_add(object, "region", json_object_new_string(member->home.region.id));
                json_object_object_add(object, "transport", json_object_new_string(member->transport));
        } else {
                json_object_object_add(object, "detail", json_object_new_string(member->why));
        }
        json_object_array_add(list, object);
}

static int spread_report_json(const struct spread *spread)
{
        struct json_object *report = json_object_new_object(), *list = json_object_new_array();
        json_object_object_add(report, "size", json_object_new_int64((int64_t)spread->size));
        json_object_object_add(report, "duration_ms",
                               json_object_new_int64((int64_t)(spread->ended_ms - spread->start_ms)));
        for (size_t i = 0; i < spread->n; i++)
                report_member(&spread->members[i], list);
        json_object_object_add(report, "members", list);
        int status = table_print_document(report);
        json_object_put(report);
        return status;
}

/* What stands between a worker and the id of its region. */
static const char *region_separator(const char *worker)
{
        if (*worker == '@')
                return "/";
        return strncmp(worker, "unix:", 5) == 0 ? ":/v1/regions/" : "/v1/regions/";
}

/* Prints a line for each region, in the form that ferry copy takes. */
static int spread_report(const struct spread *spread)
{
        int status = CLI_OK;
        if (spread->cli->json)
                return spread_report_json(spread);
        for (size_t i = 0; status == CLI_OK && i < spread->n; i++) {
                const struct member *member = &spread->members[i];
                char *line = NULL;
                if (member->state != MEMBER_DONE)
                        continue;
                if (asprintf(&line, "%s%s%s", member->name, region_separator(member->name), member->home.region.id) < 0)
                        return cli_usage_error("%s", strerror(ENOMEM));
                status = cli_print(line);
                free(line);
        }
        return status;
}

/* Reports. The complete regions are the user's from here on: member_end() removes the others. Returns the exit status.
 */
static int spread_end(struct spread *spread)
{
        size_t n_done = 0;
        for (size_t i = 0; i < spread->n; i++)
                n_done += spread->members[i].state == MEMBER_DONE;
        int status = spread_report(spread);
        for (size_t i = 0; status == CLI_OK && i < spread->n; i++)
                if (spread->members[i].state == MEMBER_DONE)
                        spread->members[i].home.region.id[0] = '\0';
        if (status != CLI_OK || n_done == spread->n)
                return status;
        return cli_problem("%zu of %zu workers have the bytes", n_done, spread->n);
}

/* ---- the source and the members ---- */

static int spread_open_source(struct spread *spread, const char *text)
{
        struct content_input input = { .fd = -1 };
        struct link link = { 0 };
        int status, r = link_parse(text, "operations", "op_", &link);
        link_clear(&link);
        if (r == 0) {
                status = remote_fetch(spread->cli, text, FERRY_READABLE, &spread->remote);
                spread->size = spread->remote.size;
                return status;
        }
        status = content_open(text, &input);
        spread->size = input.size;
        if (status == CLI_OK)
                status = job_make_region(&spread->source, input.size, NULL);
        if (status == CLI_OK)
                status = content_fill(spread->source.worker, &spread->source.region, &input);
        content_close(&input);
        return status;
}

static int spread_open_members(struct spread *spread, char **names)
{
        int status = CLI_OK;
        for (size_t i = 0; status == CLI_OK && i < spread->n; i++) {
                struct member *member = &spread->members[i];
                int r = link_parse(names[i], "regions", "rgn_", &member->into);
                if (r < 0 && r != -EINVAL)
                        return cli_usage_error("%s", strerror(-r));
                member->name = r < 0 ? names[i] : member->into.worker ? member->into.worker : spread->cli->worker.url;
                member->home = member->read = (struct job){ .cli = spread->cli, .worker = &member->worker };
                status = cli_worker_named(spread->cli, member->name, WORKER_OWN, &member->worker);
        }
        return status;
}

int cli_run_spread(struct cli *cli, int argc, char **argv)
{
        struct spread spread = { .cli = cli,
                                 .source = { .cli = cli, .worker = &cli->worker },
                                 .n = (size_t)argc - 2,
                                 .members = calloc((size_t)argc - 2, sizeof(struct member)) };
        signals_limit(cli);
        int status = spread.members ? cli_connect(cli) : cli_usage_error("%s", strerror(ENOMEM));
        if (status == CLI_OK)
                status = spread_open_members(&spread, argv + 2);
        if (status == CLI_OK)
                status = spread_open_source(&spread, argv[1]);
        spread.start_ms = ferry_clock_ms();
        for (size_t i = 0; status == CLI_OK && i < spread.n; i++)
                member_open(&spread, &spread.members[i]);
        if (status == CLI_OK)
                status = spread_run(&spread);
        spread.ended_ms = ferry_clock_ms();
        if (status == CLI_OK)
                status = spread_check(&spread);
        if (status == CLI_OK && signals_caught())
                status = CLI_PROBLEM;
        if (status == CLI_OK)
                status = spread_end(&spread);
        for (size_t i = 0; spread.members && i < spread.n; i++)
                member_stop(&spread.members[i]);
        for (size_t i = 0; spread.members && i < spread.n; i++)
                member_end(&spread.members[i]);
        for (size_t i = 0; spread.members && i < spread.n; i++) {
                worker_close(&spread.members[i].worker); /* last, since other members had offers there */
                link_clear(&spread.members[i].into);
        }
        job_end(&spread.source);
        remote_clear(&spread.remote);
        free(spread.members);
        return status;
}
