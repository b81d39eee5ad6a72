/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/status.h>

/*
 * A job: the region and the operation that a command makes, and that job_end() removes however the command ends. While
 * a request makes one of them, signals are deferred: the command must learn the id, or it could not remove it. The end
 * is reached after a signal, too: ferry_resume() lets the handle make calls again.
 */

enum {
        JOB_LOOK_MS = 1000,   /* without progress: how late a worker that has stopped is noticed */
        JOB_AWAY_MS = 3000,   /* for a worker that restarts; it then has neither region nor operation */
        JOB_CANCEL_MS = 5000, /* for a running transfer to end after a cancel */
};

/* The exit status of a call. A worker that did not answer in time is not asked again at the end (job_end). */
static int job_result(struct job *job, int r)
{
        job->silent = r == -ETIMEDOUT;
        return cli_result(job->worker, r);
}

/* The exit status of a call that names the job's region. */
static int job_region_result(struct job *job, int r)
{
        return r == FERRY_E_NOT_FOUND ? cli_region_result(job->worker, &job->region, r) : job_result(job, r);
}

int job_begin_region(struct job *job, uint64_t size, const char *name, uint64_t idle_ms)
{
        static const char *const headers[] = { "Prefer: respond-async", NULL };
        struct json_object *body = json_object_new_object(), *made = NULL;
        struct ferry_answer answer = { 0 };
        json_object_object_add(body, "size", json_object_new_int64((int64_t)size));
        if (name)
                json_object_object_add(body, "name", json_object_new_string(name));
        if (idle_ms)
                json_object_object_add(body, "idle_ms", json_object_new_int64((int64_t)idle_ms));
        const char *text = json_object_to_json_string(body);
        struct ferry_exchange exchange = { .method = "POST",
                                           .path = "/v1/regions",
                                           .content_type = "application/json",
                                           .body = text,
                                           .size = strlen(text),
                                           .headers = headers };
        signals_defer();
        int r = ferry_exchange_perform(job->worker->ferry, &exchange, &answer);
        if (r == 0)
                made = table_parse(answer.body);
        snprintf(job->region.id, sizeof(job->region.id), "%s", member_text(made, "id", ""));
        job->region.idle_ms = idle_ms;
        signals_resume();
        json_object_put(made);
        json_object_put(body);
        ferry_answer_clear(&answer);
        return r;
}

void job_watch_region(const struct job *job, uint64_t wait_ms)
{
        char path[64 + FERRY_ID_SIZE];
        struct ferry_exchange exchange = { .method = "GET", .path = path, .wait_ms = wait_ms };
        struct ferry_answer answer;
        snprintf(path, sizeof(path), "/v1/regions/%s?wait_ms=%" PRIu64, job->region.id, wait_ms);
        (void)ferry_exchange_perform(job->worker->ferry, &exchange, &answer);
        ferry_answer_clear(&answer);
}

int job_make_region(struct job *job, uint64_t size, const char *name)
{
        struct ferry_region now = { 0 };
        char own[32];
        snprintf(own, sizeof(own), "ferry %s", job->cli->command->name);
        progress_begin("allocating", NULL, size);
        int r = job_begin_region(job, size, name ? name : own, job->cli->idle_ms);
        if (r == 0 && !job->region.id[0])
                return table_nonsense(job->worker, "/v1/regions");
        while (r == 0 && !signals_caught()) {
                r = ferry_get_region(job->worker->ferry, job->region.id, &now);
                if (r != 0 || strcmp(now.state, "preparing") != 0)
                        break;
                progress_move(now.bytes_prepared);
                job_watch_region(job, progress_look_ms(JOB_LOOK_MS));
        }
        if (r != 0 || signals_caught())
                return job_region_result(job, r == 0 ? -ECANCELED : r);
        progress_move(size);
        progress_end();
        job->region = now;
        return strcmp(now.state, "failed") == 0 ? cli_problem("%s: %s", now.error_code, now.error_detail) : CLI_OK;
}

int job_make_operation(struct job *job, struct ferry_operation_spec *spec, const char *region_id, uint64_t size)
{
        struct ferry_descriptor descriptor = { .region = region_id, .size = size };
        spec->descriptors = &descriptor;
        spec->n_descriptors = 1;
        spec->verify = job->cli->verify && !ferry_kind_is_passive((int)spec->kind);
        spec->ttl_ms = job->cli->ttl_ms;
        spec->renew_max_ms = job->cli->renew_max_ms;
        if (job->cli->uses)
                (void)cli_uses_parse(job->cli->uses, &spec->uses);
        spec->label = job->cli->label;
        signals_defer();
        int r = ferry_create_operation(job->worker->ferry, spec, &job->operation);
        signals_resume();
        return job_region_result(job, r == 0 && signals_caught() ? -ECANCELED : r);
}

