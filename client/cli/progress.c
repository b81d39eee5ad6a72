/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <ferry/clock.h>

#include "cli.h"

/*
 * Progress: one line of the terminal for the phase that runs, drawn again at most every PROGRESS_NEXT_MS, and only
 * while the process may write to the terminal. It is state of the process, as the terminal is, and belongs to the main
 * thread.
 */

enum {
        PROGRESS_COLUMNS = 80, /* of a terminal that tells no width */
        PROGRESS_LINE = 1024,
        PROGRESS_LABEL = 32,
        PROGRESS_FIGURE = 6, /* columns that the label leaves for a percentage */
        PROGRESS_BAR_MIN = 8,
        PROGRESS_BAR_MAX = 40,
        PROGRESS_FIRST_MS = 250, /* a shorter phase leaves no line */
        PROGRESS_NEXT_MS = 100,
        PROGRESS_LOOK_MS = 200,
        PROGRESS_HOURS_MAX = 99,
};

static struct {
        bool allowed;
        bool drawn; /* the cursor stands behind the line */
        bool over;  /* the phase has ended */
        const char *what;
        char name[256];
        uint64_t total, done;
        uint64_t start_ms, start_bytes, drawn_ms;
        uint64_t took_us;    /* as the worker has measured it; 0 = not */
        uint64_t connect_us; /* before that, to connect; 0 = it did not have to */
        uint64_t waiting_ms; /* when the wait for the peer began; 0 = never */
        char served[64];     /* peers, of an offer of several uses */
        char note[64];       /* stands in place of the time left */
        char rest[512];      /* stands last */
} progress;

struct line {
        char text[PROGRESS_LINE];
        size_t used, width, columns;
};

