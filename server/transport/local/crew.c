/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"

enum { CREW_MAX = 64 };

struct crew {
        int fd;
        unsigned n_wanted;
        pthread_mutex_t lock; /* guards what follows, and the second part of each pull */
        pthread_cond_t work;  /* job, ending */
        pthread_cond_t idle;  /* a pull's running became 0 */
        struct pull *job;     /* what the threads share; NULL = nothing */
        bool ending;
        /* The progress thread's. */
        unsigned n_threads;
        pthread_t threads[CREW_MAX];
};

int crew_new(unsigned n_threads, struct crew **ret_crew)
{
        struct crew *crew = calloc(1, sizeof(*crew));

        if (!crew)
                return -ENOMEM;
        crew->n_wanted = n_threads < CREW_MAX ? n_threads : CREW_MAX;
        crew->fd = n_threads > 0 ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
        if (n_threads > 0 && crew->fd < 0) {
                int r = -errno;

                free(crew);
                return r;
        }
        (void)pthread_mutex_init(&crew->lock, NULL);
        (void)pthread_cond_init(&crew->work, NULL);
        (void)pthread_cond_init(&crew->idle, NULL);
        *ret_crew = crew;
        return 0;
}

struct crew *crew_free(struct crew *crew)
{
        if (!crew)
                return NULL;
        (void)pthread_mutex_lock(&crew->lock);
        crew->ending = true;
        (void)pthread_cond_broadcast(&crew->work);
        (void)pthread_mutex_unlock(&crew->lock);
        while (crew->n_threads > 0)
                (void)pthread_join(crew->threads[--crew->n_threads], NULL);
        if (crew->fd >= 0)
                (void)close(crew->fd);
        (void)pthread_cond_destroy(&crew->idle);
        (void)pthread_cond_destroy(&crew->work);
        (void)pthread_mutex_destroy(&crew->lock);
        free(crew);
        return NULL;
}

int crew_fd(const struct crew *crew)
{
        return crew->fd;
}

void crew_hear(struct crew *crew)
{
        uint64_t count;

        while (read(crew->fd, &count, sizeof(count)) < 0 && errno == EINTR)
                ;
}

static void tell(struct crew *crew)
{
        uint64_t one = 1;

        while (write(crew->fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

/* With the lock. A job without a piece left is nobody's. */
static bool claim_of_job(struct crew *crew, struct piece *ret_piece)
{
        if (crew->job && pull_claim(crew->job, PULL_PIECE, ret_piece))
                return true;
        crew->job = NULL;
        return false;
}

static void finish(struct crew *crew, const struct piece *piece, bool held)
{
        pull_finish(piece->pull, piece, held);
        if (piece->pull->running == 0)
                (void)pthread_cond_broadcast(&crew->idle);
}

static void *crew_run(void *context)
{
        struct crew *crew = context;
        struct piece piece;

        (void)pthread_mutex_lock(&crew->lock);
        while (!crew->ending) {
                bool held, last;

                if (!claim_of_job(crew, &piece)) {
                        (void)pthread_cond_wait(&crew->work, &crew->lock);
                        continue;
                }
                (void)pthread_mutex_unlock(&crew->lock);
                held = piece_copy(&piece);
                (void)pthread_mutex_lock(&crew->lock);
                finish(crew, &piece, held);
                /* While pieces are left, the progress thread is awake, and looks by itself. */
                last = piece.pull->stopped || piece.pull->claimed == piece.pull->length;
                if (last)
                        tell(crew);
        }
        (void)pthread_mutex_unlock(&crew->lock);
        return NULL;
}

/* The program's signals are not for these threads. */
static void start_threads(struct crew *crew)
{
        sigset_t all, before;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        while (crew->n_threads < crew->n_wanted) {
                int r = pthread_create(&crew->threads[crew->n_threads], NULL, crew_run, crew);

                if (r != 0) {
                        log_event(LOG_WARN, "copy thread not started", LOG_S("reason", strerror(r)));
                        crew->n_wanted = crew->n_threads;
                        break;
                }
                (void)pthread_setname_np(crew->threads[crew->n_threads++], "ferry-copy");
        }
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void crew_share(struct crew *crew, struct pull *pull)
{
        if (crew->n_wanted == 0 || pull->length < CREW_SHARE_MIN)
                return;
        if (crew->n_threads < crew->n_wanted)
                start_threads(crew);
        (void)pthread_mutex_lock(&crew->lock);
        if (!crew->job && !pull->stopped && pull->length - pull->claimed > PULL_PIECE) {
                crew->job = pull;
                (void)pthread_cond_broadcast(&crew->work);
        }
        (void)pthread_mutex_unlock(&crew->lock);
}

uint64_t crew_copy(struct crew *crew, struct pull *pull, uint64_t limit)
{
        struct piece piece;
        bool claimed, held;

        (void)pthread_mutex_lock(&crew->lock);
        claimed = pull_claim(pull, limit, &piece);
        (void)pthread_mutex_unlock(&crew->lock);
        if (!claimed)
                return 0;
        held = piece_copy(&piece);
        (void)pthread_mutex_lock(&crew->lock);
        finish(crew, &piece, held);
        (void)pthread_mutex_unlock(&crew->lock);
        return piece.length;
}

enum crew_verdict crew_look(struct crew *crew, const struct pull *pull, uint64_t *ret_copied)
{
        enum crew_verdict verdict = CREW_MORE;

        (void)pthread_mutex_lock(&crew->lock);
        *ret_copied = pull->copied;
        if (pull_waits(pull))
                verdict = CREW_WAITS;
        else if (pull->stopped)
                verdict = CREW_REVOKED;
        else if (pull->copied == pull->length)
                verdict = CREW_COPIED;
        (void)pthread_mutex_unlock(&crew->lock);
        return verdict;
}

void crew_stop(struct crew *crew, struct pull *pull)
{
        (void)pthread_mutex_lock(&crew->lock);
        pull->stopped = true;
        if (crew->job == pull)
                crew->job = NULL;
        while (pull->running > 0)
                (void)pthread_cond_wait(&crew->idle, &crew->lock);
        (void)pthread_mutex_unlock(&crew->lock);
}
