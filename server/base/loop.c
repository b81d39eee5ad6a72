/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"

#include <uthash.h>

#include <ferry/buffer.h>

/*
 * The loop: see loop.h. Timers are in a heap by deadline; a timer has its place in it, so that it is moved or taken out
 * in O(log n). Watches are one-shot, and found by an id. A round runs the callbacks of descriptors, then of at most as
 * many timers as were armed when the thread woke: a timer that arms itself anew in the past cannot starve the
 * descriptors.
 *
 * Lock: the loop's, a leaf, which is never held over a callback.
 */

enum {
        LOOP_EVENTS = 32,
        LOOP_HEAP_ARITY = 4, /* children share a cache line, and there are half as many levels as with 2 */
};

/* The event fd's id in epoll data; ids of watches begin at 1. */
static const uint64_t wake_id = 0;

/*
 * A watch by its id. Epoll carries the id and never a pointer: an event that was fetched before its watch was stopped
 * finds no entry and is dropped, also when the fd's number is in use again.
 */
struct watch_entry {
        uint64_t id;
        struct loop_watch *watch;
        UT_hash_handle hh;
};

/* Repeats the deadline, so that comparisons do not load cold timers into the cache. */
struct heap_entry {
        uint64_t deadline_us;
        struct loop_timer *timer;
};

struct loop {
        int epoll_fd;
        int event_fd;
        pthread_t thread;

        pthread_mutex_t lock; /* a leaf; guards all below, and slot, fd and id of timers and watches */
        bool stopping;
        uint64_t wake_at;        /* when the sleeping thread wakes by itself; 0 = awake or woken */
        struct heap_entry *heap; /* the earliest deadline first */
        size_t n_timers, capacity;
        struct watch_entry *watches;
        uint64_t last_id;
};

/* The only place that writes the heap, since the timer must know its slot. */
static void heap_place(struct loop *loop, size_t i, struct heap_entry entry)
{
        loop->heap[i] = entry;
        entry.timer->slot = i + 1;
}

/* The earliest child of slot i; n_timers or more = none. */
static size_t heap_earliest_below(const struct loop *loop, size_t i)
{
        size_t first = LOOP_HEAP_ARITY * i + 1, end = first + LOOP_HEAP_ARITY, earliest = first;

        if (end > loop->n_timers)
                end = loop->n_timers;
        for (size_t j = first + 1; j < end; j++)
                if (loop->heap[j].deadline_us < loop->heap[earliest].deadline_us)
                        earliest = j;
        return earliest;
}

/* Puts an entry in its place in heap order, starting from the free slot i. */
static void heap_sift(struct loop *loop, size_t i, struct heap_entry entry)
{
        size_t above, below;

        for (; i > 0; i = above) {
                above = (i - 1) / LOOP_HEAP_ARITY;
                if (entry.deadline_us >= loop->heap[above].deadline_us)
                        break;
                heap_place(loop, i, loop->heap[above]);
        }
        for (; (below = heap_earliest_below(loop, i)) < loop->n_timers; i = below) {
                if (entry.deadline_us <= loop->heap[below].deadline_us)
                        break;
                heap_place(loop, i, loop->heap[below]);
        }
        heap_place(loop, i, entry);
}

static void heap_remove(struct loop *loop, struct loop_timer *timer)
{
        size_t i = timer->slot - 1;
        struct heap_entry last = loop->heap[--loop->n_timers];
        timer->slot = 0;
        if (last.timer != timer)
                heap_sift(loop, i, last);
}

/* Makes room for one more timer. Returns 0 or -ENOMEM. */
static int heap_reserve(struct loop *loop)
{
        struct heap_entry *heap = ferry_reserve(loop->heap, &loop->capacity, loop->n_timers + 1, sizeof(*heap));
        if (!heap)
                return -ENOMEM;
        loop->heap = heap;
        return 0;
}

/* Has the thread look again. The lock is held. */
static void loop_wake(struct loop *loop)
{
        loop->wake_at = 0;
        (void)eventfd_write(loop->event_fd, 1);
}

/* Notes until when the thread will sleep. false: end the thread. */
static bool loop_prepare(struct loop *loop, uint64_t *ret_deadline)
{
        pthread_mutex_lock(&loop->lock);
        bool go_on = !loop->stopping;
        *ret_deadline = loop->n_timers ? loop->heap[0].deadline_us : UINT64_MAX;
        loop->wake_at = *ret_deadline;
        pthread_mutex_unlock(&loop->lock);
        return go_on;
}

/* Returns the number of armed timers: at most so many fire before descriptors are polled again. */
static size_t loop_awake(struct loop *loop)
{
        pthread_mutex_lock(&loop->lock);
        loop->wake_at = 0;
        size_t n = loop->n_timers;
        pthread_mutex_unlock(&loop->lock);
        return n;
}

/* Runs the callback of the earliest timer if it is due. Returns whether it was. */
static bool timer_fire_next(struct loop *loop, uint64_t now)
{
        struct loop_timer *timer = NULL;
        pthread_mutex_lock(&loop->lock);
        if (!loop->stopping && loop->n_timers && loop->heap[0].deadline_us <= now) {
                timer = loop->heap[0].timer;
                heap_remove(loop, timer);
        }
        pthread_mutex_unlock(&loop->lock);
        if (timer)
                timer->fired(timer);
        return timer != NULL;
}

