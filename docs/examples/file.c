// SPDX-License-Identifier: Apache-2.0
/* Moves a file from worker A to worker B, with progress: file URL-A URL-B
 * FROM TO */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/ferry.h>

static struct ferry *a, *b;

/* Ends the program if a call on this handle failed. */
static void check(struct ferry *f, int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_last_message(f));
        exit(1);
    }
}

/* Ctrl-C: the call in progress on B returns -ECANCELED. */
static void interrupted(int signal)
{
    (void)signal;
    ferry_abort(b);
}

static int progress(void *context,
                    const struct ferry_operation *operation)
{
    (void)context;
    fprintf(stderr, "%llu of %llu bytes\n",
            (unsigned long long)operation->bytes_done,
            (unsigned long long)operation->bytes_total);
    return 0;
}

/* Connects B to A before the first transfer needs it. */
static void connect_workers(void)
{
    struct ferry_worker_info info;
    struct ferry_peer peer;

    check(a, ferry_get_worker(a, &info));
    if (ferry_connect_peer(b, info.url, &peer) == 0) {
        fprintf(stderr, "%s by %s\n", peer.worker, peer.transport);
        ferry_peer_clear(&peer);
    }
    ferry_worker_info_clear(&info);
}

/* Waits for the read. One that Ctrl-C interrupts is cancelled; when it
 * has ended, its memory is quiet. */
static bool wait_with_progress(const char *id)
{
    const struct ferry_watch watch = {
        .timeout_ms = FERRY_FOREVER,
        .progress = progress,
    };
    struct ferry_operation end = { 0 };

    if (ferry_watch_operation(b, id, &watch, &end) != 0) {
        fprintf(stderr, "%s\n", ferry_last_message(b));
        ferry_resume(b);
        check(b, ferry_cancel_operation(b, id, NULL));
        ferry_operation_clear(&end);
        check(b, ferry_wait_operation(b, id, 10000, &end));
    }
    bool complete = end.status == FERRY_COMPLETE;
    if (!complete)
        fprintf(stderr, "%s: %s\n", end.error_code, end.error_detail);
    ferry_operation_clear(&end);
    return complete;
}

static bool move(const char *source, const char *target)
{
    const struct ferry_descriptor from = { .region = source };
    const struct ferry_descriptor to = { .region = target };
    const struct ferry_operation_spec readable = {
        .kind = FERRY_READABLE,
        .descriptors = &from,
        .n_descriptors = 1,
    };
    struct ferry_operation_spec reading = {
        .kind = FERRY_READ,
        .descriptors = &to,
        .n_descriptors = 1,
        .verify = true,
    };
    struct ferry_operation offer, read;
    char *metadata;

    check(a, ferry_create_operation(a, &readable, &offer));
    check(a, ferry_get_operation_metadata(a, offer.id, &metadata));
    reading.remote_metadata = metadata;
    check(b, ferry_create_operation(b, &reading, &read));
    ferry_secret_free(metadata);

    bool complete = wait_with_progress(read.id);
    ferry_operation_clear(&read);
    ferry_operation_clear(&offer);
    return complete;
}

int main(int argc, char **argv)
{
    struct ferry_region source, target;
    struct stat status;

    if (argc < 5 || ferry_new(argv[1], NULL, &a) ||
        ferry_new(argv[2], NULL, &b))
        return 2;
    int from = open(argv[3], O_RDONLY | O_CLOEXEC);
    int to =
        open(argv[4], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (from < 0 || to < 0 || fstat(from, &status) < 0) {
        perror("a file cannot be opened");
        return 2;
    }
    signal(SIGINT, interrupted);
    connect_workers();

    /* The workers delete the regions if this program dies. */
    const struct ferry_region_spec memory = {
        .size = (uint64_t)status.st_size,
        .idle_ms = 60000,
    };
    check(a, ferry_create_region(a, &memory, &source));
    check(b, ferry_create_region(b, &memory, &target));
    check(a, ferry_put_region_content_fd(a, source.id, 0, from,
                                         memory.size));

    bool complete = move(source.id, target.id);
    if (complete)
        check(b,
              ferry_get_region_content_fd(b, target.id, 0, 0, to, NULL));

    check(a, ferry_delete_region(a, source.id));
    check(b, ferry_delete_region(b, target.id));
    ferry_free(a);
    ferry_free(b);
    return complete && close(to) == 0 ? 0 : 1;
}
