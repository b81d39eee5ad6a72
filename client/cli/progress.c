/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ferry/clock.h>

#include "cli.h"

enum { PROGRESS_COLUMNS = 80, PROGRESS_TEXT = 60, PROGRESS_BAR_MIN = 5, PROGRESS_BAR_MAX = 50 };

/* Formats the remaining time; once done, the time of connecting. */
static void progress_time(char *text, size_t size, const struct ferry_operation *operation, double rate)
{
        double left = (double)operation->bytes_total - (double)operation->bytes_done;
        double seconds = rate > 0 ? left / rate : -1;
        if (operation->done && operation->connect_us)
                snprintf(text, size, "connect %.1f ms", (double)operation->connect_us / 1000);
        else if (seconds < 0 || seconds > 359999)
                snprintf(text, size, "eta -:--");
        else
                snprintf(text, size, "eta %u:%02u", (unsigned)seconds / 60, (unsigned)seconds % 60);
}

static unsigned progress_columns(FILE *stream)
{
        struct winsize window = { 0 };
        return ioctl(fileno(stream), TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : PROGRESS_COLUMNS;
}

void cli_progress_line(struct cli_progress *progress, const char *text)
{
        fprintf(progress->stream, "\r\033[K%.*s", (int)progress_columns(progress->stream) - 1, text);
        fflush(progress->stream);
        progress->drawn = true;
}

/* The bar where it has room. */
static void progress_draw(struct cli_progress *progress, double part, const char *text)
{
        static const char full[PROGRESS_BAR_MAX + 1] = "##################################################";
        static const char empty[PROGRESS_BAR_MAX + 1] = "..................................................";
        int width = (int)progress_columns(progress->stream) - PROGRESS_TEXT, filled;
        char line[PROGRESS_BAR_MAX + 256];
        width = width < PROGRESS_BAR_MAX ? width : PROGRESS_BAR_MAX;
        if (width < PROGRESS_BAR_MIN) {
                cli_progress_line(progress, text);
                return;
        }
        filled = (int)(part * width);
        snprintf(line, sizeof(line), "[%.*s%.*s] %s", filled, full, width - filled, empty, text);
        cli_progress_line(progress, line);
}

bool cli_draws(int fd)
{
        const char *term = getenv("TERM");
        return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

struct cli_progress cli_progress_make(const struct cli *cli)
{
        return (struct cli_progress){ .stream = !cli->quiet && cli_draws(STDERR_FILENO) ? stderr : NULL };
}

int cli_progress_show(void *context, const struct ferry_operation *operation)
{
        struct cli_progress *p = context;
        uint64_t now = ferry_clock_ms();
        char done[32], total[32], speed[32], time[32], text[160];
        if (!p->stream)
                return 0;
        if (p->start_ms == 0) {
                p->start_ms = now;
                p->start_bytes = operation->bytes_done;
        }
        double part = operation->bytes_total ? (double)operation->bytes_done / (double)operation->bytes_total : 0;
        double moved = (double)operation->bytes_done - (double)p->start_bytes;
        double rate = now > p->start_ms && moved > 0 ? moved * 1000 / (double)(now - p->start_ms) : 0;
        if (operation->done && operation->duration_us)
                rate = (double)operation->bytes_done * 1e6 / (double)operation->duration_us;
        part = part > 1 ? 1 : part;
        cli_bytes_format(done, sizeof(done), (double)operation->bytes_done);
        cli_bytes_format(total, sizeof(total), (double)operation->bytes_total);
        cli_bytes_format(speed, sizeof(speed), rate);
        progress_time(time, sizeof(time), operation, rate);
        snprintf(text, sizeof(text), "%3.0f%% %s / %s  %s/s  %s", part * 100, done, total, speed, time);
        progress_draw(p, part, text);
        return 0;
}

void cli_progress_end(struct cli_progress *progress)
{
        if (progress->drawn)
                fputc('\n', progress->stream);
        progress->drawn = false;
}
