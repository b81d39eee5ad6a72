// SPDX-License-Identifier: Apache-2.0
/* Four offers and their reads by one request each, and one offer that is
 * given up: batch URL-A URL-B */
#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>

enum { PARTS = 4, SIZE = 4096 };

/* Ends the program if a call on this handle failed. */
static void check(struct ferry *f, int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_last_message(f));
        exit(1);
    }
}

/* Creates PARTS operations. metadata NULL = offers. */
static void create(struct ferry *f, const char *region,
                   const struct ferry_operation_results *offers,
                   struct ferry_operation_results *ret_results)
{
    struct ferry_descriptor parts[PARTS] = { 0 };
    struct ferry_operation_spec specs[PARTS] = { 0 };

    for (size_t i = 0; i < PARTS; i++) {
        parts[i].region = region;
        parts[i].offset = i * SIZE;
        parts[i].size = SIZE;
        specs[i].kind = offers ? FERRY_READ : FERRY_READABLE;
        specs[i].descriptors = &parts[i];
        specs[i].n_descriptors = 1;
        specs[i].include_metadata = !offers;
        if (offers)
            specs[i].remote_metadata =
                offers->items[i].operation->metadata;
    }

    /* Each is accepted or refused on its own. */
    check(f, ferry_create_operations(f, specs, PARTS, ret_results));
    for (size_t i = 0; i < ret_results->n; i++) {
        if (ret_results->items[i].result != 0) {
            fprintf(stderr, "%s\n",
                    ret_results->items[i].problem->detail);
            exit(1);
        }
    }
}

/* Waits until all are done, and says whether each is complete. */
static bool all_complete(struct ferry *f,
                         const struct ferry_operation_results *operations)
{
    struct ferry_operation_results ends;
    const char *ids[PARTS];
    bool complete = true;

    for (size_t i = 0; i < operations->n; i++)
        ids[i] = operations->items[i].operation->id;
    check(f, ferry_wait_operations(f, ids, operations->n, FERRY_WAIT_ALL,
                                   10000, &ends));
    for (size_t i = 0; i < ends.n; i++)
        complete = complete && ends.items[i].result == 0 &&
                   ends.items[i].operation->status == FERRY_COMPLETE;
    ferry_operation_results_clear(&ends);
    return complete;
}

/* Keeps an offer of A for longer, and then gives it up, by way of B: as a
 * program that has the metadata, and does not reach A, would do. */
static void give_up(struct ferry *a, struct ferry *b, const char *region)
{
    const struct ferry_descriptor part = { .region = region };
    const struct ferry_operation_spec readable = {
        .kind = FERRY_READABLE,
        .descriptors = &part,
        .n_descriptors = 1,
        .ttl_ms = 10000,
        .renew_max_ms = 60000,
        .include_metadata = true,
    };
    struct ferry_operation offer;
    struct ferry_offer_state state;

    check(a, ferry_create_operation(a, &readable, &offer));
    check(b, ferry_renew_remote(b, offer.metadata, 20000, &state));
    printf("kept until %s\n", state.expires_at);
    check(b, ferry_decline_remote(b, offer.metadata, &state));
    printf("given up: %s\n", ferry_status_name(state.status));
    check(a, ferry_delete_operation(a, offer.id));
    ferry_operation_clear(&offer);
}

int main(int argc, char **argv)
{
    const struct ferry_region_spec memory = { .size = PARTS * SIZE };
    struct ferry_operation_results offers, reads;
    struct ferry_region source, target;
    struct ferry_answer answer;
    struct ferry *a, *b;

    if (argc < 3 || ferry_new(argv[1], NULL, &a) ||
        ferry_new(argv[2], NULL, &b))
        return 2;
    check(a, ferry_create_region(a, &memory, &source));
    check(b, ferry_create_region(b, &memory, &target));

    create(a, source.id, NULL, &offers);
    create(b, target.id, &offers, &reads);
    bool complete = all_complete(b, &reads) && all_complete(a, &offers);
    ferry_operation_results_clear(&reads);
    ferry_operation_results_clear(&offers);
    give_up(a, b, source.id);

    /* Any other request. */
    check(b,
          ferry_request(b, "GET", "/v1/limits", NULL, NULL, 0, &answer));
    printf("%zu bytes of limits\n", answer.body_size);
    ferry_answer_clear(&answer);

    check(a, ferry_delete_region(a, source.id));
    check(b, ferry_delete_region(b, target.id));
    ferry_free(a);
    ferry_free(b);
    puts(complete ? "same" : "different");
    return 0;
}
