/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"

/*
 * The whole terminal, for a command that redraws it: the alternate screen, without echo and cursor. However the command
 * ends, and while it is stopped, the terminal is as it was before: screen_close(), and signals_before_death() where the
 * process dies of a signal.
 *
 * Thread: the main thread; screen_read_keys() has its own. The handlers read before and has_keys, which do not change
 * while the handlers are installed.
 */
static struct {
        bool open;
        bool has_keys;         /* standard input is a terminal: */
        struct termios before; /* its settings */
        pthread_t keys;
        bool keys_run;
} screen;

static volatile sig_atomic_t screen_is_old; /* what was drawn is not there, or has another width */

static void screen_write(const char *text)
{
        (void)!write(STDOUT_FILENO, text, strlen(text));
}

/* In the background the kernel stops the process here, before anything is drawn. Safe in a handler. */
static void screen_enter(void)
{
        struct termios own = screen.before;
        own.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        if (screen.has_keys)
                (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &own);
        screen_write("\033[?1049h\033[?25l");
}

/* Forgets keys that nobody has read. Safe in a handler. */
static void screen_leave(void)
{
        screen_write("\033[?25h\033[?1049l");
        if (screen.has_keys)
                (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &screen.before);
}

/* Ctrl-Z stops the process in raise(), until a shell lets it go on. */
static void screen_stop(int number)
{
        struct sigaction action, stop = { .sa_handler = SIG_DFL };
        sigset_t set;
        int error = errno;
        screen_leave();
        sigaction(number, &stop, &action);
        sigemptyset(&set);
        sigaddset(&set, number);
        raise(number);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        sigprocmask(SIG_BLOCK, &set, NULL);
        sigaction(number, &action, NULL);
        screen_enter();
        screen_is_old = 1;
        signals_abort();
        errno = error;
}

static void screen_resize(int number)
{
        int error = errno;
        (void)number;
        screen_is_old = 1;
        signals_abort();
        errno = error;
}

bool screen_wants_redraw(void)
{
        return screen_is_old;
}

void screen_redraws(void)
{
        screen_is_old = 0;
}

/* q does what Ctrl-C does, which also ends a request in progress. */
static void *screen_read_keys(void *context)
{
        char key;
        while (read(STDIN_FILENO, &key, 1) == 1)
                if (key == 'q')
                        kill(getpid(), SIGINT);
        return context;
}

void screen_open(void)
{
        struct sigaction stop = { .sa_handler = screen_stop }, resize = { .sa_handler = screen_resize };
        sigset_t all, before;
        screen.has_keys = tcgetattr(STDIN_FILENO, &screen.before) == 0;
        screen_enter();
        screen.open = true;
        signals_before_death(screen_leave);
        sigfillset(&stop.sa_mask);
        sigfillset(&resize.sa_mask);
        sigaction(SIGTSTP, &stop, NULL);
        sigaction(SIGWINCH, &resize, NULL);
        sigfillset(&all); /* they are the main thread's */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        screen.keys_run = screen.has_keys && pthread_create(&screen.keys, NULL, screen_read_keys, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void screen_close(void)
{
        if (!screen.open)
                return;
        screen.open = false;
        if (screen.keys_run) {
                pthread_cancel(screen.keys);
                (void)pthread_join(screen.keys, NULL);
        }
        signal(SIGTSTP, SIG_DFL);
        signal(SIGWINCH, SIG_DFL);
        signals_before_death(NULL);
        screen_leave();
}
