/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ferry/commit.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/systemd.h"
#include "base/util.h"
#include "ferryd.h"

/*
 * The daemon, a thin main over libferry-worker: signals and standard streams before any library can start a thread or
 * print, then options, the worker, the ready line; and from a signal on, the drain, within --drain-timeout.
 *
 * Thread: the main one waits for signals; at the first, a thread of its own ends the worker (struct ending).
 */

enum {
        EXIT_USAGE = 2,
        EXIT_SIGNAL = 128, /* + the signal's number, as shells say it */
        FILES_WANTED = 1 << 20,
        END_MS = 70000, /* beyond --drain-timeout: --grace at its longest, and a large region to be freed */
};

/* The bit of a signal in the kernel's form of a signal set. */
#define SIGNAL_BIT(number) ((UINT64_C(1) << (number)) >> 1)

/* Arguments of the thread that ends the worker. */
struct ending {
        struct ferry_worker *worker;
        unsigned timeout_ms;
        int done; /* eventfd */
};

/* A descriptor 0, 1 or 2 that is closed would be taken by a socket, and then be written to as if it were a log. */
static bool standard_streams_open(void)
{
        bool output = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
        int fd;

        do {
                fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        } while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd > STDERR_FILENO)
                (void)close(fd);
        return output;
}

/* Raises the soft limit to the hard one: each connection and region needs a file. Safe, since nothing here uses
 * select(). */
static void raise_file_limit(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_WANTED)
                return;
        files.rlim_cur = files.rlim_max < FILES_WANTED ? files.rlim_max : FILES_WANTED;
        (void)setrlimit(RLIMIT_NOFILE, &files);
}

/*
 * Two things must be done before any library's constructor runs, those of sanitizers included; hence by system calls
 * alone.
 *
 * Block the signals that end the worker, and SIGHUP, so that every thread inherits the mask: UCX 1.18 starts a thread
 * when it is loaded, and a signal delivered to it would end the process at once.
 *
 * Redirect standard output to standard error, and keep a duplicate for the ready line, which is all that ever goes to
 * standard output. Libraries may print: UCX does when it is loaded ("failed to get boot id", where /proc is hidden).
 * The duplicate stays open, so that a reader sees end of file only when the worker ends.
 */
static const uint64_t signals_taken = SIGNAL_BIT(SIGTERM) | SIGNAL_BIT(SIGINT) | SIGNAL_BIT(SIGHUP);
static int ready_output = -1; /* -1 = not redirected: standard output or standard error is closed */