/* Ends a watch and returns it; NULL = it was ended before. The lock is held. */
static struct loop_watch *watch_take(struct loop *loop, uint64_t id)
{
        struct watch_entry *entry;
        HASH_FIND(hh, loop->watches, &id, sizeof(id), entry);
        if (!entry)
                return NULL;
        struct loop_watch *watch = entry->watch;
        HASH_DEL(loop->watches, entry);
        free(entry);
        (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        watch->id = 0;
        return watch;
}

/* Runs the callback of a watch, unless another thread has stopped it since epoll reported it. */
static void event_deliver(struct loop *loop, const struct epoll_event *event)
{
        if (event->data.u64 == wake_id) {
                eventfd_t count;
                (void)eventfd_read(loop->event_fd, &count);
                return;
        }
        pthread_mutex_lock(&loop->lock);
        struct loop_watch *watch = loop->stopping ? NULL : watch_take(loop, event->data.u64);
        pthread_mutex_unlock(&loop->lock);
        if (watch)
                watch->fired(watch, event->events);
}

static void *loop_main(void *argument)
{
        struct loop *loop = argument;
        uint64_t deadline;
        while (loop_prepare(loop, &deadline)) {
                struct epoll_event events[LOOP_EVENTS];
                int n = epoll_wait(loop->epoll_fd, events, LOOP_EVENTS, clock_ms_until(deadline, clock_now_us()));
                size_t n_timers = loop_awake(loop);
                for (int i = 0; i < n; i++)
                        event_deliver(loop, &events[i]);
                uint64_t now = clock_now_us();
                while (n_timers > 0 && timer_fire_next(loop, now))
                        n_timers--;
        }
        return NULL;
}

static void loop_destroy(struct loop *loop)
{
        struct watch_entry *entry, *next;
        HASH_ITER (hh, loop->watches, entry, next) {
                entry->watch->id = 0;
                HASH_DEL(loop->watches, entry);
                free(entry);
        }
        for (size_t i = 0; i < loop->n_timers; i++)
                loop->heap[i].timer->slot = 0;
        cleanup_close(&loop->event_fd);
        cleanup_close(&loop->epoll_fd);
        pthread_mutex_destroy(&loop->lock);
        free(loop->heap);
        free(loop);
}

int loop_new(const char *name, struct loop **ret_loop)
{
        struct loop *loop = calloc(1, sizeof(*loop));
        if (!loop)
                return -ENOMEM;
        pthread_mutex_init(&loop->lock, NULL);
        loop->event_fd = -1;
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = wake_id };
        int r = 0;
        loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (loop->epoll_fd >= 0)
                loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (loop->epoll_fd < 0 || loop->event_fd < 0 ||
            epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->event_fd, &event) < 0)
                r = -errno;
        if (r == 0)
                r = thread_new(name, loop_main, loop, &loop->thread);
        if (r < 0) {
                loop_destroy(loop);
                return r;
        }
        *ret_loop = loop;
        return 0;
}

struct loop *loop_free(struct loop *loop)
{
        if (!loop)
                return NULL;
        pthread_mutex_lock(&loop->lock);
        loop->stopping = true;
        loop_wake(loop);
        pthread_mutex_unlock(&loop->lock);
        pthread_join(loop->thread, NULL);
        loop_destroy(loop);
        return NULL;
}

int loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t deadline_us)
{
        pthread_mutex_lock(&loop->lock);
        int r = timer->slot ? 1 : heap_reserve(loop);
        if (r >= 0) {
                heap_sift(loop, timer->slot ? timer->slot - 1 : loop->n_timers++,
                          (struct heap_entry){ deadline_us, timer });
                if (loop->heap[0].deadline_us < loop->wake_at)
                        loop_wake(loop);
        }
        pthread_mutex_unlock(&loop->lock);
        return r;
}

bool loop_timer_stop(struct loop *loop, struct loop_timer *timer)
{
        pthread_mutex_lock(&loop->lock);
        bool armed = timer->slot != 0;
        if (armed)
                heap_remove(loop, timer);
        pthread_mutex_unlock(&loop->lock);
        return armed;
}

/* Adds a watch. Returns 0; -EBUSY: it is watched; -ENOMEM; other -errno of epoll. The lock is held. */
static int watch_add(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events)
{
        if (watch->id != 0)
                return -EBUSY;
        struct watch_entry *entry = calloc(1, sizeof(*entry));
        if (!entry)
                return -ENOMEM;
        entry->id = loop->last_id + 1;
        entry->watch = watch;
        HASH_ADD(hh, loop->watches, id, sizeof(entry->id), entry);
        if (!entry->hh.tbl) {
                free(entry);
                return -ENOMEM;
        }
        struct epoll_event event = { .events = events | EPOLLONESHOT, .data.u64 = entry->id };
        if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
                int error = errno;
                HASH_DEL(loop->watches, entry);
                free(entry);
                return -error;
        }
        watch->fd = fd;
        watch->id = ++loop->last_id;
        return 0;
}

int loop_watch_start(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events)
{
        pthread_mutex_lock(&loop->lock);
        int r = watch_add(loop, watch, fd, events);
        pthread_mutex_unlock(&loop->lock);
        return r;
}

bool loop_watch_stop(struct loop *loop, struct loop_watch *watch)
{
        pthread_mutex_lock(&loop->lock);
        bool watched = watch->id != 0 && watch_take(loop, watch->id) != NULL;
        pthread_mutex_unlock(&loop->lock);
        return watched;
}
