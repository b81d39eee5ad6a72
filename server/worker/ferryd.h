/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_FERRYD_H
#define WORKER_FERRYD_H

#include <ferry/options.h>
#include <ferry/worker.h>

/* ---- options ---- */

/*
 * The options of a worker and of ferryd, from <ferry/option_table.h>. One that is not given and has no default there is
 * 0 or NULL, and its layer chooses. log_level, log_format and gpu_direct are an enum log_level, log_format and
 * device_gpudirect.
 */
struct ferry_worker_options {
        struct ferry_option_base base;
#define WORKER(part, letter, name, variable, kind, field, ...) FERRY_VALUE_##kind field;
#define FERRYD WORKER
#include <ferry/option_table.h>
};

/*
 * Completes zeroed options, of which some fields may be set: makes them ready for the functions of <ferry/options.h>,
 * and sets defaults. ferryd: with those that a worker inside another program lacks.
 */
void worker_options_init(struct ferry_worker_options *options, bool ferryd);

/* Logs which FERRY_ variables of the environment are unknown, but close to a known one. Any thread. */
void options_check_environment(void);

/* Reads argv and the environment; see ferry_options_read. Call ferry_options_clear in any case. */
int options_parse(int argc, char *const *argv, struct ferry_worker_options *ret_options);

/* Prints --help. */
void options_help(FILE *file);

/* ---- the worker ---- */

/* What libferry-worker offers to ferryd beyond the public header. */

/*
 * Starts a worker with parsed options. Returns 0; -EINVAL where the options are at fault; the other errors of
 * ferry_worker_new. ferry_worker_error() has the sentence.
 */
int worker_new(const struct ferry_worker_options *options, struct ferry_worker **ret_worker);

/*
 * Reloads the files of tokens and certificates, for new requests and connections. 0; -errno with a sentence in
 * ferry_worker_error(), and what was in use before stays in use. One thread at a time.
 */
int worker_reload(struct ferry_worker *worker);

#endif