int job_wait(struct job *job)
{
        struct ferry_watch watch = { .timeout_ms = FERRY_FOREVER,
                                     .interval_ms = progress_look_ms(JOB_LOOK_MS),
                                     .progress = progress_operation,
                                     .away_ms = JOB_AWAY_MS };
        struct ferry_operation last = { 0 };
        if (job->operation.done) {
                (void)progress_operation(NULL, &job->operation);
                progress_end();
                return cli_operation_result(&job->operation);
        }
        int r = ferry_watch_operation(job->worker->ferry, job->operation.id, &watch, &last);
        progress_end();
        if (r != 0) {
                ferry_operation_clear(&last);
                return job_result(job, r);
        }
        ferry_operation_clear(&job->operation);
        job->operation = last;
        return cli_operation_result(&job->operation);
}

/* Prints the operation as the worker shows it. That of an offer is a line, as its announcement was. */
int job_report(struct job *job)
{
        struct ferry_answer answer;
        char path[64 + FERRY_ID_SIZE];
        if (!job->cli->json)
                return CLI_OK;
        snprintf(path, sizeof(path), "/v1/operations/%s", job->operation.id);
        int r = ferry_request(job->worker->ferry, "GET", path, NULL, NULL, 0, &answer);
        int status = r != 0 || !answer.body                       ? job_result(job, r)
                     : ferry_kind_is_passive(job->operation.kind) ? table_print_answer_line(answer.body)
                                                                  : table_print_answer(answer.body);
        ferry_answer_clear(&answer);
        return status;
}

/* A missing resource counts as deleted. */
static int job_gone(int r)
{
        return r == FERRY_E_NOT_FOUND || r == FERRY_E_GONE ? 0 : r;
}

void job_end(struct job *job)
{
        struct ferry *f = job->worker ? job->worker->ferry : NULL;
        struct ferry_operation last = { 0 };
        int r = job->silent ? -ETIMEDOUT : 0;
        if (!f || (!job->operation.id[0] && !job->region.id[0])) {
                if (job->silent) /* it may yet do what it was asked for */
                        (void)cli_problem(
                                "should %s still get the request, what it makes stays: see ferry regions -u %s",
                                job->worker->url, job->worker->url);
                job->silent = false;
                return;
        }
        signals_defer();
        ferry_resume(f);
        if (job->operation.id[0] && r == 0 && !job->operation.done) {
                r = job_gone(ferry_cancel_operation(f, job->operation.id, NULL));
                if (r == 0)
                        r = job_gone(ferry_wait_operation(f, job->operation.id, JOB_CANCEL_MS, &last));
                ferry_operation_clear(&last);
        }
        if (job->operation.id[0] && r == 0)
                r = job_gone(ferry_delete_operation(f, job->operation.id));
        bool deleted = r == 0 || !job->operation.id[0];
        if (job->region.id[0] && r >= 0)
                r = job_gone(ferry_delete_region(f, job->region.id));
        /* A worker that has ended has no resources left. */
        if (r != 0 && r != -ECONNREFUSED && r != -ECONNRESET) {
                job->cli->left = true;
                (void)cli_problem("what it made stays at %s (%s): remove it with ferry rm%s%s%s%s -u %s",
                                  job->worker->url, ferry_last_message(f), deleted ? "" : " ",
                                  deleted ? "" : job->operation.id, job->region.id[0] ? " " : "", job->region.id,
                                  job->worker->url);
        }
        ferry_operation_clear(&job->operation);
        job->region = (struct ferry_region){ 0 };
        signals_resume();
}

/* The worker's URL for others, if it knows one. For free(). */
static char *job_public_url(const struct cli_worker *worker)
{
        struct ferry_worker_info info = { 0 };
        char *url = NULL;
        if (strncmp(worker->url, "unix:", 5) != 0 && strstr(worker->url, "/v1"))
                return strdup(worker->url);
        if (ferry_get_worker(worker->ferry, &info) == 0 && info.url[0])
                url = strdup(info.url);
        ferry_worker_info_clear(&info);
        return url ? url : strdup(worker->url);
}

int job_announce(struct job *job, const char *use)
{
        char *base = job_public_url(job->worker), *url = base ? link_metadata(base, job->operation.id) : NULL;
        free(base);
        if (!url)
                return cli_usage_error("%s", strerror(ENOMEM));
        struct json_object *line = json_object_new_object();
        json_object_object_add(line, "url", json_object_new_string(url));
        json_object_object_add(line, "operation", json_object_new_string(job->operation.id));
        json_object_object_add(line, "region", json_object_new_string(job->region.id));
        json_object_object_add(line, "size", json_object_new_int64((int64_t)job->region.size));
        cli_mask_controls(url);
        int status = job->cli->json ? table_print_line(line) : cli_print(url);
        bool read = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) && !job->cli->quiet && !job->cli->json;
        if (status == CLI_OK && read)
                fprintf(stderr, use, url);
        json_object_put(line);
        free(url);
        return status;
}