__attribute__((no_sanitize("address", "thread", "undefined"))) static void output_take(void)
{
        long fd = syscall(SYS_fcntl, STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

        if (fd >= 0 && syscall(SYS_dup3, STDERR_FILENO, STDOUT_FILENO, 0) < 0) {
                (void)syscall(SYS_close, fd);
                fd = -1;
        }
        ready_output = (int)fd;
}

__attribute__((no_sanitize("address", "thread", "undefined"))) static void before_libraries(void)
{
        (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals_taken, NULL, sizeof(signals_taken));
        output_take();
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries_first)(void) = before_libraries;

/* Makes the signalfd of the blocked signals, and ignores those of failed writes. Returns it, or -errno. */
static int signals_take(void)
{
        const struct sigaction otherwise = { .sa_handler = SIG_DFL };
        const struct sigaction ignore = { .sa_handler = SIG_IGN };
        long fd = syscall(SYS_signalfd4, -1, &signals_taken, sizeof(signals_taken), SFD_CLOEXEC | SFD_NONBLOCK);

        (void)sigaction(SIGHUP, &otherwise, NULL); /* nohup(1) sets it to ignored */
        (void)sigaction(SIGPIPE, &ignore, NULL);
        (void)sigaction(SIGXFSZ, &ignore, NULL); /* a log file at RLIMIT_FSIZE */
        return fd < 0 ? -errno : (int)fd;
}

static int line_write(int fd, const char *text)
{
        FERRY_CLEANUP(cleanup_free) char *line = NULL;
        size_t size, done = 0;

        if (asprintf(&line, "%s\n", text) < 0) {
                line = NULL;
                return -ENOMEM;
        }
        size = strlen(line);
        while (done < size) {
                ssize_t n = write(fd, line + done, size - done);

                if (n < 0 && errno == EAGAIN) {
                        struct pollfd wait = { .fd = fd, .events = POLLOUT };

                        (void)poll(&wait, 1, -1);
                } else if (n < 0 && errno != EINTR) {
                        return -errno;
                } else if (n > 0) {
                        done += (size_t)n;
                }
        }
        return 0;
}

/* Logs a failed notify_* call, which returned r. */
static void manager_told(int r)
{
        if (r < 0)
                log_event(LOG_WARN, "notifying the service manager failed", LOG_S("reason", strerror(-r)));
}

static void reload(struct ferry_worker *worker)
{
        manager_told(notify_reloading());
        if (worker_reload(worker) < 0)
                log_event(LOG_ERROR, "reloading tokens and certificates failed", LOG_S("reason", ferry_worker_error()));
        else
                log_event(LOG_INFO, "tokens and certificates reloaded");
        manager_told(notify_ready());
}

/* Reads a signal, and handles SIGHUP, unless worker is NULL (it is ending). Returns a signal that ends the worker; 0 =
 * none. */
static int signal_read(int signals, struct ferry_worker *worker)
{
        struct signalfd_siginfo information;

        if (read(signals, &information, sizeof(information)) != (ssize_t)sizeof(information))
                return 0;
        if (information.ssi_signo != SIGHUP)
                return (int)information.ssi_signo;
        if (worker)
                reload(worker);
        return 0;
}

static void *end_worker(void *argument)
{
        struct ending *ending = argument;
        size_t cancelled = ferry_worker_drain(ending->worker, ending->timeout_ms);

        ending->worker = ferry_worker_free(ending->worker);
        log_event(LOG_INFO, "stopped", LOG_U("cancelled", cancelled));
        (void)eventfd_write(ending->done, 1);
        return NULL;
}

/*
 * Sleeps until a signal, then ends the worker; a second signal ends the process at once, as does the end of the time
 * that the service manager was told. Returns the exit status.
 */
static int serve(int signals, struct ferry_worker *worker, uint64_t drain_timeout_ms)
{
        FERRY_CLEANUP(cleanup_close) int done = eventfd(0, EFD_CLOEXEC);
        struct ending ending = { .worker = worker, .timeout_ms = (unsigned)drain_timeout_ms, .done = done };
        struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = done, .events = POLLIN } };
        pthread_t thread;
        int number;

        do {
                (void)poll(fds, 1, -1);
                number = signal_read(signals, worker);
        } while (number == 0);
        log_event(LOG_INFO, "stopping", LOG_S("signal", number == SIGINT ? "INT" : "TERM"));
        manager_told(notify_stopping(drain_timeout_ms + END_MS));
        if (done < 0 || pthread_create(&thread, NULL, end_worker, &ending) != 0) {
                (void)end_worker(&ending);
                return EXIT_SUCCESS;
        }
        for (uint64_t until_us = clock_now_us() + (drain_timeout_ms + END_MS) * 1000; !(fds[1].revents & POLLIN);) {
                uint64_t now_us = clock_now_us(), left_ms = until_us > now_us ? (until_us - now_us) / 1000 + 1 : 0;

                if (!left_ms) {
                        log_event(LOG_ERROR, "not stopped in time");
                        ferry_worker_abandon();
                        _exit(EXIT_FAILURE);
                }
                (void)poll(fds, FERRY_ARRAY_SIZE(fds), (int)left_ms);
                number = signal_read(signals, NULL);
                if (number != 0) {
                        ferry_worker_abandon();
                        _exit(EXIT_SIGNAL + number);
                }
        }
        (void)pthread_join(thread, NULL);
        return EXIT_SUCCESS;
}

static int complain(const char *message, int status)
{
        (void)fprintf(stderr, "ferryd: %s\n", message);
        return status;
}

/* --help and --version: their text is the whole output. */
static int print_and_exit(const struct ferry_worker_options *options)
{
        if (ready_output >= 0)
                (void)dup2(ready_output, STDOUT_FILENO);
        if (options->help)
                options_help(stdout);
        else
                (void)printf("ferryd %s\n", ferry_full_version);
        if (fflush(stdout) != 0 || ferror(stdout))
                return complain("standard output cannot be written", EXIT_FAILURE);
        return EXIT_SUCCESS;
}

static int run(const struct ferry_worker_options *options)
{
        struct ferry_worker *worker = NULL;
        int signals, r;

        log_setup((enum log_level)options->log_level, (enum log_format)options->log_format);
        options_check_environment();
        raise_file_limit();
        signals = signals_take();
        if (signals < 0)
                return complain(strerror(-signals), EXIT_FAILURE);
        if (ready_output < 0)
                output_take();
        if (ready_output < 0)
                return complain(strerror(errno), EXIT_FAILURE);
        r = worker_new(options, &worker);
        if (r < 0)
                return complain(ferry_worker_error(), r == -EINVAL ? EXIT_USAGE : EXIT_FAILURE);
        r = line_write(ready_output, ferry_worker_ready_line(worker));
        if (r < 0) {
                worker = ferry_worker_free(worker);
                (void)fprintf(stderr, "ferryd: the ready line could not be written: %s\n", strerror(-r));
                return EXIT_FAILURE;
        }
        manager_told(notify_ready());
        return serve(signals, worker, options->drain_timeout_ms);
}

int main(int argc, char **argv)
{
        struct ferry_worker_options options;
        int r;

        if (!standard_streams_open())
                return complain("standard output is closed; the ready line is written there", EXIT_FAILURE);
        r = options_parse(argc, argv, &options);
        if (r < 0)
                r = complain(r == -EINVAL ? options.base.message : strerror(-r),
                             r == -EINVAL ? EXIT_USAGE : EXIT_FAILURE);
        else
                r = options.base.query ? print_and_exit(&options) : run(&options);
        ferry_options_clear(&options.base);
        return r;
}
