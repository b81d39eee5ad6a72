// SPDX-License-Identifier: Apache-2.0
/* A worker with HTTP inside a program, which prints its events until its
 * input ends: serve < /dev/null */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/worker.h>

/* Ends the program if a call failed. */
static void check(int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_worker_error());
        exit(1);
    }
}

static void log_line(void *context, const char *level, const char *line)
{
    fprintf(context, "[%s] %s\n", level, line);
}

static void print_events(struct ferry_worker_events *events)
{
    const char *event;
    while (ferry_worker_events_take(events, &event) == 1)
        puts(event);
}

static void ended(void *context)
{
    const char message[] = "the offer has ended\n";
    ssize_t n = write(*(int *)context, message, sizeof(message) - 1);
    (void)n;
}

int main(void)
{
    static char memory[1 << 20];
    struct ferry_worker_options *options = ferry_worker_options_new();
    struct ferry_worker_request *request =
        ferry_worker_request_new(FERRY_READABLE);
    struct ferry_worker_events *events;
    struct ferry_worker_operation *offer;
    struct ferry_worker *worker;
    char region[FERRY_WORKER_ID_SIZE];
    int output = STDERR_FILENO;

    /* FERRY_LISTEN and the like of the environment, then our own. */
    check(ferry_worker_log("warn", log_line, stderr));
    check(ferry_worker_options_environment(options));
    check(ferry_worker_options_set(options, "listen", "127.0.0.1:0"));
    check(ferry_worker_new(options, &worker));
    ferry_worker_options_free(options);
    printf("%s at %s\n", ferry_worker_name(worker),
           ferry_worker_url(worker, 0));

    check(ferry_worker_events_new(worker, NULL, &events));
    check(ferry_worker_region_add(worker, memory, sizeof(memory), NULL,
                                  "memory", region));
    check(ferry_worker_region_allow(worker, region, 1));

    check(ferry_worker_request_add(request, region, 0, 0));
    check(ferry_worker_request_set(request, "label", "example"));
    check(ferry_worker_operation_create(worker, request, NULL, &offer));
    check(ferry_worker_operation_notify(offer, ended, &output));
    check(ferry_worker_operation_renew(offer, 60000));
    ferry_worker_request_free(request);

    struct pollfd wanted[] = {
        { .fd = STDIN_FILENO, .events = POLLIN },
        { .fd = ferry_worker_events_fd(events), .events = POLLIN },
    };
    char input[256];
    for (;;) {
        poll(wanted, 2, -1);
        print_events(events);
        if (wanted[0].revents &&
            read(STDIN_FILENO, input, sizeof(input)) <= 0)
            break;
    }

    /* The offer that nobody took is cancelled, transfers may end. */
    ferry_worker_operation_cancel(offer);
    ferry_worker_drain(worker, 5000);
    print_events(events);
    int result = ferry_worker_operation_result(offer);
    printf("%s: %s\n", ferry_worker_operation_label(offer),
           ferry_error_title(result));

    ferry_worker_operation_free(offer);
    ferry_worker_events_free(events);
    ferry_worker_free(worker);
    puts(result == FERRY_E_CANCELLED ? "same" : "different");
    return 0;
}
