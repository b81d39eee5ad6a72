/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_INTERNAL_H
#define BENCH_INTERNAL_H

#include <stddef.h>
#include <sys/types.h>

enum { ARGUMENTS_MAX = 32 };

/*
 * A watchpoint of the processor (probe.c) now and then ends the process that it watches by SIGTRAP, the kernel finding
 * no event that it belongs to. Ours do not raise that signal. bench.py then measures again.
 */
enum { EXIT_TRAPPED = 75 };

/* Ends and reaps every process; async-signal-safe. The exit status that suits how they ended: EXIT_FAILURE or
 * EXIT_TRAPPED. */
int processes_end(void);
/* Makes the signals that end us end them, too. */
void processes_init(void);

/* Adds flags (ended by NULL; NULL = none) behind the n arguments that are there; how many are there then. */
size_t copy_flags(const char **arguments, size_t n, const char *const *flags);
/* The path of a program next to this one. size: at least 64 more than it may have. */
void program_path(const char *name, char *path, size_t size);
void make_pipe(int ends[2]);
/* Runs a program with these as standard input (-1 = nothing) and output; a process that ends with us. */
pid_t spawn(const char *const *arguments, int in, int out);
/* Waits for its end: its wait status. */
int finish(pid_t pid);
/* In a child forked by other means: its own process group, so that Ctrl-C comes to us alone and we end it once. */
void child_begin(pid_t parent);
void remember(pid_t pid);

#endif