bool cli_draws(int fd)
{
        const char *term = getenv("TERM");
        return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

unsigned cli_columns(int fd)
{
        struct winsize window = { 0 };
        return ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : PROGRESS_COLUMNS;
}

void progress_allow(bool allowed)
{
        progress.allowed = allowed && cli_draws(STDERR_FILENO);
}

/* A shell's job in the background must not write over what its user types. */
static bool progress_can_draw(void)
{
        pid_t group = tcgetpgrp(STDERR_FILENO); /* -1: it is not the terminal that controls this process */
        return progress.allowed && progress.what && (group < 0 || group == getpgrp());
}

unsigned progress_look_ms(unsigned otherwise_ms)
{
        return progress.allowed ? PROGRESS_LOOK_MS : otherwise_ms;
}

/* ---- the line ---- */

/* Adds a part behind two blanks, if it fits. Parts come by how much they are worth. */
static void line_add(struct line *line, const char *part)
{
        size_t width = cli_text_width(part), gap = line->width ? 2 : 0;
        if (!*part || line->width + gap + width > line->columns)
                return;
        int n = snprintf(line->text + line->used, sizeof(line->text) - line->used, "%*s%s", (int)gap, "", part);
        line->used += n > 0 && (size_t)n < sizeof(line->text) - line->used ? (size_t)n : 0;
        line->width += gap + width;
}

/* The last part may be cut. */
static void line_add_rest(struct line *line, char *part, size_t size)
{
        if (line->columns >= line->width + 2)
                cli_text_cut(part, size, line->columns - line->width - 2);
        line_add(line, part);
}

static void line_add_time(struct line *line, const char *format, double seconds)
{
        char time[32], part[64];
        uint64_t s = seconds > 0 ? (uint64_t)(seconds + 0.5) : 0;
        if (s / 3600 > PROGRESS_HOURS_MAX)
                return;
        if (s >= 3600)
                snprintf(time, sizeof(time), "%u:%02u:%02u", (unsigned)(s / 3600), (unsigned)(s / 60 % 60),
                         (unsigned)(s % 60));
        else
                snprintf(time, sizeof(time), "%u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
        snprintf(part, sizeof(part), format, time);
        line_add(line, part);
}

static void line_add_duration(struct line *line, uint64_t us)
{
        char part[32];
        if (us >= 60000000) {
                line_add_time(line, "in %s", (double)us / 1e6);
                return;
        }
        snprintf(part, sizeof(part), "in %.1f %s", (double)us / (us < 1000000 ? 1e3 : 1e6), us < 1000000 ? "ms" : "s");
        line_add(line, part);
}

/* Adds a bar that takes what remains of the width. part: 0 to 1. */
static void line_add_bar(struct line *line, double part)
{
        char bar[PROGRESS_BAR_MAX + 3];
        size_t room = line->columns - line->width, width = room < sizeof(bar) + 1 ? room : sizeof(bar) + 1;
        if (width < PROGRESS_BAR_MIN + 4)
                return;
        width -= 4; /* the blanks and the brackets */
        size_t filled = (size_t)(part * (double)width);
        bar[0] = '[';
        memset(bar + 1, '#', filled);
        memset(bar + 1 + filled, '.', width - filled);
        memcpy(bar + 1 + width, "]", 2);
        line_add(line, bar);
}

static void line_add_label(struct line *line)
{
        size_t most = line->columns > PROGRESS_FIGURE ? line->columns - PROGRESS_FIGURE : line->columns;
        char label[sizeof(progress.name) + 64];
        snprintf(label, sizeof(label), "%s%s%s", progress.what, *progress.name ? " " : "", progress.name);
        cli_text_cut(label, sizeof(label), most < PROGRESS_LABEL ? most : PROGRESS_LABEL);
        line_add(line, label);
}

static void line_add_figures(struct line *line)
{
        uint64_t now_ms = ferry_clock_ms(), took_ms = now_ms - progress.start_ms;
        double moved = (double)progress.done - (double)progress.start_bytes;
        double rate = took_ms && moved > 0 ? moved * 1000 / (double)took_ms : 0;
        double part = progress.total ? (double)progress.done / (double)progress.total : 0;
        if (progress.took_us)
                rate = (double)progress.done * 1e6 / (double)progress.took_us;
        char done[32], figure[96];
        part = part > 1 ? 1 : part;
        if (progress.total) {
                snprintf(figure, sizeof(figure), "%3.0f%%", part * 100);
                line_add(line, figure);
        }
        line_add(line, progress.served);
        if (*progress.note)
                line_add(line, progress.note);
        else if (progress.over)
                line_add_duration(line, progress.took_us ? progress.took_us : took_ms * 1000);
        else if (progress.total && rate > 0)
                line_add_time(line, "%s left", (double)(progress.total - progress.done) / rate);
        if (rate > 0) {
                cli_bytes_format(done, sizeof(done), rate);
                snprintf(figure, sizeof(figure), "%s/s", done);
                line_add(line, figure);
        }
        if (progress.total || progress.done) {
                cli_bytes_format(done, sizeof(done), (double)progress.done);
                size_t n = (size_t)snprintf(figure, sizeof(figure), "%s", done);
                cli_bytes_format(done, sizeof(done), (double)progress.total);
                if (progress.total)
                        snprintf(figure + n, sizeof(figure) - n, " of %s", done);
                line_add(line, figure);
        }
        if (progress.connect_us && !*progress.rest) {
                snprintf(figure, sizeof(figure), "connect %.1f ms", (double)progress.connect_us / 1000);
                line_add(line, figure);
        }
        line_add_rest(line, progress.rest, sizeof(progress.rest));
        if (progress.total)
                line_add_bar(line, part);
}

static void progress_draw(void)
{
        struct line line = { .columns = cli_columns(STDERR_FILENO) - 1 }; /* in the last one, the line would wrap */
        line_add_label(&line);
        line_add_figures(&line);
        fprintf(stderr, "\r\033[K%s", line.text);
        fflush(stderr);
        progress.drawn = true;
        progress.drawn_ms = ferry_clock_ms();
}

/* ---- phases ---- */

void progress_begin(const char *what, const char *name, uint64_t total)
{
        const char *slash = name ? strrchr(name, '/') : NULL;
        progress_end();
        progress.what = what;
        progress.total = total == FERRY_SIZE_UNKNOWN ? 0 : total;
        progress.start_ms = ferry_clock_ms();
        snprintf(progress.name, sizeof(progress.name), "%s", slash && slash[1] ? slash + 1 : name ? name : "");
        cli_mask_controls(progress.name);
}

static void progress_update(void)
{
        uint64_t now_ms = ferry_clock_ms();
        bool due = progress.drawn_ms ? now_ms - progress.drawn_ms >= PROGRESS_NEXT_MS
                                     : now_ms - progress.start_ms >= PROGRESS_FIRST_MS;
        if (due && progress_can_draw())
                progress_draw();
}

void progress_move(uint64_t done)
{
        progress.done = done;
        progress_update();
}

void progress_await(int fd, short events)
{
        while (progress.allowed && progress.what &&
               poll(&(struct pollfd){ .fd = fd, .events = events }, 1, PROGRESS_LOOK_MS) == 0)
                progress_update();
}

void progress_tell(uint64_t done, const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(progress.rest, sizeof(progress.rest), format, arguments);
        va_end(arguments);
        cli_mask_controls(progress.rest);
        progress_move(done);
}

void progress_break(void)
{
        if (progress.drawn)
                fputc('\n', stderr);
        progress.drawn = false;
}

void progress_end(void)
{
        uint64_t waiting_ms = progress.waiting_ms;
        bool allowed = progress.allowed;
        progress.over = true;
        if (progress.drawn && progress_can_draw())
                progress_draw();
        progress_break();
        memset(&progress, 0, sizeof(progress));
        progress.allowed = allowed;
        progress.waiting_ms = waiting_ms;
}

/* ---- of an operation ---- */

/* Seconds between two times of one worker's clock. false: one of them is missing. */
static bool progress_between(const char *from, const char *to, double *ret_seconds)
{
        struct tm first = { 0 }, last = { 0 };
        if (!strptime(from, "%Y-%m-%dT%H:%M:%S", &first) || !strptime(to, "%Y-%m-%dT%H:%M:%S", &last))
                return false;
        *ret_seconds = difftime(timegm(&last), timegm(&first));
        return true;
}

/* An offer that waits: how long it will. The worker's clock may be another one than ours. */
static void progress_wait(const struct ferry_operation *operation)
{
        struct line note = { .columns = sizeof(progress.note) - 1 };
        uint64_t now_ms = ferry_clock_ms();
        double ttl;
        progress.waiting_ms = progress.waiting_ms ? progress.waiting_ms : now_ms;
        if (progress_between(operation->created_at, operation->expires_at, &ttl))
                line_add_time(&note, "%s left", ttl - (double)(now_ms - progress.waiting_ms) / 1000);
        snprintf(progress.note, sizeof(progress.note), "%.*s", (int)sizeof(progress.note) - 1, note.text);
}

static void progress_finish(const struct ferry_operation *operation)
{
        progress.over = true;
        progress.took_us = operation->duration_us;
        progress.connect_us = operation->connect_us;
        if (operation->status == FERRY_COMPLETE && progress_can_draw())
                progress_draw();
}

/* Of an offer of several uses: the phases alternate, on one line. */
static void progress_turn(const char *what)
{
        progress.what = what;
        progress.start_ms = ferry_clock_ms();
        *progress.note = '\0';
}

static void progress_count_uses(const struct ferry_operation *operation)
{
        char of[32] = "";
        if (operation->uses < FERRY_USES_UNLIMITED)
                snprintf(of, sizeof(of), " of %" PRIu64, operation->uses);
        snprintf(progress.served, sizeof(progress.served), "%" PRIu64 "%s served", operation->uses_done, of);
}

/*
 * The bytes of an offer of several uses are those of the peer that has come furthest: once one has all, they tell
 * nothing of the others.
 */
int progress_operation(void *context, const struct ferry_operation *operation)
{
        static const char waiting[] = "waiting for the peer", moving[] = "transferring";
        bool waits = ferry_kind_is_passive(operation->kind) && !operation->done &&
                     (operation->status == FERRY_INITIALIZED || *operation->expires_at);
        bool shared = operation->uses > 1, counts = !waits && !(shared && operation->uses_done);
        const char *what = waits ? waiting : moving;
        if (progress.what != what && !(operation->done && operation->status != FERRY_COMPLETE)) {
                if (shared && (progress.what == waiting || progress.what == moving))
                        progress_turn(what);
                else
                        progress_begin(what, NULL, 0);
                progress.start_bytes = counts ? operation->bytes_done : 0;
        }
        progress.total = counts ? operation->bytes_total : 0;
        progress.done = counts ? operation->bytes_done : 0;
        if (shared)
                progress_count_uses(operation);
        if (waits)
                progress_wait(operation);
        if (operation->done)
                progress_finish(operation);
        else
                progress_update();
        return 0;
}
