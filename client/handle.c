/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client_internal.h"

/*
 * A handle: the URL, token and time-outs of one worker, and libcurl's handles with the connections. ferry_new() makes
 * it, ferry_free() frees it. A process that was forked may free the handles of its parent, and do nothing else with
 * them: the connections stay the parent's.
 *
 * Thread: one at a time uses a handle; ferry_abort() any, and handlers of signals.
 */

/* ---- SIGPIPE ---- */

struct sigpipe_guard sigpipe_block(bool needed)
{
        struct sigpipe_guard guard = { .held = needed };
        sigset_t pending, pipe;
        if (!needed)
                return guard;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigemptyset(&pending);
        sigpending(&pending);
        guard.pending = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe, &guard.mask);
        return guard;
}

void sigpipe_restore(const struct sigpipe_guard *guard)
{
        static const struct timespec at_once;
        sigset_t pipe;
        if (!guard->held)
                return;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        if (!guard->pending) {
                while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR)
                        ;
        }
        pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
}

/* ---- handles ---- */

static pthread_once_t handle_once = PTHREAD_ONCE_INIT;
static CURLcode handle_curl = CURLE_FAILED_INIT; /* written once under handle_once */

/* How often this process and those it comes from have been forked. Written by the only thread of a child. */
static unsigned handle_generation;

static void handle_forked(void)
{
        handle_generation++;
}

bool handle_is_ours(const struct ferry *f)
{
        return f->generation == handle_generation;
}

static void handle_curl_init(void)
{
        (void)pthread_atfork(NULL, NULL, handle_forked);
        handle_curl = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int handle_authorization(const char *token, char **ret_header)
{
        char *header;
        /* A line break would smuggle headers in. */
        for (const char *p = token; *p; p++) {
                if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
                        return -EKEYREJECTED;
        }
        if (!*token)
                return -EKEYREJECTED;
        if (asprintf(&header, "Authorization: Bearer %s", token) < 0)
                return -ENOMEM;
        *ret_header = header;
        return 0;
}

/* Whether the files can be read: libcurl would find out with the first call. 0; the errors of access(2). */
static int handle_check_files(const struct ferry_options *o)
{
        const char *const files[] = { o->ca_file, o->cert_file, o->key_file };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(files); i++) {
                if (files[i] && access(files[i], R_OK) < 0)
                        return -errno;
        }
        return 0;
}

/* Makes a handle without libcurl's. 0; -ENOMEM; -EMFILE, -ENFILE. */
static int handle_new(struct ferry **ret_ferry)
{
        struct ferry *f = calloc(1, sizeof(*f));
        if (!f)
                return -ENOMEM;
        f->generation = handle_generation;
        f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (f->wake < 0) {
                int r = -errno;
                free(f);
                return r;
        }
        *ret_ferry = f;
        return 0;
}

/* Fills a handle by its options, a number 0 = the default. Returns 0 or -errno; ferry_free() frees what there is. */
static int handle_set_up(struct ferry *f, const char *url, const struct ferry_options *o)
{
        FERRY_CLEANUP(cleanup_free) char *unix_socket = NULL;
        struct ferry_options ours = *o;
        int r = url_parse(url, &f->base, &unix_socket);
        if (r == 0)
                r = handle_check_files(o);
        if (r == 0 && o->token)
                r = handle_authorization(o->token, &f->authorization);
        if (r < 0)
                return r;
        ours.connect_timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : CLIENT_CONNECT_TIMEOUT_MS;
        f->timeout_ms = o->timeout_ms ? o->timeout_ms : CLIENT_TIMEOUT_MS;
        f->retries = o->retries < 0 ? 0 : o->retries ? (unsigned)o->retries : CLIENT_RETRIES;
        f->answer_max = o->answer_max ? o->answer_max : CLIENT_ANSWER_MAX;
        f->tls = strncmp(f->base, "https:", 6) == 0;
        f->by_socket = unix_socket != NULL;
        f->multi = http_multi_new(1);
        f->easy = http_handle_new(&ours, unix_socket);
        return f->multi && f->easy ? 0 : -ENOMEM;
}

int ferry_new(const char *url, const struct ferry_options *options, struct ferry **ret_ferry)
{
        static const struct ferry_options defaults;
        struct ferry *f = NULL;
        int r = options ? ARGUMENT_CHECK(NULL, options) : 0;
        if (r < 0)
                return r;
        pthread_once(&handle_once, handle_curl_init);
        if (handle_curl != CURLE_OK)
                return -ENOMEM;
        r = handle_new(&f);
        if (r < 0)
                return r;
        r = handle_set_up(f, url, options ? options : &defaults);
        if (r < 0)
                ferry_free(f);
        else
                *ret_ferry = f;
        return r;
}

int handle_clone(const struct ferry *f, long connections, struct ferry **ret_ferry)
{
        struct ferry *clone = NULL;
        int r = handle_new(&clone);
        if (r < 0)
                return r;
        clone->base = strdup(f->base);
        clone->authorization = f->authorization ? strdup(f->authorization) : NULL;
        clone->tls = f->tls;
        clone->by_socket = f->by_socket;
        clone->timeout_ms = f->timeout_ms;
        clone->retries = f->retries;
        clone->answer_max = f->answer_max;
        clone->multi = http_multi_new(connections);
        clone->easy = curl_easy_duphandle(f->easy);
        if (!clone->base || (f->authorization && !clone->authorization) || !clone->multi || !clone->easy) {
                ferry_free(clone);
                return -ENOMEM;
        }
        *ret_ferry = clone;
        return 0;
}

struct ferry *ferry_free(struct ferry *f)
{
        if (!f)
                return NULL;
        problem_clear(f);
        if (handle_is_ours(f)) { /* else the connections are the parent's, which may go on using them */
                struct sigpipe_guard guard = sigpipe_block(f->tls);
                curl_easy_cleanup(f->easy);
                curl_multi_cleanup(f->multi);
                sigpipe_restore(&guard);
        }
        close(f->wake);
        ferry_secret_free(f->authorization);
        free(f->base);
        free(f);
        return NULL;
}

void ferry_abort(struct ferry *f)
{
        atomic_store(&f->aborted, true);
        (void)!write(f->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void ferry_resume(struct ferry *f)
{
        (void)!read(f->wake, &(uint64_t){ 0 }, sizeof(uint64_t));
        atomic_store(&f->aborted, false);
}

const char *ferry_version(void)
{
        return FERRY_VERSION;
}

const struct ferry_problem *ferry_last_problem(const struct ferry *f)
{
        return &f->problem;
}

const char *ferry_last_message(const struct ferry *f)
{
        return f->message;
}

void ferry_secret_free(char *secret)
{
        if (secret)
                explicit_bzero(secret, strlen(secret));
        free(secret);
}
